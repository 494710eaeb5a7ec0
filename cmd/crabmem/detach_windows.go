package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// detached is how a process is started that outlives the terminal.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}

// terminate kills a process, because a process without a console cannot be
// asked to exit. Its acknowledged writes are on disk.
func terminate(p *os.Process) error { return p.Kill() }
