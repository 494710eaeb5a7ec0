package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"crabmem/crmem/vfs"
	"crabmem/daemon/approval"
	"crabmem/daemon/sandbox"
)

// LineOptions are how a line is run.
type LineOptions struct {
	Dir      string   // absolute working directory; cd stays in it
	Env      []string // of programs that a prefix permits
	Hidden   []string // paths that confined programs do not see
	Confined bool     // programs that a prefix permits run confined

	Stdout, Stderr io.Writer
}

var viewed atomic.Bool // CanView returned true

// CanView reports whether this process can run programs in the read-only profile. It
// tries again after a failure, which may be temporary.
func CanView() bool {
	if !viewed.Load() && sandbox.CheckView(context.Background()) == nil {
		viewed.Store(true)
	}
	return viewed.Load()
}

// RunLine runs a line of [approval.Classify] and returns its exit code, or -1 if a
// signal or the end of ctx ended its last program. It starts the programs of the
// line by their paths, and no shell. It returns an error if a program cannot start.
func RunLine(ctx context.Context, line approval.Line, o LineOptions) (code int, err error) {
	r := lineRunner{o: o}
	if r.top, err = (vfs.OS{}).Resolve(o.Dir); err != nil {
		return 0, err
	}
	r.dir = r.top
	r.o.Stdout, r.o.Stderr = &sharedWriter{w: o.Stdout}, &sharedWriter{w: o.Stderr}
	for _, p := range line {
		if p.After == "&&" && code != 0 || p.After == "||" && code == 0 {
			continue
		}
		if code, err = r.pipeline(ctx, p.Commands); err != nil {
			return 0, err
		}
		if ctx.Err() != nil { // a command of the pipeline may have seen only the end of its input
			return -1, nil
		}
	}
	return code, nil
}

// sharedWriter serializes the writes of the commands of a pipeline.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sharedWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}

type lineRunner struct {
	o        LineOptions
	top, dir string // real paths of the working directory, at first and after cd
}

// stage is a command of a pipeline with its streams.
type stage struct {
	*approval.Command
	in       io.Reader // nil is empty
	out, err io.Writer // nil discards
	pipes    []*os.File
}

// redirect applies the redirections in their order.
func (s *stage) redirect() {
	for _, r := range s.Redirects {
		switch r {
		case "2>&1":
			s.err = s.out
		case "2>/dev/null":
			s.err = nil
		case ">/dev/null":
			s.out = nil
		case "</dev/null":
			s.in = nil
		}
	}
}

// pipeline runs commands concurrently and returns the exit code of the last one.
func (r *lineRunner) pipeline(ctx context.Context, commands []approval.Command) (int, error) {
	stages := make([]stage, len(commands))
	for i := range commands {
		s := &stages[i]
		s.Command, s.out, s.err = &commands[i], r.o.Stdout, r.o.Stderr
		if i > 0 {
			from, to, err := os.Pipe()
			if err != nil {
				for _, s := range stages {
					s.closePipes()
				}
				return 0, err
			}
			before := &stages[i-1]
			before.out, before.pipes = to, append(before.pipes, to)
			s.in, s.pipes = from, append(s.pipes, from)
		}
	}
	codes, errs := make([]int, len(stages)), make([]error, len(stages))
	var running sync.WaitGroup
	for i := range stages {
		s := &stages[i]
		s.redirect()
		running.Go(func() {
			defer s.closePipes() // the next command reads the end, and the one before gets an error
			codes[i], errs[i] = r.command(ctx, s)
		})
	}
	running.Wait()
	return codes[len(codes)-1], errors.Join(errs...)
}

func (s *stage) closePipes() {
	for _, f := range s.pipes {
		f.Close()
	}
}

// command runs a command and returns its exit code.
func (r *lineRunner) command(ctx context.Context, s *stage) (int, error) {
	if s.Path == "" {
		return r.own(s)
	}
	cmd := &sandbox.Command{
		Path: s.Path, Args: s.Words, Env: r.o.Env, Dir: r.dir, Hidden: r.o.Hidden, Stdin: s.in, Stdout: s.out, Stderr: s.err,
	}
	switch {
	case s.ReadOnly:
		cmd.Env, cmd.View = viewEnv(), r.top
		return sandbox.Run(ctx, cmd)
	case r.o.Confined:
		return sandbox.Run(ctx, cmd)
	}
	return runPlain(ctx, cmd)
}

// viewEnv returns the environment of programs in the read-only profile.
func viewEnv() []string {
	env := []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}
	if lang := os.Getenv("LANG"); lang != "" {
		env[1] = "LANG=" + lang
	}
	if zone, ok := os.LookupEnv("TZ"); ok {
		env = append(env, "TZ="+zone)
	}
	return env
}

// own runs a command that needs no program.
func (r *lineRunner) own(s *stage) (int, error) {
	out := s.out
	if out == nil {
		out = io.Discard
	}
	args := s.Words[1:]
	switch s.Words[0] {
	case "true":
		return 0, nil
	case "false":
		return 1, nil
	case "cd":
		if err := r.changeDir(args[0]); err != nil {
			if s.err != nil {
				fmt.Fprintf(s.err, "cd: %s: %v\n", args[0], err)
			}
			return 1, nil
		}
		return 0, nil
	case "pwd":
		return wrote(fmt.Fprintln(out, r.dir))
	case "echo":
		end := "\n"
		for len(args) > 0 && args[0] == "-n" {
			args, end = args[1:], ""
		}
		return wrote(io.WriteString(out, strings.Join(args, " ")+end))
	}
	return 0, fmt.Errorf("%s needs a program", s.Words[0])
}

// wrote returns the exit code of a command that wrote its output.
func wrote(_ int, err error) (int, error) {
	if err != nil { // the next command of the pipeline has ended
		return 1, nil
	}
	return 0, nil
}

// changeDir changes the directory of the commands that follow. It does not leave
// the working directory, also not through a link.
func (r *lineRunner) changeDir(name string) error {
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.dir, name)
	}
	real, err := vfs.OS{}.Resolve(name)
	if err != nil {
		return errors.New("no such directory")
	}
	if _, ok := below(real, r.top); !ok {
		return errors.New("outside the working directory")
	}
	if fi, err := (vfs.OS{}).Lstat(real); err != nil {
		return errors.New("no such directory")
	} else if !fi.IsDir() {
		return errors.New("not a directory")
	}
	r.dir = real
	return nil
}
