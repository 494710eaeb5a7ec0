//go:build unix

package mcp

import (
	"errors"
	"syscall"
)

// gone reports whether no process has that number, not even a zombie.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
