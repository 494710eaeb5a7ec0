//go:build unix

package measure

import (
	"syscall"
	"time"
)

// CPU returns the CPU time, user and system, that the process has used.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
