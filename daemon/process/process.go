// Package process runs programs that exchange lines with the daemon over their standard
// input and output, and bounds what they, and servers, send.
package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"crabmem/daemon/tool"
)

// Command is a program to start.
type Command struct {
	Path string
	Args []string
	Env  []string // in addition to the variables that programs require
	Dir  string
}

// Process is a started program in a separate process group, with pipes to it.
type Process struct {
	In       *os.File // its standard input
	Out, Err *os.File
	Exited   chan struct{} // closed when it has ended and was waited for
	Status   error         // its exit; read after Exited

	group *tool.Group
	pid   int
}

// inherited are the variables of the daemon's environment that a child gets:
// those that programs require, and none that may be a secret.
var inherited = []string{
	"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
	"XDG_RUNTIME_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP",
	"USERNAME", "USERPROFILE",
}

// environ returns the environment of a child with own variables.
func environ(own []string) []string {
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if slices.Contains(inherited, strings.ToUpper(name)) || strings.HasPrefix(name, "LC_") {
			env = append(env, e)
		}
	}
	return append(env, own...)
}

// Start starts a program.
func Start(c Command) (*Process, error) {
	cmd := exec.CommandContext(context.Background(), c.Path, c.Args...)
	cmd.Env, cmd.Dir = environ(c.Env), c.Dir
	p := &Process{Exited: make(chan struct{}), group: tool.NewGroup(cmd)}
	var files []*os.File
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			files = append(files, r, w)
		}
		return r, w, err
	}
	stdin, in, err1 := pipe()
	out, stdout, err2 := pipe()
	diag, stderr, err3 := pipe()
	err := errors.Join(err1, err2, err3)
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
		p.In, p.Out, p.Err = in, out, diag
		err = cmd.Start()
	}
	if err != nil {
		for _, f := range files {
			f.Close()
		}
		return nil, err
	}
	for _, f := range []*os.File{stdin, stdout, stderr} {
		f.Close()
	}
	p.pid = cmd.Process.Pid
	go func() { // ends with the process, which Stop makes sure of
		p.Status = p.group.Wait()
		close(p.Exited)
	}()
	return p, nil
}

// Pid returns the number of the process.
func (p *Process) Pid() int { return p.pid }

// Stop waits for the program to exit by itself, then asks its group to exit, and
// then kills the group. It returns when the program has ended, and closes Out and
// Err: readers of them end.
func (p *Process) Stop(wait, grace time.Duration) {
	for _, step := range []struct {
		after time.Duration
		stop  func()
	}{{wait, p.group.Terminate}, {grace, p.group.Kill}} {
		select {
		case <-p.Exited:
		case <-time.After(step.after):
			step.stop()
		}
	}
	<-p.Exited
	p.Out.Close()
	p.Err.Close()
}
