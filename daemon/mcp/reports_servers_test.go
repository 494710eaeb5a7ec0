package mcp

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/golden"
)

// portFile writes the port file of a component, at a time of its own.
func (w *world) portFile(name, text string) {
	if err := vfs.MkdirAll(w.fs, "/run", 0o700); err != nil {
		w.t.Fatal(err)
	}
	w.fs.WriteFile("/run/"+name+".port", []byte(text), 0o600)
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := w.fs.Remove("/run/" + name + ".port"); err != nil {
		w.t.Fatal(err)
	}
}

// watchRun starts to look for components.
func (w *world) watchRun() {
	w.o.Run = "/run"
	w.wg.Go(w.watch)
}

// TestReportsOfComponents compares what the manager does as port files and
// components come, change, and go.
func TestReportsOfComponents(t *testing.T) {
	var r golden.Reports
	inWorld(t, &r, func(w *world) {
		a, b := w.site("1001", "a", true), w.site("1002", "b", false)
		w.watchRun()
		w.step("no directory", 0)
		w.portFile("a", "1001")
		w.step("a port file", time.Second)
		w.step("found", 1500*time.Millisecond)
		w.portFile("a", "1001")
		w.step("written again while it is connected", 3*time.Second)
		a.stop()
		w.step("stopped", 0)
		w.step("stopped for a while", 5*time.Minute)
		w.portFile("a", "1001")
		w.step("written again while it is down", 8*time.Second)
		a.set(func() { a.down = false })
		w.portFile("a", "1001\n")
		w.step("back", 3*time.Second)
		a.stop()
		w.step("stopped after less than a minute", 20*time.Second)
		a.set(func() { a.down = false })
		w.portFile("a", "1001")
		w.step("back again", 62*time.Second)
		a.stop()
		w.step("stopped after more than a minute", 5*time.Second)
		w.portFile("a", "1002")
		w.step("another port", 3*time.Second)
		w.portFile("b", "1002")
		w.step("two at one port", 3*time.Second)
		b.set(func() { b.tools = "[" + toolA + "," + toolB + "]" })
		w.remove("a")
		w.step("one removed", 3*time.Second)
		w.remove("b")
		w.step("both removed", 3*time.Second)
		w.portFile("b", "1002")
		w.step("one again", 3*time.Second)
		w.Close()
		w.step("closed", time.Second)
		w.Close()
		w.scan()
		w.Set([]Server{{Name: "c", URL: "http://127.0.0.1:1001/mcp"}})
		w.step("after the close", time.Minute)
	})
	r.Compare(t, "testdata/reports/components.txt.gz")
}

// TestReportsOfPorts compares the problems of port files, and how often they are
// logged.
func TestReportsOfPorts(t *testing.T) {
	var r golden.Reports
	inWorld(t, &r, func(w *world) {
		w.site("1001", "a", true)
		w.portFile("a", "first")
		w.watchRun()
		w.step("a port file at the start", 0)
		for _, text := range []string{"x", "x", "1001", "x", "y", "0", "65535", "65536", "+1001", " 1001\n", "10 01", "", "00000000000000000000000000001001", "000000000000000000000000000001001"} {
			w.portFile("a", text)
			w.step(fmt.Sprintf("port file %q", text), 3*time.Second)
		}
		for _, name := range []string{"crabtalk", ".hidden", "", "a__b", "sp ace", "Z-z_9.0"} {
			w.portFile(name, "1")
		}
		w.fs.WriteFile("/run/other.txt", []byte("1"), 0o600)
		w.fs.Symlink("a.port", "/run/link.port")
		w.step("names", 3*time.Second)
		w.portFile("a", "0")
		w.scan()
		w.step("another problem", 0)
		calls := 0
		for _, op := range []string{"readdir", "lstat", "open", "read"} {
			for _, err := range []error{fs.ErrNotExist, errors.New("no such luck"), errors.New("no such luck"), errors.New("another"), nil, errors.New("another")} {
				w.fs.Hook = func(c faultfs.Call) error {
					if c.Op == op && (c.Name == "/run" || c.Name == "/run/a.port") {
						calls++
						return err
					}
					return nil
				}
				w.scan()
				w.step(fmt.Sprintf("%s fails: %v", op, err), 0)
			}
			w.fs.Hook = nil
			w.scan()
			w.step(op+" works again", 0)
		}
		if calls == 0 {
			t.Error("no call failed")
		}
		w.Set([]Server{{Name: "a", URL: "http://127.0.0.1:1001/mcp"}, {Name: "b", URL: "http://127.0.0.1:1001/mcp"}})
		w.step("a component of a configured name", time.Second)
		w.portFile("b", "1001")
		w.scan()
		w.scan()
		w.step("two", time.Second)
		w.remove("a")
		w.step("the first removed", 3*time.Second)
		w.portFile("a", "1001")
		w.step("the first again", 3*time.Second)
		w.Set(nil)
		w.step("no configured servers", time.Second)
	})
	for n := maxServers - 1; n <= maxServers+2; n++ {
		fsys := faultfs.NewMem()
		if err := vfs.MkdirAll(fsys, "/run", 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			fsys.WriteFile(fmt.Sprintf("/run/c%03d.port", i), fmt.Append(nil, 1000+i), 0o600)
			fsys.WriteFile(fmt.Sprintf("/run/%s%03d.port", strings.Repeat("n", 60+i%3), i), nil, 0o600)
		}
		text := ""
		ports, err := Ports(fsys, "/run", func(file string, err error) { text += fmt.Sprintf("%s: %v\n", file, err) })
		for _, p := range ports {
			text += fmt.Sprintf("%s %s %d %s %v\n", p.Name, p.File, p.Port, p.URL(), time.Since(p.Modified) < time.Hour)
		}
		r.Addf(fmt.Sprint(n, " components"), "%v\n%s", err, text)
	}
	r.Compare(t, "testdata/reports/ports.txt.gz")
}

