//go:build unix

package main

import (
	"os"
	"syscall"
)

// detached is how a process is started that outlives the terminal.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// terminate asks a process to exit.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
