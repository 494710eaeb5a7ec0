package tool

import (
	"golang.org/x/sys/unix"
)

// waitEnd waits until a child has ended, and leaves it to be waited for: its
// number stays its own.
func waitEnd(pid int) bool {
	for {
		switch err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err {
		case nil:
			return true
		case unix.EINTR:
		default:
			return false
		}
	}
}
