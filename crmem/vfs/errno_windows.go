package vfs

import "golang.org/x/sys/windows"

// errQuota is the error of a full disk, because Windows has no separate quota
// error.
var errQuota error = windows.ERROR_DISK_FULL
