package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
	"crabmem/daemon/model/modeltest"
)

// Limits of the ratio of two revisions.
const (
	revisionP50 = 1.05
	revisionP99 = 1.15
	revisionCPU = 1.02
)

// chunkTexts are the texts of the streamed answer.
const chunkTexts = 1000

// revisions compares the times of requests with those of an earlier revision. It uses both
// programs in turns, and only through interfaces that revisions share: processes, HTTP, and
// the Model Context Protocol.
func revisions(f *flag.FlagSet) func(*measure.Limits) error {
	base := f.String("base", "", "the earlier revision")
	n := f.Int("n", 10_000, "number of entries")
	passes := f.Int("passes", 5, "number of passes")
	return func(l *measure.Limits) error {
		if *base == "" {
			return errors.New("compare revisions: -base is missing")
		}
		return compareRevisions(l, *base, *n, *passes)
	}
}

func compareRevisions(l *measure.Limits, base string, n, passes int) (err error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m, err := modeltest.Start("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer m.Close()
	m.Discard = true
	m.Func(func(modeltest.Request) modeltest.Reply {
		return modeltest.Reply{}.Text(strings.Split(strings.Repeat("word,", chunkTexts-1)+"word", ",")...)
	})
	old, err := buildRevision(dir, base)
	if err != nil {
		return err
	}
	exe, err := buildCommand(dir)
	if err != nil {
		return err
	}
	z := corpus.NewZipf(1)
	texts, queries := z.Docs(n), z.Queries(100)
	var all [2]*revision
	for i, exe := range []string{old, exe} {
		all[i], err = startRevision(exe, filepath.Join(dir, fmt.Sprint("home", i)), m.URL, texts)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, all[i].stop()) }()
	}
	return compareTimes(l, all, queries, passes)
}

// compareTimes runs each kind of request in turns, and compares the least percentiles of the
// passes.
func compareTimes(l *measure.Limits, all [2]*revision, queries []string, passes int) error {
	fmt.Printf("%-34s %12s %12s %12s %12s %12s %12s\n", "ms, least of the passes", "p50 before", "p50 now", "p99 before", "p99 now", "CPU before", "CPU now")
	for k, name := range []string{"recall over MCP and the socket", "POST /v1/recall", "list of the entries as a process", "stream of 1,000 chunks", "recall as a process", "remember over MCP"} {
		var p50, p99, cpu [2]time.Duration
		for pass := -1; pass < passes; pass++ { // the first warms the caches
			for i := range all {
				i = (i + pass + 1) % 2
				took := make([]time.Duration, len(queries))
				used, err := all[i].cpu()
				for j, q := range queries {
					began := time.Now()
					if err := all[i].kinds()[k](q); err != nil {
						return fmt.Errorf("%s: %w", name, err)
					}
					took[j] = time.Since(began)
				}
				now, cerr := all[i].cpu()
				if err := errors.Join(err, cerr); err != nil {
					return err
				}
				if pass >= 0 {
					cpu[i] = measure.Least(cpu[i], (now-used)/time.Duration(len(queries)))
					p50[i], p99[i] = measure.Least(p50[i], measure.Percentile(took, 50)), measure.Least(p99[i], measure.Percentile(took, 99))
				}
			}
		}
		fmt.Printf("%-34s %12.3f %12.3f %12.3f %12.3f %12.3f %12.3f\n", name, measure.Millis(p50[0]), measure.Millis(p50[1]), measure.Millis(p99[0]), measure.Millis(p99[1]), measure.Millis(cpu[0]), measure.Millis(cpu[1]))
		l.Most(name+", p50", measure.Ratio(p50[1], p50[0]), revisionP50, "")
		l.Most(name+", p99", measure.Ratio(p99[1], p99[0]), revisionP99, "")
		l.Most(name+", CPU", measure.Ratio(cpu[1], cpu[0]), revisionCPU, "")
	}
	return nil
}

// buildRevision builds the program of an earlier revision.
func buildRevision(dir, base string) (string, error) {
	tree, exe := filepath.Join(dir, "base"), filepath.Join(dir, "crabmem-base")
	if out, err := exec.Command("git", "worktree", "add", "--detach", tree, base).CombinedOutput(); err != nil {
		return "", fmt.Errorf("check out %s: %w\n%s", base, err, out)
	}
	build := exec.Command("go", "build", "-o", exe, "./cmd/crabmem")
	build.Dir = tree
	out, err := build.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build %s: %w\n%s", base, err, out)
	}
	return exe, errors.Join(err, exec.Command("git", "worktree", "remove", "--force", tree).Run())
}

