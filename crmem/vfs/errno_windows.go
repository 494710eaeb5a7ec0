package vfs

import "golang.org/x/sys/windows"

// errQuota stands for what Windows says of a full disk: it has no quota error
// of its own.
var errQuota error = windows.ERROR_DISK_FULL
