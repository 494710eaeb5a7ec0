package external

import (
	"os"
	"syscall"
)

var otherGroup = &syscall.SysProcAttr{}

// gone reports whether no process has that number.
func gone(pid int) bool {
	p, err := os.FindProcess(pid)
	if err == nil {
		p.Release()
	}
	return err != nil
}
