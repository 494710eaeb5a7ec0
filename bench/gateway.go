package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
	"crabmem/crmem/vfs"
	"crabmem/daemon/gateway"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
)

// gateways measures the gateway in a separate process, in front of a daemon in another
// one: a recall against a recall over the daemon's socket, and the memory of idle
// connections, of clients that follow events, and of runs.
func gateways(f *flag.FlagSet) func(*measure.Limits) error {
	n := f.Int("n", 100_000, "number of entries")
	turns := f.Int("turns", 10, "number of turns of 1,000 recalls")
	load := &httpLoad{}
	f.IntVar(&load.idle, "idle", 10_000, "number of idle connections")
	f.IntVar(&load.followers, "followers", 1000, "number of clients that follow events")
	f.IntVar(&load.runs, "runs", 64, "number of parallel runs")
	return func(l *measure.Limits) error { return load.measure(l, *n, *turns) }
}

// httpLoad is what the clients of a gateway do, and the gateway.
type httpLoad struct {
	idle, followers, runs int

	d    *daemon
	cmd  *exec.Cmd
	addr string
	key  string
	low  string // of an untrusted client
}

// measure starts daemon and gateway, with limits that permit the load.
func (h *httpLoad) measure(l *measure.Limits, n, turns int) (err error) {
	m, err := modeltest.Start("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer m.Close()
	m.Discard = true
	m.Func(func(modeltest.Request) modeltest.Reply {
		return modeltest.Reply{}.Text(strings.Split(strings.Repeat("word ,", 20), ",")...).Drip(10 * time.Millisecond)
	})
	z := corpus.NewZipf(1)
	if h.d, err = start(context.Background(), func(home string) error { return h.prepare(home, m.URL, z.Docs(n)) }); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.d.stop()) }()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h.addr = probe.Addr().String()
	probe.Close()
	_, port, _ := net.SplitHostPort(h.addr)
	h.cmd = exec.Command(h.d.cmd.Path, "gateway", "--home", h.d.home, "--port", port, "--quiet")
	h.cmd.Stderr = os.Stderr
	if err := h.cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = h.cmd.Process.Signal(os.Interrupt)
		err = errors.Join(err, h.cmd.Wait())
	}()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := h.call("GET", "/v1/status", nil); err == nil {
			break
		} else if time.Since(began) > time.Minute {
			return err
		}
	}
	queries := z.Queries(1000)
	if err := errors.Join(h.recalls(l, queries, turns), h.attacked(l, queries)); err != nil {
		return err
	}
	return errors.Join(h.idleConnections(l), h.follow(l), h.parallel(l))
}

// prepare writes the configurations, keys, and the store of a home.
func (h *httpLoad) prepare(home, model string, texts []string) error {
	return errors.Join(h.configure(home, model), fillStore(home, texts))
}

