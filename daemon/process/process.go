// Package process runs programs that exchange lines with the daemon over their standard
// input and output, and bounds what they, and servers, send.
package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"crabmem/daemon/tool"
)

// Process is a started program in a separate process group, with pipes to it.
type Process struct {
	In       *os.File // its standard input
	Out, Err *os.File
	Exited   chan struct{} // closed when it has ended and was waited for
	Status   error         // its exit; read after Exited

	Pid   int
	group *tool.Group
}

// inherited are the variables of the daemon's environment that a child gets:
// those that programs require, and none that may be a secret.
var inherited = []string{
	"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
	"XDG_RUNTIME_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP",
	"USERNAME", "USERPROFILE",
}

// environ returns a child's environment, with own variables.
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

// Start starts a program with its own variables and those that programs require.
func Start(dir string, own []string, path string, args ...string) (*Process, error) {
	cmd := exec.CommandContext(context.Background(), path, args...)
	cmd.Env, cmd.Dir = environ(own), dir
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
	p.Pid = cmd.Process.Pid
	go func() { // ends with the process, which Stop makes sure of
		p.Status = p.group.Wait()
		close(p.Exited)
	}()
	return p, nil
}

// Stop waits for the program to exit by itself, then asks its group to exit, and
// then kills the group. It returns when the program has ended.
func (p *Process) Stop(wait, grace time.Duration) {
	for i, after := range []time.Duration{wait, grace} {
		select {
		case <-p.Exited:
		case <-time.After(after):
			[]func(){p.group.Terminate, p.group.Kill}[i]()
		}
	}
	<-p.Exited
}

// Drain has the readers of Out and Err end: after what an ended program wrote, or after a time
// if another process has the files open.
func (p *Process) Drain(wait time.Duration) {
	for _, f := range []*os.File{p.Out, p.Err} {
		if f.SetReadDeadline(time.Now().Add(wait)) != nil { // no deadlines on this system
			f.Close()
		}
	}
}

// Close closes Out and Err: readers of them end.
func (p *Process) Close() {
	p.Out.Close()
	p.Err.Close()
}

// Lines passes the lines of standard error on until it ends, without white space around
// them. It omits empty lines, and the rest of a line after max bytes.
func Lines(diag io.Reader, max int, line func(text string)) {
	r := bufio.NewReaderSize(diag, max)
	for rest := false; ; {
		part, more, err := r.ReadLine()
		if err != nil {
			return
		}
		if text := bytes.TrimSpace(part); !rest && len(text) > 0 {
			line(string(text))
		}
		rest = more
	}
}

// MaxValues is the limit of values in a message: an empty one is two bytes there, and a
// hundred in memory.
const MaxValues = 1 << 18

// Shape counts the values of a message before it is decoded: the opening
// brackets and the commas outside of strings.
type Shape struct {
	Events       bool // a stream: an empty line ends a message
	values       int
	text, escape bool
	line         bool // this line contains a byte
}

// Add counts the values of b. The error states the limit.
func (s *Shape) Add(b []byte) error {
	for _, c := range b {
		switch {
		case c == '\n': // never in a text
			if s.Events && !s.line {
				s.values = 0
			}
			s.text, s.escape, s.line = false, false, false
			continue
		case s.escape:
			s.escape = false
		case s.text:
			s.text, s.escape = c != '"', c == '\\'
		case c == '"':
			s.text = true
		case c == '{', c == '[', c == ',':
			if s.values++; s.values > MaxValues {
				return fmt.Errorf("message has more than %d values", MaxValues)
			}
		}
		s.line = s.line || c != '\r'
	}
	return nil
}

// Pace slows down a program or server that sends too much. Each message costs work, and
// memory until the work is done.
type Pace struct{ at time.Time }

const (
	perMessage = 500 * time.Microsecond
	perMiB     = time.Second / 16
	ahead      = 2 * time.Second // a server may be
)

// Wait waits for a time in proportion to the messages and bytes read. It
// returns false if done is closed first.
func (p *Pace) Wait(messages, bytes int, done <-chan struct{}) bool {
	now := time.Now()
	if first := now.Add(-ahead); p.at.Before(first) {
		p.at = first
	}
	p.at = p.at.Add(time.Duration(messages)*perMessage + time.Duration(bytes)*perMiB>>20)
	late := p.at.Sub(now)
	if late <= 0 {
		return true
	}
	select {
	case <-done:
		return false
	case <-time.After(late):
		return true
	}
}

// ReadLine reads a line of at most max bytes.
func ReadLine(r *bufio.Reader, max int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > max {
			return nil, fmt.Errorf("message exceeds %d MiB", max>>20)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
