package mcp

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/process"
	"crabmem/daemon/tool"
	"crabmem/fuzz/race"
)

// TestEndless connects to servers that never stop sending requests, messages,
// or changes: they are slowed down or disconnected, and no call waits for them.
func TestEndless(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":"x","method":"ping"}`
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	for name, h := range map[string]*hostile{
		"asks":                        {unasked: ping + "\n"},
		"asks, and reads nothing":     {unasked: strings.ReplaceAll(ping, `"x"`, "$n") + "\n", deaf: true},
		"changes":                     {unasked: changed + "\n"},
		"speaks":                      {unasked: `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}` + "\n"},
		"makes noise":                 {unasked: "x\n"},
		"asks in batches":             {unasked: "[" + strings.Repeat(ping+",", 1000) + ping + "]\n"},
		"has more pages":              {answers: []string{"", `{"jsonrpc":"2.0","id":$id,"result":{"tools":[],"nextCursor":"$id"}}`}},
		"asks by events":              {http: true, unasked: "data: " + ping + "\n\n"},
		"asks by events, deaf":        {http: true, unasked: "data: " + strings.ReplaceAll(ping, `"x"`, "$n") + "\n\n", deaf: true},
		"changes by events":           {http: true, unasked: "data: " + changed + "\n\n"},
		"sends events without a word": {http: true, unasked: "\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			h.times = 20_000
			h.meet(t, func(t *testing.T, m *Manager) {
				began := time.Now()
				for range 3 {
					m.run(t.Context(), tool.Call{Scope: tool.Unbounded()}, "a", nil)
				}
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("three calls took %s", took)
				}
				time.Sleep(3 * time.Second)
				if n := int(h.said.Load()); n >= h.times {
					t.Errorf("it was heard %d times", n)
				}
				if n := runtime.NumGoroutine(); n > 6*maxBusy {
					t.Errorf("%d goroutines", n)
				}
			})
		})
	}
}

// TestHugeMessages sends messages with too many values: two bytes of a message
// may take a hundred in memory, so they are not decoded.
func TestHugeMessages(t *testing.T) {
	race.Skip(t)
	values := func(before, one, after string) string {
		return `{"jsonrpc":"2.0","id":$id,"result":` + before + strings.Repeat(one+",", (maxFrame-1000)/(len(one)+1)) + one + after + "}"
	}
	ok := strings.Repeat(`{"type":"text","text":"[{,"},`, process.MaxValues/4)
	for name, c := range map[string]struct {
		answer  string
		at      int // which call
		refused bool
	}{
		"tools":              {values(`{"tools":[`, "{}", `]}`), 1, true},
		"a schema":           {values(`{"tools":[{"name":"a","inputSchema":[`, "[]", `]}]}`), 1, true},
		"what it can do":     {values(`{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"a":[`, "0", `]}}}`), 0, true},
		"content":            {values(`{"content":[`, `{"type":"text","text":""}`, `]}`), 2, true},
		"as much as it may":  {`{"jsonrpc":"2.0","id":$id,"result":{"content":[` + ok[:len(ok)-1] + `]}}`, 2, false},
		"a text of brackets": {`{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"` + strings.Repeat(`[,\"`, process.MaxValues) + `"}]}}`, 2, false},
	} {
		for _, kind := range []string{"lines", "JSON", "events"} {
			t.Run(name+" as "+kind, func(t *testing.T) {
				h := &hostile{http: kind != "lines", answers: make([]string, c.at, c.at+2)}
				answer := c.answer
				if kind == "events" {
					answer = "data: " + answer + "\n\n"
				}
				h.answers = append(h.answers, answer, "")
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				var err error
				log := h.meet(t, func(t *testing.T, m *Manager) {
					_, err = m.run(t.Context(), tool.Call{Scope: tool.Unbounded()}, "a", nil)
				})
				runtime.ReadMemStats(&after)
				if (err != nil) != c.refused {
					t.Errorf("the call: %v\n%s", err, log)
				}
				if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 150 {
					t.Errorf("it took %d MiB", took)
				}
			})
		}
	}
}

// TestServerThatDoesNotReadIsClosed checks that a server that does not read responses is disconnected.
func TestServerThatDoesNotReadIsClosed(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":"$n","method":"ping"}`
	for name, h := range map[string]*hostile{
		"lines": {unasked: ping + "\n", times: 5, deaf: true},
		"HTTP": {http: true, unasked: "data: " + ping + "\n\n", times: 5, deaf: true, answers: []string{"", "", ":\n\n",
			"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			h.meet(t, func(t *testing.T, m *Manager) {
				for range 2 {
					m.run(t.Context(), tool.Call{Scope: tool.Unbounded()}, "a", nil)
				}
				time.Sleep(2 * writeTimeout)
				if !m.configured["h"].settled() || m.configured["h"].usable() {
					t.Error("it is not left")
				}
			})
		})
	}
}

// TestRetryConnects checks that a server that is asked to try again is neither
// settled nor in use before it has tried.
func TestRetryConnects(t *testing.T) {
	for _, before := range []state{down, over} {
		s := &server{state: before, kick: make(chan struct{}, 1)}
		s.retry(down, over)
		if s.settled() || s.usable() || len(s.kick) != 1 {
			t.Errorf("state %v after a retry, woken %d times", s.state, len(s.kick))
		}
	}
	s := &server{state: up, kick: make(chan struct{}, 1)}
	if s.retry(down, over); !s.usable() || len(s.kick) != 0 {
		t.Errorf("a server in use is in state %v after a retry", s.state)
	}
}

// TestToolsRefused has a server that answers the request for its tools with an
// error.
func TestToolsRefused(t *testing.T) {
	for _, http := range []bool{false, true} {
		h := &hostile{http: http, answers: []string{"", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32603,"message":"out of order"}}`, ""}}
		log := h.meet(t, func(t *testing.T, m *Manager) {
			if s := m.configured["h"]; s.usable() || len(m.view(tool.Unbounded())) != 0 {
				t.Error("a server without a list of tools is in use")
			}
		})
		if !strings.Contains(log, "out of order") {
			t.Errorf("the error is not logged:\n%s", log)
		}
	}
}

// TestToolsFull has a server with as many tools as it may have, and more pages.
func TestToolsFull(t *testing.T) {
	var list []string
	for i := range maxTools {
		list = append(list, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
	}
	h := &hostile{answers: []string{"", `{"jsonrpc":"2.0","id":$id,"result":{"nextCursor":"2","tools":[` + strings.Join(list, ",") + `]}}`, ""}}
	h.meet(t, func(t *testing.T, m *Manager) {
		if n := len(m.view(tool.Unbounded())); n != maxTools {
			t.Errorf("%d tools, want %d", n, maxTools)
		}
	})
	if h.calls != 2 {
		t.Errorf("%d requests, want one to begin and one for tools", h.calls)
	}
}

// TestAgreed checks that a server that selects an unknown version is refused.
func TestAgreed(t *testing.T) {
	h := &hostile{answers: []string{`{"jsonrpc":"2.0","id":$id,"result":{"protocolVersion":"2026-07-28","capabilities":{"tools":{}}}}`, ""}}
	log := h.meet(t, func(t *testing.T, m *Manager) {
		if n := len(m.view(tool.Unbounded())); n != 0 {
			t.Errorf("%d tools", n)
		}
	})
	if !strings.Contains(log, "server uses protocol version 2026-07-28") {
		t.Errorf("the log has no warning:\n%s", log)
	}
}