// configure writes the configurations and the keys of a home.
func (h *httpLoad) configure(home, model string) error {
	key, _, err := gateway.AddKey(vfs.OS{}, home, gateway.Key{Name: "bench"}, time.Now())
	if err != nil {
		return err
	}
	h.key = key
	if h.low, _, err = gateway.AddKey(vfs.OS{}, home, gateway.Key{Name: "low"}, time.Now()); err != nil {
		return err
	}
	config := fmt.Sprintf("sessions.titles = \"off\"\n[provider.test]\nkind = \"openai-compatible\"\nbase_url = %q\napi_key = \"none\"\nmodels = [\"m\"]\n[system.crab]\nmodel = \"m\"\n"+
		"[origins.\"api:bench\"]\ntrust = \"admin\"\n[limits]\nconnections = 8192\nsubscribers = 4096\n", model)
	limits := "[gateway]\nopenai = true\n[limits]\nconnections = 20000\nstreams = 4096\nstreams_per_key = 4096\nruns_per_key = 256\ncalls = 256\nrate = 1000000.0\nburst = 1000000\n"
	for file, text := range map[string]string{"config.toml": config, gateway.File: limits} {
		if err := os.WriteFile(filepath.Join(home, file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// callJSON is call with a body that it encodes, unless it is nil.
func (h *httpLoad) callJSON(method, path string, body any) ([]byte, error) {
	if body == nil {
		return h.call(method, path, nil)
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return h.call(method, path, b)
}

// call sends a request and returns the body of a response without an error.
func (h *httpLoad) call(method, path string, body []byte) ([]byte, error) {
	q, err := http.NewRequest(method, "http://"+h.addr+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Authorization", "Bearer "+h.key)
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	} else {
		q.Body, q.ContentLength = nil, 0
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer p.Body.Close()
	b, err := io.ReadAll(p.Body)
	if err == nil && p.StatusCode > 299 {
		err = fmt.Errorf("%s %s: %d %s", method, path, p.StatusCode, b)
	}
	return b, err
}

// recalls compares recalls over HTTP with the same recalls over the socket.
func (h *httpLoad) recalls(l *measure.Limits, queries []string, turns int) error {
	ctx := context.Background()
	kinds := []timedKind{
		{name: "recall over the socket", do: func(q string) error {
			_, err := op.Recall.Do(ctx, h.d, op.Question{Query: q, Limit: 5})
			return err
		}},
		{name: "recall over HTTP", do: func(q string) error {
			_, err := h.callJSON("POST", "/v1/recall", map[string]any{"query": q})
			return err
		}},
		{name: "health over HTTP", do: func(string) error { _, err := h.call("GET", "/health", nil); return err }},
	}
	for i := range kinds {
		for _, q := range queries[:100] {
			if err := kinds[i].do(q); err != nil { // builds the index and warms the caches
				return err
			}
		}
	}
	if err := timeTurns(kinds, queries, turns); err != nil {
		return err
	}
	us := measure.Micros
	for _, k := range kinds {
		fmt.Printf("  %-24s p50 %7.1f µs, p99 %7.1f µs; p50 of the best turn %7.1f µs\n", k.name,
			us(measure.Percentile(k.all, 50)), us(measure.Percentile(k.all, 99)), us(k.best))
	}
	l.Most("recall over HTTP p50, above the socket", us(kinds[1].best-kinds[0].best), 150, "µs")
	return nil
}

// resident returns the memory of the gateway in KiB.
func (h *httpLoad) resident() (float64, error) {
	b, err := measure.Resident(h.cmd.Process.Pid)
	return float64(b) / 1024, err
}

// idleConnections opens connections that each send one request, and stay open.
func (h *httpLoad) idleConnections(l *measure.Limits) error {
	before, err := h.resident()
	if err != nil {
		return err
	}
	request := fmt.Sprintf("GET /v1/memories/1 HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", h.addr, h.key)
	conns := make([]net.Conn, 0, h.idle)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range h.idle {
		c, err := net.Dial("tcp", h.addr)
		if err != nil {
			return err
		}
		conns = append(conns, c)
		if _, err := io.WriteString(c, request); err != nil {
			return err
		}
		p, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, p.Body)
		if p.StatusCode != http.StatusOK || p.Close {
			return fmt.Errorf("idle connection %d: status %d, closed %t", len(conns), p.StatusCode, p.Close)
		}
	}
	if _, err := h.call("POST", "/v1/recall", []byte(`{"query":"word"}`)); err != nil {
		return err
	}
	after, err := h.resident()
	if err != nil {
		return err
	}
	fmt.Printf("%d idle connections: %.1f MiB, before %.1f MiB\n", h.idle, after/1024, before/1024)
	l.Most("memory of an idle connection", (after-before)/float64(h.idle), 64, "KiB")
	return nil
}

// follow opens streams of events, and sends a message: each client receives the events
// of its run.
func (h *httpLoad) follow(l *measure.Limits) error {
	before, err := h.resident()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	errs := make(chan error, h.followers)
	for range h.followers {
		q, err := http.NewRequestWithContext(ctx, "GET", "http://"+h.addr+"/v1/events?kind=done", nil)
		if err != nil {
			return err
		}
		q.Header.Set("Authorization", "Bearer "+h.key)
		p, err := http.DefaultClient.Do(q)
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer p.Body.Close()
			for lines := bufio.NewScanner(p.Body); lines.Scan(); {
				if lines.Text() == "event: done" {
					return
				}
			}
			errs <- errors.New("a client received no event")
		})
	}
	for { // the daemon has all subscriptions
		st, err := op.ReadDaemonStats.Do(ctx, h.d, op.None{})
		if err != nil {
			return err
		}
		if st.Subscribers >= h.followers {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	after, err := h.resident()
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := h.call("POST", "/v1/send", []byte(`{"content":"hello"}`)); err != nil {
		return err
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	fmt.Printf("%d clients follow events: %.1f MiB, before %.1f MiB; a run of 0.2 s reached all of them after %v\n", h.followers, after/1024, before/1024, time.Since(began).Round(time.Millisecond))
	l.Most("memory of a client that follows events", (after-before)/float64(h.followers), 256, "KiB")
	return nil
}

// parallel begins runs concurrently, and waits until all have succeeded.
func (h *httpLoad) parallel(l *measure.Limits) error {
	began := time.Now()
	errs := make([]error, h.runs)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			b, err := h.call("POST", "/v1/runs", []byte(`{"content":"hello","new":true}`))
			var run gateway.Run
			for err == nil {
				if err = json.Unmarshal(b, &run); err != nil || run.State != "running" {
					break
				}
				time.Sleep(10 * time.Millisecond)
				b, err = h.call("GET", "/v1/runs/"+run.Run, nil)
			}
			if err == nil && run.State != "succeeded" {
				err = fmt.Errorf("run: %s", b)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := h.resident()
	if err != nil {
		return err
	}
	fmt.Printf("%d parallel runs of 0.2 s: %v; memory of the gateway at the end %.1f MiB\n", h.runs, took.Round(time.Millisecond), after/1024)
	l.Most("64 parallel runs, times one run", took.Seconds()/0.2, 10, "")
	return nil
}
