package mcp

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/tool"
)

// ownTools returns the names of the tools that a scope lists.
func (w *world) ownTools(scope tool.Scope) string {
	var names []string
	for _, t := range w.Listed(scope) {
		names = append(names, t.Name)
	}
	return strings.Join(names, " ")
}

// TestAgentToolsOfDisconnectedServer lists the tools of a server that was connected,
// and calls one when the server is reachable again.
func TestAgentToolsOfDisconnectedServer(t *testing.T) {
	scope := tool.For(tool.Grant{Tools: []string{"s/*"}})
	for _, once := range []bool{false, true} {
		inWorld(t, func(w *world) {
			s := w.site("1001", true)
			w.Set([]Server{{Name: "s", URL: "http://127.0.0.1:1001/mcp", Once: once}})
			w.settle(0)
			s.stop()
			w.settle(20 * time.Second)
			if got := w.ownTools(scope); got != "s/a" || len(w.view(tool.Unbounded())) != 0 {
				t.Errorf("disconnected: %s", got)
			}
			own := w.Listed(scope)[0]
			call := func() string {
				got, err := own.Run(w.t.Context(), tool.Call{Name: own.Name, Scope: scope})
				return fmt.Sprint(got, err)
			}
			if got := call(); got != "mcp call failed: s is disconnected" {
				t.Errorf("a call: %s", got)
			}
			s.set(func() { s.down = false })
			own = w.Listed(scope)[0]
			want := map[bool]string{false: "done<nil>", true: "mcp call failed: s is disconnected"}[once]
			if got := call(); got != want {
				t.Errorf("once %v, a call of a reachable server: %s, want %s", once, got, want)
			}
		})
	}
}

// TestReady waits for the first list of a server, no longer than a call does, and only if
// the scope may list a tool of the server.
func TestReady(t *testing.T) {
	for _, c := range []struct {
		tools []string
		slow  bool // the server never answers
		late  bool // the server is reachable after a failed attempt
		want  string
		wait  time.Duration
	}{
		{[]string{"s/a"}, false, false, "s/a", 0},
		{[]string{"s/a"}, false, true, "s/a", 0},
		{[]string{"s/a"}, true, false, "", settle},
		{[]string{"other/a"}, true, false, "", 0},
		{[]string{tool.MCP}, true, false, "", 0},
	} {
		inWorld(t, func(w *world) {
			s := w.site("1001", true)
			s.down = c.late
			if c.slow {
				s.silent = "initialize"
			}
			w.Set([]Server{{Name: "s", URL: "http://127.0.0.1:1001/mcp"}})
			if c.late {
				w.settle(4 * time.Second)
				s.set(func() { s.down = false })
			}
			scope := tool.For(tool.Grant{Tools: c.tools})
			for _, want := range []time.Duration{c.wait, 0} {
				began := time.Now()
				w.Ready(w.t.Context(), scope)
				if took := time.Since(began); took != want && !(c.slow && want == 0) {
					t.Errorf("%+v: %v, want %v", c, took, want)
				}
			}
			if got := w.ownTools(scope); got != c.want {
				t.Errorf("%+v: %s", c, got)
			}
		})
	}
}

// TestAgentToolsOfNamedServers lists no tool of a server whose name contains a slash: the
// tool may be that of another server.
func TestAgentToolsOfNamedServers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.site("1001", false)
		w.site("1002", false).tools = `[{"name":"b/a","inputSchema":{}},{"name":"c","inputSchema":{}}]`
		w.Set([]Server{{Name: "a/b", URL: "http://127.0.0.1:1001/mcp"}, {Name: "a", URL: "http://127.0.0.1:1002/mcp"}, {Name: "a__b", URL: "http://127.0.0.1:1001/mcp"}})
		w.settle(time.Second)
		for list, want := range map[string]string{"a/b/a": "a/b/a", "a/*": "a/b/a a/c", "a/b*": "a/b/a", "a__b/*": ""} {
			if got := w.ownTools(tool.For(tool.Grant{Tools: []string{list}})); got != want {
				t.Errorf("%s: %q, want %q", list, got, want)
			}
		}
		for _, own := range w.Listed(tool.For(tool.Grant{Tools: []string{"a/b/a"}})) {
			if got, err := own.Run(w.t.Context(), tool.Call{}); got != "done" || err != nil {
				t.Errorf("%s: %q, %v", own.Name, got, err)
			}
			if got, err := own.Run(w.t.Context(), tool.Call{Arguments: []byte(`[1]`)}); err == nil || !strings.HasPrefix(err.Error(), "invalid tool arguments: ") {
				t.Errorf("%s: %q, %v", own.Name, got, err)
			}
		}
	})
}

// TestLeaves sends no arguments that must not leave, by a tool of its own and by the tool
// mcp, unless the server may receive secrets.
func TestLeaves(t *testing.T) {
	inWorld(t, func(w *world) {
		w.o.Leaves = func(arguments string) error {
			if strings.Contains(arguments, "key") {
				return errors.New("not sent")
			}
			return nil
		}
		w.site("1001", false).tools = `[{"name":"c","inputSchema":{}}]`
		w.Set([]Server{{Name: "a", URL: "http://127.0.0.1:1001/mcp"}, {Name: "b", URL: "http://127.0.0.1:1001/mcp", Secrets: true}})
		w.settle(time.Second)
		for _, own := range w.Listed(tool.For(tool.Grant{Tools: []string{"a/*", "b/*"}})) {
			for args, leaves := range map[string]bool{`{"x":"key"}`: own.Name == "b/c", `{"x":"other"}`: true} {
				if _, err := own.Run(w.t.Context(), tool.Call{Arguments: []byte(args)}); (err == nil) != leaves {
					t.Errorf("%s %s: %v", own.Name, args, err)
				}
				call := fmt.Sprintf(`{"name":"%s","args":%s}`, strings.ReplaceAll(own.Name, "/", "__"), args)
				if _, err := w.Tool().Run(w.t.Context(), tool.Call{Arguments: []byte(call), Scope: tool.Unbounded()}); (err == nil) != leaves {
					t.Errorf("mcp %s %s: %v", own.Name, args, err)
				}
			}
		}
	})
}

// TestTooManyAgentTools omits tools over the limits, and logs it.
func TestTooManyAgentTools(t *testing.T) {
	for schema, want := range map[string]int{`{}`: maxAgentTools, `{"description":"` + strings.Repeat("x", maxDescription) + `","title":"` + strings.Repeat("x", maxDescription) + `"}`: 62} {
		var tools []string
		for i := range 200 {
			tools = append(tools, fmt.Sprintf(`{"name":"t%03d","inputSchema":%s}`, i, schema))
		}
		inWorld(t, func(w *world) {
			s := w.site("1001", false)
			s.tools = "[" + strings.Join(tools, ",") + "]"
			w.Set([]Server{{Name: "s", URL: "http://127.0.0.1:1001/mcp"}})
			w.settle(time.Second)
			for range 2 {
				if n := len(w.Listed(tool.For(tool.Grant{Tools: []string{"s/*"}}))); n != want {
					t.Errorf("%d tools, want %d", n, want)
				}
			}
			if text := fmt.Sprintf("omitted s/t%03d and all after it", want); strings.Count(w.log.String(), text) != 1 {
				t.Errorf("the log does not contain %q once:\n%s", text, w.log.String())
			}
		})
	}
}
