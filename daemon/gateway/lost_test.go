package gateway

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"crabmem/daemon"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/wire"
)

// lossy is a socket in front of a daemon. It ends connections when a request arrives.
type lossy struct {
	l     net.Listener
	lose  atomic.Int32 // responses that are lost; -1: requests, too
	wg    sync.WaitGroup
	mu    sync.Mutex
	conns []net.Conn
}

// newLossy returns a socket in front of the daemon of a rig.
func newLossy(r *rig) (*lossy, wire.Addr) {
	r.t.Helper()
	dir, err := os.MkdirTemp("", "crab")
	if err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &lossy{l: l}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("unix", daemon.Socket(r.home))
			if err != nil {
				c.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, c, d)
			p.mu.Unlock()
			p.wg.Go(func() { _, _ = io.Copy(d, c); d.(*net.UnixConn).CloseWrite() })
			p.wg.Go(func() { p.back(c, d) })
		}
	})
	r.t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
		os.RemoveAll(dir)
	})
	return p, wire.Addr{Network: "unix", Address: path}
}

// back copies responses, each in one write, until one is to be lost. A connection begins
// with the response to Hello.
func (p *lossy) back(client, server net.Conn) {
	defer client.Close()
	b := make([]byte, 1<<20)
	for first := true; ; first = false {
		n, err := server.Read(b)
		if err != nil {
			return
		}
		if !first && p.lose.Load() > 0 {
			p.lose.Add(-1)
			return
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}

// TestLostResponses loses the response of the daemon to each kind of request that changes
// something, and repeats the request with its Idempotency-Key: it has one effect.
func TestLostResponses(t *testing.T) {
	r := newRig(t)
	p, addr := newLossy(r)
	r.stop()
	r.addr = addr
	c := DefaultConfig()
	c.Limits.Rate, c.Limits.Burst = 1e5, 1e5
	r.start(c)
	r.model.Queue(modeltest.Say("hello"))
	who := "ann"
	ask := func(what, method, path string, body any, header ...string) *response {
		t.Helper()
		header = append(header, "Idempotency-Key", what)
		r.do(who, "GET", "/v1/agents", nil) // the connection is in use
		p.lose.Store(1)
		first := r.do(who, method, path, body, header...)
		p.lose.Store(0)
		if first.StatusCode != 502 {
			t.Errorf("%s without a response: %d %s", what, first.StatusCode, cut(first.body))
		}
		again := r.do(who, method, path, body, header...)
		if again.StatusCode >= 300 {
			t.Errorf("%s again: %d %s", what, again.StatusCode, cut(again.body))
		}
		return again
	}
	created := ask("create", "POST", "/v1/memories", object{"name": "deploy", "content": "by hand"})
	path := created.Header.Get("Location")
	changed := r.do("ann", "PUT", path, object{"content": "by a script"}, "If-Match", created.Header.Get("ETag"))
	if sent := ask("send", "POST", "/v1/send", object{"content": "hi"}); sent.field("content") != "hello" {
		t.Errorf("send: %s", sent.body)
	}
	if n := len(r.model.Requests()); n > 2 {
		t.Errorf("%d requests to the model", n)
	}
	session := r.do("ann", "GET", "/v1/sessions", nil)
	history := r.do("ann", "GET", "/v1/sessions/"+session.field("items.0.session").(string)+"/history", nil)
	users := 0
	for i := range 9 {
		if at, ok := history.field("items").([]any); ok && i < len(at) {
			if record, ok := at[i].(map[string]any)["record"].(map[string]any); ok && record["role"] == "user" {
				users++
			}
		}
	}
	who = "root"
	store := storesPath + "/" + ask("create a store", "POST", storesPath, object{"name": "team"}).field("id").(string)
	if list := r.do("root", "GET", storesPath, nil); len(list.field("data").([]any)) != 3 { // main and the space of ann, too
		t.Errorf("stores: %s", list.body)
	}
	r.do("root", "POST", store+"/memories", object{"path": "/other", "content": "x"}) // it opens the space
	r.want("taken", r.do("root", "POST", store+"/memories", object{"path": "/other", "content": "y"}, "Idempotency-Key", "z"), 409, pathConflict)
	if users != 1 {
		t.Errorf("the session has %d messages of the user: %s", users, history.body)
	}
	if list := r.do("ann", "GET", "/v1/memories?view=full", nil); list.field("items.0.content") != "by a script" || list.field("items.1") != nil || changed.StatusCode != 200 {
		t.Errorf("entries: %s", list.body)
	}
}