// TestReportsOfServers compares what the manager does with configured servers.
func TestReportsOfServers(t *testing.T) {
	var r golden.Reports
	inWorld(t, &r, func(w *world) {
		a, b := w.site("1001", "a", true), w.site("1002", "b", true)
		at := func(name, port string) Server { return Server{Name: name, URL: "http://127.0.0.1:" + port + "/mcp"} }
		once := at("once", "1002")
		once.Once = true
		w.Set([]Server{at("a", "1001"), once})
		w.step("two servers", time.Second)
		w.Set([]Server{at("a", "1001"), once})
		w.step("the same", time.Second)
		a.stop()
		b.stop()
		w.step("both stopped", 10*time.Second)
		w.Set([]Server{at("a", "1001"), once})
		w.step("set again", 10*time.Second)
		a.set(func() { a.down = false; a.tools = "[" + toolA + "," + toolB + "]" })
		b.set(func() { b.down = false })
		w.step("both work", 30*time.Second)
		a.stop()
		w.step("one stopped after less than a minute", 30*time.Second)
		a.set(func() { a.down = false })
		w.step("it works for more than a minute", 2*time.Minute)
		a.stop()
		w.step("stopped after that", 10*time.Second)
		a.set(func() { a.down = false })
		w.step("it works again", 10*time.Second)
		w.Set([]Server{once})
		w.step("one server", time.Second)
		timed := once
		timed.Timeout = 4 * time.Minute
		w.Set([]Server{timed})
		w.step("another timeout", 4*time.Minute)
		w.Set([]Server{{Name: "a", Command: "/none/such", Dir: "/none"}, timed})
		w.step("no such command", 0)
		w.Set(nil)
		w.step("no servers", time.Second)
	})
	r.Compare(t, "testdata/reports/servers.txt.gz")
}

// TestReportsOfLists compares what the manager does with the responses of a
// server: of the first request, and of those for tools.
func TestReportsOfLists(t *testing.T) {
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	names := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
		}
		return strings.Join(list, ",")
	}
	long := strings.Repeat("n", maxToolName)
	var r golden.Reports
	for _, c := range []struct{ title, init, tools string }{
		{"no capabilities", `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"h","version":"1"}}`, "[" + toolA + "]"},
		{"an older version", strings.Replace(withTools, "2025-11-25", "2025-06-18", 1), "[" + toolB + "," + toolA + "]"},
		{"a later version", strings.Replace(withTools, "2025-11-25", "2025-11-26", 1), "[" + toolA + "]"},
		{"names", withTools, `[null,` + toolA + `,` + toolA + `,{"name":"","inputSchema":{}},{"name":"b<c","inputSchema":{}},{"name":"` + long + `","inputSchema":{}},{"name":"` + long + `n","inputSchema":{}},{"name":"s__t","inputSchema":{}},{"name":"bash","inputSchema":{}}]`},
		{"tools at the limit", withTools, "[" + names(maxTools) + "]"},
		{"tools above the limit", withTools, "[" + names(maxTools+1) + "]"},
		{"all tools and a page", withTools, "[" + names(maxTools) + `],"nextCursor":"x"`},
		{"pages without end", withTools, "[" + toolA + `],"nextCursor":"x"`},
		{"no list", withTools, "7"},
		{"the first request fails", "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "[]"},
	} {
		inWorld(t, &r, func(w *world) {
			a := w.site("1001", "a", true)
			a.init, a.tools = c.init, c.tools
			w.Set([]Server{{Name: "a", URL: "http://127.0.0.1:1001/mcp"}})
			w.step(c.title, 3*time.Second)
			w.Set(nil)
			w.step(c.title+", removed", time.Second)
		})
	}
	inWorld(t, &r, func(w *world) {
		a := w.site("1001", "a", true)
		w.Set([]Server{{Name: "a", URL: "http://127.0.0.1:1001/mcp"}})
		w.step("connected", time.Second)
		for _, tools := range []string{"[" + toolA + "]", "[" + toolA + "," + toolB + "]", "[" + toolB + "," + toolA + "]", "[" + toolB + "]", "[]", `[` + strings.Replace(toolB, `"object"`, `"object","title":"x"`, 1) + `]`, "7"} {
			a.set(func() { a.tools = tools })
			a.pushes <- changed
			w.step("changed to "+tools, 300*time.Millisecond)
			a.pushes <- changed
			a.pushes <- changed
			w.step("twice more", 5*time.Second)
		}
	})
	r.Compare(t, "testdata/reports/lists.txt.gz")
}

// TestReportsOfSilence compares how long the manager waits for a server that does
// not respond to a method.
func TestReportsOfSilence(t *testing.T) {
	var r golden.Reports
	for _, method := range []string{"", "initialize", "notifications/initialized", "tools/list", "GET", "ping"} {
		for _, timeout := range []time.Duration{time.Second, 4 * time.Minute} {
			inWorld(t, &r, func(w *world) {
				a := w.site("1001", "a", method != "GET")
				a.silent = method
				w.Set([]Server{{Name: "a", URL: "http://127.0.0.1:1001/mcp", Timeout: timeout}})
				w.step(fmt.Sprintf("silent after %q, time limit %v", method, timeout), 0)
				w.step("later", 2*time.Second)
				w.step("after the limit for a stream", 5*time.Second)
				w.step("after the limits", 50*time.Second)
				w.step("after the next pings", 5*time.Minute)
			})
		}
	}
	r.Compare(t, "testdata/reports/silence.txt.gz")
}
