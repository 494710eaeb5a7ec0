package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/mcpserver/mcptest"
)

// world is a manager on a file system in memory, with servers by their ports.
type world struct {
	*Manager
	t     *testing.T
	fs    *faultfs.Mem
	log   mcptest.Buffer
	began time.Time
	conns sync.WaitGroup
	open  atomic.Int64 // connections

	mu      sync.Mutex
	sites   map[string]*site
	refused []time.Duration // connections, by the time since the start
}

// site is a server at a port.
type site struct {
	*hostile
	w    *world
	down bool // it refuses connections
	// tools and init are the results of its calls.
	tools, init string
	conns       []net.Conn
}

const (
	toolA     = `{"name":"a","description":"A.","inputSchema":{"type":"object","properties":{"p":{"type":"string"}}}}`
	toolB     = `{"name":"b","inputSchema":{"type":"object"}}`
	withTools = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"h","version":"1"}}`
)

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, fs: faultfs.NewMem(), began: time.Now(), sites: make(map[string]*site)}
		log := slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				a.Value = slog.StringValue(time.Since(w.began).String())
			}
			return a
		}}))
		w.Manager = New(Options{
			FS: w.fs, Log: log, Version: "7",
			Reserved: func(name string) bool { return name == "bash" },
		})
		w.dial = w.connect
		w.checkOwner = func(netip.AddrPort) error { return nil }
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

// site adds a server at a port.
func (w *world) site(port string, stream bool) *site {
	s := &site{hostile: &hostile{http: true}, w: w, tools: "[" + toolA + "]", init: withTools}
	if stream {
		s.pushes = make(chan string)
	}
	s.reply = s.respond
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sites["127.0.0.1:"+port] = s
	return s
}

// respond returns the response to a request.
func (s *site) respond(method string, _ json.RawMessage) string {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	result := map[string]string{"initialize": s.init, "tools/list": `{"tools":` + s.tools + `}`}[method]
	if result == "" {
		return ""
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
func (s *site) stop() { s.set(func() { s.down = true; s.cut() }) }

// addressed is a connection with the address of its server.
type addressed struct {
	net.Conn
	to net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.to }

func (w *world) connect(_ context.Context, _, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sites[address]
	if s == nil || s.down {
		w.refused = append(w.refused, time.Since(w.began))
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

// settle waits until the manager is idle after a duration. No timer ends at the
// same time, because the time is odd.
func (w *world) settle(after time.Duration) {
	synctest.Wait()
	time.Sleep(after + 7*time.Microsecond)
	synctest.Wait()
}