// revision is a program with its daemon, gateway, and MCP server.
type revision struct {
	exe, home, alone string // alone: a home without a daemon
	url, key         string
	servers          []*exec.Cmd
	used             time.Duration // CPU time of the processes that have ended
	mcp              io.WriteCloser
	answers          *bufio.Reader
}

// startRevision starts the servers of a program on a new home with an entry for each text.
func startRevision(exe, home, model string, texts []string) (*revision, error) {
	r := &revision{exe: exe, home: home, alone: home + "-alone"}
	for _, dir := range []string{r.home, r.alone} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		if err := fillStore(dir, texts); err != nil {
			return nil, err
		}
	}
	h := httpLoad{}
	if err := h.configure(home, model); err != nil {
		return nil, err
	}
	r.key = h.key
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r.url = "http://" + probe.Addr().String()
	_, port, _ := net.SplitHostPort(probe.Addr().String())
	probe.Close()
	for _, args := range [][]string{{"daemon"}, {"gateway", "--port", port, "--quiet"}} {
		c := r.command(home, args...)
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			return r, errors.Join(err, r.stop())
		}
		r.servers = append(r.servers, c)
		for began := time.Now(); len(r.servers) == 1 && r.command(home, "ping").Run() != nil; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				return r, errors.Join(errors.New("the daemon does not respond"), r.stop())
			}
		}
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, err := r.call("GET", "/v1/status", nil)
		if err == nil {
			return r, r.startMCP()
		}
		if time.Since(began) > time.Minute {
			return r, errors.Join(err, r.stop())
		}
	}
}

func (r *revision) command(home string, args ...string) *exec.Cmd {
	return exec.Command(r.exe, append(args, "--home", home)...)
}

// startMCP starts an MCP server, which asks the daemon.
func (r *revision) startMCP() (err error) {
	c := r.command(r.home, "mcp")
	c.Stderr = os.Stderr
	if r.mcp, err = c.StdinPipe(); err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	r.answers = bufio.NewReaderSize(out, 1<<20)
	if err := c.Start(); err != nil {
		return err
	}
	r.servers = append(r.servers, c)
	if err := r.request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"}}); err != nil {
		return err
	}
	_, err = io.WriteString(r.mcp, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return err
}

// request sends a request to the MCP server, and waits for its response.
func (r *revision) request(method string, params any) error {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	if _, err := r.mcp.Write(append(b, '\n')); err != nil {
		return err
	}
	line, err := r.answers.ReadBytes('\n')
	if err == nil && !bytes.Contains(line, []byte(`"result"`)) || bytes.Contains(line, []byte(`"isError":true`)) {
		err = fmt.Errorf("%s: %s", method, line)
	}
	return err
}

// call sends a request to the gateway, and reads the response.
func (r *revision) call(method, path string, body any) ([]byte, error) {
	return (&httpLoad{addr: strings.TrimPrefix(r.url, "http://"), key: r.key}).callJSON(method, path, body)
}

// kinds are the kinds of requests that revisions are compared by.
func (r *revision) kinds() []func(query string) error {
	run := func(home string, args ...string) error {
		c := r.command(home, args...)
		out, err := c.Output()
		if c.ProcessState != nil {
			r.used += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		}
		if err == nil && len(out) == 0 {
			err = fmt.Errorf("%s: no output", args[0])
		}
		return err
	}
	return []func(string) error{
		func(q string) error {
			return r.request("tools/call", map[string]any{"name": "recall", "arguments": map[string]any{"query": q, "limit": 5}})
		},
		func(q string) error { _, err := r.call("POST", "/v1/recall", map[string]any{"query": q}); return err },
		func(string) error { return run(r.home, "list", "--json") },
		func(string) error { return r.stream() },
		func(q string) error { return run(r.alone, "recall", "--json", q) },
		func(q string) error {
			return r.request("tools/call", map[string]any{"name": "remember", "arguments": map[string]any{"name": "note " + q, "content": q}})
		},
	}
}

// cpu returns the CPU time that the servers and the kinds' processes have used.
func (r *revision) cpu() (time.Duration, error) {
	sum := r.used
	for _, c := range r.servers {
		n, err := measure.CPUOf(c.Process.Pid)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// stream reads a streamed answer.
func (r *revision) stream() error {
	b, err := r.call("POST", "/v1/chat/completions", map[string]any{"model": "crab", "stream": true, "messages": []any{map[string]any{"role": "user", "content": "hi"}}})
	if n := bytes.Count(b, []byte("data:")); err == nil && n < chunkTexts {
		err = fmt.Errorf("%d chunks: %.500s", n, b)
	}
	return err
}

func (r *revision) stop() (err error) {
	if r.mcp != nil {
		err = r.mcp.Close()
	}
	for _, c := range r.servers {
		_ = c.Process.Signal(os.Interrupt)
		err = errors.Join(err, c.Wait())
	}
	return err
}
