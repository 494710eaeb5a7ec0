package main

import (
	"os"
	"syscall"
)

// peak returns the largest resident memory of a process that has ended, in bytes.
func peak(p *os.ProcessState) int64 {
	if u, ok := p.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss << 10
	}
	return 0
}
