package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// result is the outcome of a target.
type result struct {
	executions int
	status     string // last status line
	failure    string // reason with the output, or "" if the target passed
	note       string // error that is not a failure
}

func (r result) String() string {
	switch {
	case r.failure != "":
		return "FAILED: " + r.failure
	case r.note != "":
		return r.status + "\n  note: " + r.note
	}
	return r.status
}

// recent is the maximum age of the last execution of a target that does not hang. A
// target reports the count every three seconds.
const recent = 10 * time.Second

// fuzz runs one target until its time ends, an input fails, or it hangs.
func fuzz(ctx context.Context, o options, t target, binary string) result {
	cache := filepath.Join(o.cache, filepath.FromSlash(t.dir))
	if err := trim(filepath.Join(cache, t.name), o.keep); err != nil {
		return result{failure: err.Error()}
	}
	// The count is so high that only an interrupt ends the run.
	cmd := exec.Command(binary, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime=1000000000x",
		"-test.parallel=1", "-test.fuzzminimizetime=1000x", "-test.fuzzcachedir="+cache)
	cmd.Dir = filepath.FromSlash(t.dir)
	out, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return result{failure: err.Error()}
	}
	p := &progress{changed: time.Now()}
	read := make(chan struct{})
	go func() { p.read(out); close(read) }()
	done := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		w.Close()
		<-read
		done <- err
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	stopped, hung := false, false
	for {
		select {
		case err := <-done:
			return p.result(err, stopped, hung, o.hang)
		case <-tick.C:
		}
		switch over, idle := p.look(o.each); {
		case hung:
		case idle > o.hang:
			// The coordinator saves the input of a worker that dies of SIGQUIT.
			hung = true
			for _, child := range children(cmd.Process.Pid) {
				_ = child.Signal(syscall.SIGQUIT)
			}
			time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		case !stopped && (ctx.Err() != nil || over && idle < min(recent, o.hang/3)):
			// A target without a recent execution may hang, so it gets more time.
			stopped = true
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
}

// progress is the parsed output of a target.
type progress struct {
	mu      sync.Mutex
	text    strings.Builder
	count   string    // number of executions, or of corpus entries read
	changed time.Time // time of the last change of count
	fuzzing time.Time // time at which the corpus was read
	last    string
}

var counts = regexp.MustCompile(`execs: (\d+)|baseline coverage: (\d+/\d+)`)

func (p *progress) read(r io.Reader) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		p.add(line)
		if err != nil {
			return
		}
	}
}

func (p *progress) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := counts.FindString(line)
	if !strings.HasPrefix(line, "fuzz: elapsed: ") || m == "" {
		if p.text.Len() < 1<<20 {
			p.text.WriteString(line)
		}
		return
	}
	now := time.Now()
	if m != p.count {
		p.count, p.changed = m, now
	}
	if p.fuzzing.IsZero() && (strings.Contains(line, "now fuzzing") || strings.Contains(line, "execs: ")) {
		p.fuzzing = now
	}
	if strings.Contains(line, "execs: ") {
		p.last = strings.TrimSpace(strings.TrimPrefix(line, "fuzz: "))
	}
}

// look reports whether the target has fuzzed for at least each. idle is the time
// since the last change of the count.
func (p *progress) look(each time.Duration) (over bool, idle time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.fuzzing.IsZero() && time.Since(p.fuzzing) >= each, time.Since(p.changed)
}

// result returns the result of a target that exited with err.
func (p *progress) result(err error, stopped, hung bool, limit time.Duration) result {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := result{status: cmp.Or(p.last, p.count)}
	if n, ok := strings.CutPrefix(p.count, "execs: "); ok {
		r.executions, _ = strconv.Atoi(n)
	}
	text := p.text.String()
	switch {
	case hung:
		r.failure = fmt.Sprintf("no execution for %v\n%s", limit, text)
	case strings.Contains(text, "starting with empty corpus"):
		r.failure = "no seeds: call f.Add or commit testdata/fuzz"
	case strings.Contains(text, "Failing input") || strings.Contains(text, "seed corpus entry"):
		r.failure = text
	case err != nil && !stopped:
		r.failure = fmt.Sprintf("%v\n%s", err, text)
	case r.executions == 0:
		r.failure = "no executions\n" + text
	case err != nil:
		r.note = fmt.Sprintf("error after the interrupt: %v\n%s", err, text)
	}
	return r
}

// children returns the child processes of a process. Outside Linux it returns the
// process.
func children(pid int) []*os.Process {
	var list []*os.Process
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range files {
		b, _ := os.ReadFile(name) // empty if the thread exited
		for _, word := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(word); err == nil {
				if p, err := os.FindProcess(n); err == nil {
					list = append(list, p)
				}
			}
		}
	}
	if len(files) == 0 {
		if p, err := os.FindProcess(pid); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// trim removes the oldest files of a directory until at most keep are left. It
// returns nil for a missing directory.
func trim(dir string, keep int) error {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	var files []os.FileInfo
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			return err
		}
		files = append(files, fi)
	}
	slices.SortFunc(files, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, f := range files[min(keep, len(files)):] {
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
			return err
		}
	}
	return nil
}
