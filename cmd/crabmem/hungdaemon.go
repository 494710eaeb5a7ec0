package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/doctor"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
)

// maxLockFile bounds the text of a lock.
const maxLockFile = 4 << 10

// The states of /proc/PID/stat in which a process does not run at all.
const (
	stateStopped = 'T' // by SIGSTOP or a terminal
	stateTraced  = 't' // by a debugger
)

var stateNames = map[byte]string{
	'R': "running", 'S': "sleeping", 'D': "waiting for a device", 'Z': "a zombie", 'X': "dead", 'I': "idle",
	stateStopped: "stopped (SIGSTOP)", stateTraced: "stopped by a debugger",
}

func isStopped(state byte) bool { return state == stateStopped || state == stateTraced }

// daemonPID returns the process that holds the home of a socket, from its lock
// file, or 0.
func (c *app) daemonPID(socket string) int {
	for _, home := range []string{filepath.Dir(socket), c.homeDir()} { // CRABMEM_SOCKET may be in another folder
		b, err := vfs.ReadFile(c.fs, filepath.Join(home, "run", "daemon.lock"), maxLockFile)
		if err != nil {
			continue
		}
		if h := vfs.ParseLockHolder(string(b)); c.isLocal(h) {
			return h.PID
		}
	}
	return 0
}

// isLocal reports whether the process of a lock runs on this kernel, so that
// its state can be read.
func (c *app) isLocal(h vfs.LockHolder) bool { return h.PID > 0 && h.Boot == c.fs.BootID() }

// describeProcess returns the state of a process that does not respond, as a
// phrase, and the fix. pid may be 0.
func describeProcess(pid int) (state, fix string) {
	if pid == 0 {
		return "", "run crabmem doctor and crabmem daemon logs"
	}
	end := fmt.Sprintf("kill -KILL %d", pid)
	if runtime.GOOS == "windows" {
		end = fmt.Sprintf("taskkill /F /PID %d", pid)
	}
	end = "end the process with " + end + ", then run crabmem daemon start"
	s := processState(pid)
	switch s {
	case 0:
		return "", "run crabmem daemon logs; " + end
	case stateStopped:
		fix = fmt.Sprintf("continue it with kill -CONT %d, or %s", pid, end)
	case stateTraced:
		fix = fmt.Sprintf("detach the debugger from pid %d, or %s", pid, end)
	case 'D':
		fix = "check the disk; " + end
	default:
		fix = "run crabmem daemon logs; " + end
	}
	name := stateNames[s]
	if name == "" {
		name = fmt.Sprintf("in state %c", s)
	}
	return "is " + name, fix
}

// unresponsive returns the failure for a daemon that did not respond within
// wait.
func (c *app) unresponsive(pid int, wait time.Duration, err error) *errtable.Error {
	state, fix := describeProcess(pid)
	message := fmt.Sprintf("call daemon: no response within %v", wait.Round(time.Millisecond))
	switch {
	case state != "":
		message += fmt.Sprintf(": pid %d %s", pid, state)
	case pid != 0:
		message += fmt.Sprintf(": pid %d", pid)
	}
	return &errtable.Error{Exit: errtable.ExitUnreachable, Kind: client.KindNoResponse, Message: message, Fix: fix, Err: err}
}

func isUnresponsive(err error) bool {
	e, ok := errors.AsType[*errtable.Error](err)
	return ok && e.Kind == client.KindNoResponse
}

// stopped returns the failure for a daemon whose process is stopped, or nil.
func (c *app) stopped(pid int) error {
	if pid == 0 || !isStopped(processState(pid)) {
		return nil
	}
	state, fix := describeProcess(pid)
	return &errtable.Error{Exit: errtable.ExitUnreachable, Kind: client.KindNoResponse, Message: fmt.Sprintf("call daemon: pid %d %s", pid, state), Fix: fix}
}

// warnFailure prints an error that does not end the command, with its fix.
func (c *app) warnFailure(err error) {
	f := classify(err)
	c.Warn(f.Message + "; " + f.Remedy)
}

// lockedBy adds the state of the lock holder to the error of a lock: whether it
// is stopped, or did not respond to the last call.
func (c *app) lockedBy(err error, hung bool) error {
	locked, ok := errors.AsType[*vfs.LockedError](err)
	if !ok || !c.isLocal(locked.Holder) {
		return err
	}
	pid := locked.Holder.PID
	if !hung && !isStopped(processState(pid)) {
		return err
	}
	f := classify(err)
	state, fix := describeProcess(pid)
	f.Remedy = fix
	// crabmem daemon start is no fix for a command.
	if locked.Holder.Socket == "" && isStopped(processState(pid)) {
		f.Remedy = fmt.Sprintf("continue pid %d, or end it", pid)
	}
	if hung {
		f.Message += ", which does not respond"
	}
	if state != "" {
		f.Message += fmt.Sprintf(": pid %d %s", pid, state)
	}
	return f
}

// localOrDaemon is [client.Access.LocalOrDaemon].
func (c *app) localOrDaemon(ctx context.Context, local func() error, serves func(client.Daemon) bool, remote func(*client.Client) error) error {
	return c.access().LocalOrDaemon(ctx, local, serves, func(d *client.Client) error {
		d.Space = c.space
		return remote(d)
	})
}

// withDaemon runs f with a client of the daemon of this home, which the command
// needs. The daemon must respond within client.HelloWait; requests in f end when its
// process stops.
func (c *app) withDaemon(ctx context.Context, f func(d *client.Client) error) error {
	if err := c.checkLocal(); err != nil {
		return err
	}
	d := c.client()
	// Ping, because daemons of other programs do not have Hello.
	waiting, cancel := context.WithTimeout(ctx, client.HelloWait)
	err := d.Ping(waiting)
	cancel()
	switch {
	case client.IsTimeout(ctx, err):
		err = c.unresponsive(c.daemonPID(d.Addr.Address), client.HelloWait, err)
	case err == nil:
		err = f(d)
	}
	return client.Unreachable(errors.Join(err, d.Close()))
}

// describe adds to f the fields of an error that the daemon reported and that are
// not in its row.
func describe(f *cli.Failure, e *client.Error) {
	f.Message = strings.Replace(f.Message, e.Error(), e.Message, 1)
	if ps, ok := errors.AsType[config.Problems](doctor.ConfigError(e)); ok {
		describeConfig(f, ps)
	}
	if f.Path == "" {
		f.Path = e.Path
	}
	if f.Offset == nil {
		f.Offset = e.Offset
	}
}
