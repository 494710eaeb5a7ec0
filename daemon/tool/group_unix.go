//go:build unix

package tool

import (
	"os/exec"
	"sync"
	"syscall"
)

// group is the processes of a command. It is killed by its number, which is
// the command's as long as that has not been waited for.
type group struct {
	cmd *exec.Cmd

	mu     sync.Mutex
	waited bool
}

// newGroup makes a command that is not started the first of a group and a
// session: it has no terminal to ask on.
func newGroup(cmd *exec.Cmd) *group {
	g := &group{cmd: cmd}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { g.kill(); return nil }
	return g
}

func (g *group) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.waited {
		syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// wait returns when the command has ended and what was left of its group is
// killed. It is still to be waited for.
func (g *group) wait() {
	if !waitEnd(g.cmd.Process.Pid) {
		return
	}
	g.kill()
	g.mu.Lock()
	g.waited = true
	g.mu.Unlock()
}

// end is called when the command has been waited for.
func (g *group) end() { g.kill() }
