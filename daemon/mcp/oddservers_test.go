package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/tool"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestOldTransport calls a tool of a server with the SSE transport of MCP
// 2024-11-05. Each request has the token and the configured query or its own.
func TestOldTransport(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "old", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "greet", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "hello"}}}, nil
	})
	sse := sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return server }, nil)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer planted" || r.URL.RawQuery == "" {
			t.Errorf("%s %s without the token or the query", r.Method, r.URL)
		}
		if r.Method == http.MethodPost && !r.URL.Query().Has("sessionid") {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		sse.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	s := manager(t, Server{Name: "old", URL: h.URL + "/sse?tenant=7", Token: "planted"})
	for range 3 {
		s.want("greet", "", "hello")
	}
}

// TestNoTransport reports both transports of a server that answers neither.
func TestNoTransport(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusForbidden} {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		s := manager(t, Server{Name: "none", URL: h.URL + "/mcp?key=planted"})
		s.want("", "", "no tools found")
		s.Close()
		h.Close()
		text := s.log.String()
		if named := strings.Contains(text, "over the SSE transport of MCP 2024-11-05"); named != (status != http.StatusForbidden) || strings.Contains(text, "planted") {
			t.Errorf("status %d:\n%s", status, text)
		}
	}
}

// TestUndeclaredTools lists the tools of a server without capabilities. A server that
// does not answer, or refuses the list, has none.
func TestUndeclaredTools(t *testing.T) {
	for _, c := range []struct{ init, tools, silent, want string }{
		{strings.Replace(withTools, `"tools":{"listChanged":true}`, "", 1), "[" + toolA + "]", "", "a connected 1"},
		{strings.Replace(withTools, `{"tools":{"listChanged":true}}`, "null", 1), "[" + toolA + "]", "", "a connected 1"},
		{strings.Replace(withTools, `"tools":{"listChanged":true}`, "", 1), "", "", "a connected 0"},
		{strings.Replace(withTools, `"tools":{"listChanged":true}`, "", 1), "", "tools/list", "a connected 0"},
	} {
		inWorld(t, func(w *world) {
			s := w.site("1001", false)
			s.init, s.tools, s.silent = c.init, c.tools, c.silent
			w.Set([]Server{{Name: "a", URL: "http://127.0.0.1:1001/mcp"}})
			w.settle(connectTimeout + time.Second)
			st := w.Statuses()[0]
			if got := fmt.Sprint(st.Name, " ", st.State, " ", st.Tools); got != c.want {
				t.Errorf("%+v: %s", c, got)
			}
		})
	}
}

// TestCallConnects calls a tool of a server that is reachable again, between two
// attempts of the manager.
func TestCallConnects(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.site("1001", false)
		s.down = true
		w.Set([]Server{{Name: "a", URL: "http://127.0.0.1:1001/mcp"}})
		for range 2 {
			w.settle(20 * time.Second)
			s.set(func() { s.down = false })
			began := time.Now()
			if got, err := w.run(w.t.Context(), tool.Call{Scope: tool.Unbounded()}, "a", nil); got != "done" || err != nil || time.Since(began) > time.Second {
				t.Errorf("%q, %v after %v", got, err, time.Since(began))
			}
			s.stop()
		}
	})
}

// TestFraming refuses a server that frames its messages as language servers do, at
// once. Other servers may print the line.
func TestFraming(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	for output, refused := range map[string]bool{
		"Content-Length: 40\r\n\r\n" + ping: true, "content-length:40\n\n": true,
		"Content-Length: 40\n" + ping: false, "\n" + ping: false, "Content-Length: forty\n\n" + ping: false, "x Content-Length: 40\n\n" + ping: false,
		"ready\nContent-Length: 40\n\n" + ping: false,
	} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := newChild(nil)
			c.read(strings.NewReader(output))
			named := strings.Contains(c.readErr.Error(), "Content-Length headers")
			if named != refused || !refused && (c.readErr != io.EOF || len(c.messages) != 1) {
				t.Errorf("%q: %v, %d messages", output, c.readErr, len(c.messages))
			}
		})
	}
	h := &hostile{answers: []string{"Content-Length: 40\n\n{"}}
	if log := h.meet(t, nil); !strings.Contains(log, "MCP requires one message per line") || strings.Contains(log, "no response within") {
		t.Errorf("log:\n%s", log)
	}
}
