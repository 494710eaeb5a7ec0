package mcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/tool"
)

// TestRetries compares when the manager connects to a server that stops: after
// pauses that double, from the shortest if the connection lasted.
func TestRetries(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.site("1001", true)
		s.set(func() { s.down = true })
		w.Set([]Server{{Name: "s", URL: "http://127.0.0.1:1001/mcp"}})
		attempts := func(d time.Duration) (times []string) {
			s.set(func() { w.refused = nil })
			began := time.Since(w.began)
			w.settle(d)
			var refused []time.Duration
			s.set(func() { refused = slices.Clone(w.refused) })
			for _, at := range refused {
				if at -= began; at >= firstRetry {
					times = append(times, at.Round(time.Second).String())
				}
			}
			return times
		}
		for _, c := range []struct {
			change func()
			wait   time.Duration
			want   string
		}{
			{func() {}, 4 * time.Minute, "[1s 3s 7s 15s 31s 1m3s 2m3s 3m3s]"},
			{func() { s.set(func() { s.down = false }) }, 30 * time.Second, "[]"},
			{s.stop, 100 * time.Second, "[1m0s]"},
			{func() { s.set(func() { s.down = false }) }, 100 * time.Second, "[]"},
			{s.stop, 10 * time.Second, "[1s 3s 7s]"},
		} {
			c.change()
			if got := fmt.Sprint(attempts(c.wait)); got != c.want {
				t.Errorf("attempts after %v, want %s", got, c.want)
			}
		}
	})
}

// TestStatuses follows the states of a server, of one without a program, and of a component.
func TestStatuses(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.site("1001", true)
		hang := w.site("1002", true)
		hang.silent = "initialize"
		w.Set([]Server{{Name: "a", URL: "http://127.0.0.1:1001/mcp"}, {Name: "b", Command: "no-such-server"}, {Name: "c", URL: "http://127.0.0.1:1002/mcp"}})
		states := func() string {
			w.settle(5 * time.Second)
			var all []string
			for _, st := range w.Statuses() {
				all = append(all, fmt.Sprint(st.Name, " ", st.State, " ", st.Tools, " ", st.Error))
			}
			return strings.Join(all, "\n")
		}
		const b = "\nb disconnected 0 exec: \"no-such-server\": executable file not found in $PATH\nc "
		if got := states(); got != "a connected 1 "+b+"connecting 0 " {
			t.Errorf("connected: %s", got)
		}
		s.stop()
		if got := states(); !strings.HasPrefix(got, "a disconnected 0 ") || strings.HasPrefix(got, "a disconnected 0 \n") || !strings.Contains(got, b+"disconnected 0 no response within ") {
			t.Errorf("stopped: %s", got)
		}
		s.set(func() { s.down = false })
		w.settle(time.Minute)
		if got := states(); !strings.HasPrefix(got, "a connected 1 \n") {
			t.Errorf("connected again: %s", got)
		}
	})
}

// TestOnce checks that a server that is connected to once stays down until it is
// configured again.
func TestOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.site("1001", true)
		servers := []Server{{Name: "s", URL: "http://127.0.0.1:1001/mcp", Once: true}}
		for range 2 {
			w.Set(servers)
			if w.settle(time.Second); len(w.view(tool.Unbounded())) != 1 {
				t.Error("the server is not connected")
			}
			s.stop()
			w.settle(time.Second)
			s.set(func() { s.down = false })
			if w.settle(10 * time.Minute); len(w.view(tool.Unbounded())) != 0 {
				t.Error("the server is connected again")
			}
		}
	})
}

// TestOmittedTools checks what is logged of tools that are not listed.
func TestOmittedTools(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.site("1001", false)
		s.tools = `[` + toolB + `,` + toolB + `,{"name":"b<c","inputSchema":{}}]`
		w.Set([]Server{{Name: "s", URL: "http://127.0.0.1:1001/mcp"}})
		w.settle(time.Second)
		if want := "omitted 2 tools of an MCP server, the first because of a second b"; !strings.Contains(w.log.String(), want) {
			t.Errorf("the log does not contain %q:\n%s", want, w.log.String())
		}
	})
}

// TestComponentProblems counts how often the problems of port files are logged:
// once, and again after they were solved.
func TestComponentProblems(t *testing.T) {
	inWorld(t, func(w *world) {
		w.site("1001", false)
		w.o.Run = "/run"
		const invalid, ignored = "not a component: ", "ignored a component: "
		for i, c := range []struct {
			text string
			set  []Server
			log  string // what is logged once more
		}{
			{"x", nil, invalid}, {"x", nil, ""}, {"1001", nil, ""}, {"x", nil, invalid}, {"1001", []Server{{Name: "a", URL: "http://127.0.0.1:1001/mcp"}}, ignored},
			{"1001", []Server{{Name: "a", URL: "http://127.0.0.1:1001/mcp"}}, ""}, {"1001", nil, ""}, {"1001", []Server{{Name: "a", URL: "http://127.0.0.1:1001/mcp"}}, ignored},
		} {
			before := w.log.String()
			w.portFile("a", c.text)
			w.Set(c.set)
			w.scan()
			w.settle(time.Second)
			for _, text := range []string{invalid, ignored} {
				if n := strings.Count(w.log.String()[len(before):], text); n != map[bool]int{true: 1}[text == c.log] {
					t.Errorf("step %d: %q is logged %d times", i, text, n)
				}
			}
		}
	})
}

// TestPortFileWrittenAgain checks that the manager connects at once to a component
// that wrote its port file again.
func TestPortFileWrittenAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.site("1001", false)
		s.down = true
		w.o.Run = "/run"
		w.portFile("a", "1001")
		w.scan()
		w.settle(10 * time.Second)
		s.set(func() { s.down = false })
		w.portFile("a", "1001")
		w.scan()
		if w.settle(0); len(w.view(tool.Unbounded())) != 1 {
			t.Error("the component is not connected")
		}
	})
}

// TestToolChanges sends lists of tools: the manager sorts them and logs those that
// differ.
func TestToolChanges(t *testing.T) {
	other := strings.Replace(toolB, `"object"`, `"object","title":"x"`, 1)
	inWorld(t, func(w *world) {
		s := w.site("1001", true)
		w.Set([]Server{{Name: "s", URL: "http://127.0.0.1:1001/mcp"}})
		w.settle(time.Second)
		for _, c := range []struct {
			tools, want string
			changed     bool
		}{
			{"[" + toolA + "]", "a", false}, {"[" + toolB + "," + toolA + "]", "a b", true}, {"[" + toolA + "," + toolB + "]", "a b", false},
			{"[" + toolA + "," + other + "]", "a b", true}, {"[" + strings.Replace(toolA, "A.", "B.", 1) + "," + other + "]", "a b", true}, {"[]", "", true},
		} {
			before := w.log.String()
			s.set(func() { s.tools = c.tools })
			s.pushes <- `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
			w.settle(3 * time.Second)
			var names []string
			for _, l := range w.view(tool.Unbounded()) {
				names = append(names, l.name)
			}
			if changed := strings.Contains(w.log.String()[len(before):], "the tools of an MCP server changed"); strings.Join(names, " ") != c.want || changed != c.changed {
				t.Errorf("%s: tools %q, changed %v", c.tools, names, changed)
			}
		}
	})
	a := remote{"n", "d", []byte("s")}
	for _, b := range []remote{{"m", "d", []byte("s")}, {"n", "e", []byte("s")}, {"n", "d", nil}, {"m", "e", []byte("s")}} {
		if a.same(b) || !b.same(b) {
			t.Errorf("%v is the same as %v, or not as itself", b, a)
		}
	}
}
