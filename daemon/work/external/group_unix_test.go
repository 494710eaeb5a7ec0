//go:build unix

package external

import (
	"errors"
	"syscall"
)

// otherGroup puts a command into a session of its own.
var otherGroup = &syscall.SysProcAttr{Setsid: true}

// gone reports whether no process has that number.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
