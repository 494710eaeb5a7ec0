//go:build unix

package tool

import (
	"os/exec"
	"sync"
	"syscall"
)

// Group is the processes of a command. It is signalled by its number, which is
// the command's as long as that has not been waited for.
type Group struct {
	cmd *exec.Cmd

	mu     sync.Mutex
	waited bool
}

// NewGroup makes an unstarted command the leader of a new process group and
// session, without a terminal. When the command's context ends, the group is
// killed.
func NewGroup(cmd *exec.Cmd) *Group {
	g := &Group{cmd: cmd}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { g.Kill(); return nil }
	return g
}

// Kill kills the group. The command must have been started.
func (g *Group) Kill() { g.signal(syscall.SIGKILL) }

// Terminate asks the group to exit.
func (g *Group) Terminate() { g.signal(syscall.SIGTERM) }

func (g *Group) signal(sig syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.waited {
		syscall.Kill(-g.cmd.Process.Pid, sig)
	}
}

// Wait waits for the command, kills the rest of its group, and returns the
// result of the command's Wait.
func (g *Group) Wait() error {
	if waitEnd(g.cmd.Process.Pid) {
		g.Kill()
		g.mu.Lock()
		g.waited = true
		g.mu.Unlock()
	}
	err := g.cmd.Wait()
	g.Kill()
	return err
}
