package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"crabmem/fuzz/mutation/weave"
)

// Limits of a test process. They stop mutants that loop or allocate without end.
const (
	memory       = 12 << 30 // address space; a Go program reserves more than it uses
	goMemory     = "2GiB"
	outputLimit  = 256 << 10
	envRun       = "CRABMEM_MUTANT_RUN"
	waitForPipes = 2 * time.Second
)

// process is one run of some tests of a binary.
type process struct {
	bin     *binary
	names   []string
	id      int    // id of the active mutant, or 0
	hits    string // path of the file for hits, or ""
	timeout time.Duration
}

// outcome is the result of a process.
type outcome struct {
	passed, timedOut bool
	out              string
	took             time.Duration
}

// start runs a process with its own home and temporary directory. Afterwards it
// removes both directories and kills the remaining child processes.
func (p *plan) start(r process) (outcome, error) {
	// The path is short: a test binds sockets below it.
	dir := filepath.Join(p.tmp, fmt.Sprintf("r%d", p.started.Add(1)))
	defer removeAll(dir)
	for _, name := range []string{"", "h", "t"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return outcome{}, err
		}
	}
	// A test may start its binary, or a copy below its temporary directory, without an
	// environment. Such a process reads the id from the file in dir.
	program := filepath.Join(dir, filepath.Base(r.bin.file))
	if err := os.Link(r.bin.file, program); err != nil {
		return outcome{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, weave.FileName), fmt.Appendf(nil, "%d %s", r.id, r.hits), 0o644); err != nil {
		return outcome{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	args := []string{"-c", `ulimit -v "$0" && exec "$@"`, fmt.Sprint(memory >> 10), program,
		"-test.run=^(" + strings.Join(r.names, "|") + ")$", "-test.v", "-test.failfast", "-test.paniconexit0", "-test.timeout=0"}
	if p.short {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir = r.bin.dir
	cmd.Env = append(r.bin.env, "HOME="+filepath.Join(dir, "h"), "TMPDIR="+filepath.Join(dir, "t"),
		fmt.Sprintf("%s=%d", weave.EnvActive, r.id), weave.EnvHits+"="+r.hits, envRun+"="+dir)
	var out limitedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	setGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd) }
	cmd.WaitDelay = waitForPipes
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	killGroup(cmd)
	killMarked([]byte(envRun + "=" + dir + "\x00"))
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		return outcome{}, fmt.Errorf("run %s: %w", r.bin.path, err)
	}
	return outcome{passed: err == nil || errors.Is(err, exec.ErrWaitDelay), timedOut: ctx.Err() != nil, out: out.String(), took: took}, nil
}

// environment returns the environment of every test process. With it, programs that
// tests build also contain the mutants.
func environment(overlay string) ([]string, error) {
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOPATH").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "XDG_") && !strings.HasPrefix(e, "CRABMEM_") {
			env = append(env, e)
		}
	}
	lines := strings.Split(string(out), "\n")
	return append(env, "GOCACHE="+lines[0], "GOMODCACHE="+lines[1], "GOPATH="+lines[2],
		"GOFLAGS=-overlay="+overlay, "GOMEMLIMIT="+goMemory), nil
}

// killMarked kills the processes whose environment contains mark.
func killMarked(mark []byte) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		if env, err := os.ReadFile(name); err == nil && bytes.Contains(env, mark) {
			killPID(filepath.Base(filepath.Dir(name)))
		}
	}
}

// removeAll removes a directory, including subdirectories without permissions.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	os.RemoveAll(dir)
}

var (
	failed  = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	skips   = regexp.MustCompile(`(?m)^ *--- SKIP: (\S+)`)
	crashed = regexp.MustCompile(`(?m)^(?:panic|fatal error|unexpected fault address).*`)
)

// limitedBuffer stores the start and the end of the written bytes.
type limitedBuffer struct {
	mu         sync.Mutex
	head, tail []byte
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(p)
	if room := outputLimit - len(b.head); room > 0 {
		b.head = append(b.head, p[:min(room, n)]...)
		p = p[min(room, n):]
	}
	b.tail = append(b.tail, p...)
	if len(b.tail) > 2*outputLimit {
		b.tail = append(b.tail[:0], b.tail[len(b.tail)-outputLimit:]...)
	}
	return n, nil
}

func (b *limitedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.head) + string(b.tail)
}
