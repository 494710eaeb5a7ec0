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

// terminate ends a process: there is no asking one without a console. What it
// acknowledged is on the disk.
func terminate(p *os.Process) error { return p.Kill() }
