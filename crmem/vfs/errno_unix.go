//go:build unix

package vfs

import "syscall"

// errQuota is a disk quota that is used up.
var errQuota error = syscall.EDQUOT
