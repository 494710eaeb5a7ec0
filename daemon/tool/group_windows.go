package tool

import "os/exec"

// Group is one process: there are no groups here, and the command alone is
// killed.
type Group struct{ cmd *exec.Cmd }

// NewGroup returns the group of a command that is not started.
func NewGroup(cmd *exec.Cmd) *Group { return &Group{cmd} }

// Kill ends the command, which must have been started.
func (g *Group) Kill() { g.cmd.Process.Kill() } //nolint:errcheck // it has ended already

// Terminate is Kill: the system has no request to exit.
func (g *Group) Terminate() { g.Kill() }

// Wait waits for the command.
func (g *Group) Wait() error { return g.cmd.Wait() }
