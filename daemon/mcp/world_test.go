package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/mcpserver/mcptest"
	"crabmem/daemon/tool"
	"crabmem/fuzz/golden"
)

// world is a manager on a file system in memory, with servers by their ports. It
// records what the manager does, with times.
type world struct {
	*Manager
	t     *testing.T
	r     *golden.Reports
	fs    *faultfs.Mem
	log   mcptest.Buffer
	seen  int // bytes of log that a report contains
	began time.Time
	conns sync.WaitGroup
	open  atomic.Int64 // connections

	mu     sync.Mutex
	sites  map[string]*site
	events []string
}

// site is a server at a port.
type site struct {
	*hostile
	w    *world
	name string
	down bool // it refuses connections
	// tools and init are the results of its calls.
	tools, init string
	conns       []net.Conn
	stopped     time.Time // requests at this time may arrive or not
}

const (
	toolA     = `{"name":"a","description":"A.","inputSchema":{"type":"object","properties":{"p":{"type":"string"}}}}`
	toolB     = `{"name":"b","inputSchema":{"type":"object"}}`
	withTools = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"h","version":"1"}}`
)

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, r *golden.Reports, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, r: r, fs: faultfs.NewMem(), began: time.Now(), sites: make(map[string]*site)}
		log := slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				a.Value = slog.StringValue(time.Since(w.began).String())
			}
			return a
		}}))
		w.Manager = New(Options{
			FS: w.fs, Log: log, Version: "7",
			Reserved: func(name string) bool { return name == "bash" },
			Changed:  func() { w.add("changed") },
		})
		w.dial = w.connect
		w.checkOwner = func(a netip.AddrPort) error { w.check(a); return nil }
		test(w)
		w.Close()
		synctest.Wait()
		if n := w.open.Load(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
		w.mu.Lock()
		for _, s := range w.sites {
			s.cut()
		}
		w.mu.Unlock()
		w.conns.Wait()
	})
}

func (w *world) add(event string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf("%v %s", time.Since(w.began), event))
}

// check records that the owner of a port was checked. Reports contain it once per
// step, because idle connections may be used again.
func (w *world) check(a netip.AddrPort) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, "check "+a.String())
}

// site adds a server at a port.
func (w *world) site(port, name string, stream bool) *site {
	s := &site{hostile: &hostile{http: true}, w: w, name: name, tools: "[" + toolA + "]", init: withTools}
	if stream {
		s.pushes = make(chan string)
	}
	s.reply = s.respond
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sites["127.0.0.1:"+port] = s
	return s
}

// respond records a request and returns the response. It records no
// cancellation, because the SDK sends one concurrently with the end of a
// connection.
func (s *site) respond(method string, params json.RawMessage) string {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if method == "initialize" || method == "tools/call" {
		method += " " + string(params)
	}
	if method != "notifications/cancelled" && !s.stopped.Equal(time.Now()) {
		s.w.events = append(s.w.events, fmt.Sprintf("%v %s: %s", time.Since(s.w.began), s.name, method))
	}
	name, _, _ := strings.Cut(method, " ")
	result := map[string]string{"initialize": s.init, "tools/list": `{"tools":` + s.tools + `}`}[name]
	if result == "" || strings.HasPrefix(result, "HTTP/") {
		return result
	}
	return `{"jsonrpc":"2.0","id":$id,"result":` + result + `}`
}

// cut ends the connections. The world is locked.
func (s *site) cut() {
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

// set changes a site.
func (s *site) set(change func()) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	change()
}

// stop ends the connections and refuses others.
func (s *site) stop() { s.set(func() { s.down, s.stopped = true, time.Now(); s.cut() }) }

// addressed is a connection with the address of its server.
type addressed struct {
	net.Conn
	to net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.to }

func (w *world) connect(_ context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sites[address]
	if s != nil && s.down && s.stopped.Equal(time.Now()) {
		return nil, errors.New("connection reset")
	}
	if s == nil || s.down {
		w.events = append(w.events, fmt.Sprintf("%v refused %s %s", time.Since(w.began), network, address))
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	s.conns = append(s.conns, there)
	w.open.Add(1)
	w.conns.Go(func() {
		defer w.open.Add(-1)
		s.overHTTP(there)
	})
	return addressed{here, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}, nil
}

// step reports what happened since the last step, and after some time. No timer
// ends at the same time, because the time is odd.
func (w *world) step(title string, after time.Duration) {
	w.t.Helper()
	synctest.Wait()
	if after > 0 {
		time.Sleep(after + 7*time.Microsecond)
		synctest.Wait()
	}
	text := w.log.String()
	lines := slices.Sorted(strings.Lines(text[w.seen:]))
	w.seen = len(text)
	w.mu.Lock()
	slices.Sort(w.events)
	events := slices.Compact(w.events)
	w.events = nil
	w.mu.Unlock()
	report := strings.Join(events, "\n") + "\n" + strings.Join(lines, "")
	for _, s := range w.servers() {
		s.mu.Lock()
		state := s.state
		s.mu.Unlock()
		report += fmt.Sprintf("server %s: state %d, usable %v, settled %v, ended %v\n", s.Name, state, s.usable(), s.settled(), s.ctx.Err())
	}
	all := w.view(tool.Unbounded())
	for _, l := range all[:min(len(all), 20)] {
		report += "tool " + l.label + "\n"
	}
	report += fmt.Sprintln(len(all), "tools")
	if _, list, ok := strings.Cut(w.Resources(tool.Unbounded()), "\n"); ok {
		report += list + "\n"
	}
	w.Manager.mu.Lock()
	report += "problems:"
	for _, key := range sortedKeys(w.warned) {
		report += fmt.Sprintf(" %q", key)
	}
	w.Manager.mu.Unlock()
	w.r.Add(title, report)
}
