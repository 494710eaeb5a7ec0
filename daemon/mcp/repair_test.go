package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"crabmem/daemon/tool"
)

// TestRepairMessages checks the messages of odd lines of a server's output.
func TestRepairMessages(t *testing.T) {
	const good = `{"jsonrpc":"2.0","id":3,"result":{}}`
	const fine = `{"type":"text","text":"fine"}`
	answer := func(result string) string { return `{"jsonrpc":"2.0","id":3,"result":` + result + `}` }
	for _, c := range []struct{ name, line, want string }{
		{"valid", good, good},
		{"byte order mark", "\ufeff" + good, good},
		{"log text first", "log: done " + good, good},
		{"log object first", `{"level":"info"} ` + good, good},
		{"two messages", `{"jsonrpc":"2.0","method":"a"}` + good, `{"jsonrpc":"2.0","method":"a"} ` + good},
		{"a logged request", `-> {"jsonrpc":"2.0","id":3,"method":"a"}`, ``},
		{"log text", `listening on {port}`, ``},
		{"NaN", answer(`{"content":[` + fine + `],"structuredContent":{"x":NaN,"y":-Infinity,"z":"NaN"}}`),
			answer(`{"content":[` + fine + `],"structuredContent":{"x":null,"y":null,"z":"NaN"}}`)},
		{"error as text", `{"jsonrpc":"2.0","id":3,"error":"plain"}`, `{"error":{"code":-32603,"message":"plain"},"id":3,"jsonrpc":"2.0"}`},
		{"error code as text", `{"jsonrpc":"2.0","id":3,"error":{"code":"E1","message":"plain"}}`, `{"error":{"code":-32603,"message":"plain"},"id":3,"jsonrpc":"2.0"}`},
		{"cut", `{"jsonrpc":"2.0","id":"x","result":{"content"`,
			`{"error":{"code":-32700,"message":"server sent an invalid response: {\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"content\""},"id":"x","jsonrpc":"2.0"}`},
		{"content as text", answer(`{"content":"fine"}`), `{"id":3,"jsonrpc":"2.0","result":{"content":[{"text":"fine","type":"text"}]}}`},
		{"content as object", answer(`{"content":` + fine + `}`), `{"id":3,"jsonrpc":"2.0","result":{"content":[` + fine + `]}}`},
		{"odd parts", answer(`{"content":["a",{"type":"w","html":1},{"type":"v","text":"b"},` + fine + `],"isError":"true","_meta":5}`),
			`{"id":3,"jsonrpc":"2.0","result":{"content":[{"text":"a","type":"text"},{"text":"[content of type w that is not valid: {\"type\":\"w\",\"html\":1}]","type":"text"},` +
				`{"text":"[content of type v that is not valid]\nb","type":"text"},` + fine + `],"isError":true}}`},
		{"odd tools", answer(`{"tools":[{"name":"a","inputSchema":{}},{"name":"b","inputSchema":{},"annotations":"x"},{"name":5},7]}`),
			`{"id":3,"jsonrpc":"2.0","result":{"tools":[{"name":"a","inputSchema":{}},{"inputSchema":{},"name":"b"}]}}`},
	} {
		var odd []string
		r := repairer{func(text string) { odd = append(odd, text) }}
		var got []string
		for _, m := range r.messages([]byte(c.line)) {
			got = append(got, string(m))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, strings.Join(got, " "), c.want)
		}
		if want := c.name == "odd tools"; want != (strings.Join(odd, "|") == "ignored the invalid annotations of tool b; omitted a tool without a name; omitted a tool without a name") {
			t.Errorf("%s: reported %q", c.name, odd)
		}
	}
}

// TestRepairResponses checks the responses of a server over HTTP.
func TestRepairResponses(t *testing.T) {
	const broken = `{"jsonrpc":"2.0","id":3,"error":"plain"}`
	const repaired = `{"error":{"code":-32603,"message":"plain"},"id":3,"jsonrpc":"2.0"}`
	failed := func(code int, message string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"error":{"code":%d,"message":%q}}`, code, message)
	}
	for _, c := range []struct {
		name, kind, body string
		status           int
		session          bool
		want             string
	}{
		{"JSON", "application/json", broken, 200, true, "200 " + repaired},
		{"events", "text/event-stream", ": hi\n\nevent: message\ndata:" + broken + "\n\ndata: {\n", 200, true, "200 : hi\n\nevent: message\ndata: " + repaired + "\n\ndata: {\n"},
		{"another ID", "application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Not Found"}}`, 404, true, "404 "},
		{"unknown session", "application/json", failed(-32001, "Session not found"), 400, true, "404 "},
		{"forbidden", "application/json", failed(-32001, "no"), 403, true, "404 "},
		{"without a session", "application/json", failed(-32001, "Session not found"), 403, false, "403 " + failed(-32001, "Session not found")},
		{"unknown method", "application/json", failed(-32601, "no"), 404, true, "404 " + failed(-32601, "no")},
		{"failure", "text/plain", "boom", 500, true, "500 boom"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		}))
		client := &http.Client{Transport: &repairing{server.Client().Transport, repairer{func(string) {}}}}
		req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL, strings.NewReader(`{"jsonrpc":"2.0","id":3,"method":"tools/call"}`))
		if err != nil {
			t.Fatal(err)
		}
		if c.session {
			req.Header.Set("Mcp-Session-Id", "s")
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := fmt.Sprintf("%d %s", resp.StatusCode, b); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
		client.CloseIdleConnections()
		server.Close()
	}
}

// TestExpiredSession refuses calls as a server that does not know the session.
// The call is repeated once in a new session.
func TestExpiredSession(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		refuse int64 // calls
		want   string
	}{
		{404, "", 1, "ok"},
		{404, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Not Found"}}`, 1, "ok"},
		{403, "forbidden", 1, "ok"},
		{400, "no valid session ID", 1, "ok"},
		{404, "", 2, "error"},
	} {
		var calls, sessions atomic.Int64
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var m struct {
				ID     json.RawMessage
				Method string
			}
			results := map[string]string{
				"initialize": `{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}`,
				"tools/list": `{"tools":[{"name":"ok","inputSchema":{"type":"object"}}]}`,
				"tools/call": `{"content":[{"type":"text","text":"ok"}]}`,
			}
			switch err := json.NewDecoder(r.Body).Decode(&m); {
			case err != nil:
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			case m.ID == nil:
				w.WriteHeader(http.StatusAccepted)
				return
			case m.Method == "initialize":
				w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", sessions.Add(1)))
			case m.Method == "tools/call" && calls.Add(1) <= c.refuse:
				if strings.HasPrefix(c.body, "{") {
					w.Header().Set("Content-Type", "application/json")
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, results[m.Method])
		}))
		t.Cleanup(h.Close)
		s := manager(t, Server{Name: "forgets", URL: h.URL})
		if c.want == "ok" {
			s.want("ok", "", "ok")
		} else if text, err := s.call(tool.Unbounded(), "ok", ""); err == nil {
			t.Errorf("refused twice: %q", text)
		}
		if n := calls.Load(); n != 2 {
			t.Errorf("%d %q, refused %d times: %d calls, want 2", c.status, c.body, c.refuse, n)
		}
	}
}
