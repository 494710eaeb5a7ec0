package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/service/servicetest"
	"crabmem/daemon/tool"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func (s *setup) home() string { return filepath.Dir(s.run) }

func (s *setup) port(name, text string) {
	s.t.Helper()
	// Write the file atomically: the watch may read it at any time.
	file := filepath.Join(s.run, name+".port")
	if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
		s.t.Fatal(err)
	}
}

// TestComponent: a component is found while the daemon runs, missed when it is
// killed, and found again on another port.
func TestComponent(t *testing.T) {
	s := manager(t)
	p := servicetest.Start(t, s.home(), "search")
	s.want("greet", `{"name":"Crab"}`, "hello, Crab, from search")
	p.Kill(t)
	began := time.Now()
	gate.Until(t, "its tools go", func() bool { return len(s.view(tool.Unbounded())) == 0 })
	gate.Time(t, "removing the tools", began, 5*time.Second)
	s.want("greet", `{"name":"Crab"}`, "error: mcp tool 'greet' not available")
	if text := s.Resources(tool.Unbounded()); text != "" {
		t.Errorf("resources: %s", text)
	}
	q := servicetest.Start(t, s.home(), "search")
	if p.Port == q.Port {
		t.Fatalf("it came back on port %s", q.Port)
	}
	s.want("pid", "", strconv.Itoa(q.Process.Pid))
	if text := s.Resources(tool.Unbounded()); !strings.HasSuffix(text, "\n- search: greet, pid, sleep") {
		t.Errorf("resources: %s", text)
	}
	if err := q.Stop(t); err != nil {
		t.Errorf("a component that is asked to end: %v", err)
	}
	if list, err := os.ReadDir(s.run); err != nil || len(list) > 0 {
		t.Errorf("left in run/: %v, %v", list, err)
	}
	gate.Until(t, "it is gone", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.components) == 0 })
}

// TestTwoComponents: calls of both at the same time, names that both have.
func TestTwoComponents(t *testing.T) {
	s := manager(t)
	servicetest.Start(t, s.home(), "one")
	servicetest.Start(t, s.home(), "two")
	s.want("one__greet", `{"name":"a"}`, "hello, a, from one")
	s.want("two__greet", `{"name":"b"}`, "hello, b, from two")
	began := time.Now()
	done := make(chan bool)
	for i := range 6 {
		go func() { s.want([]string{"one", "two"}[i%2]+"__sleep", "", "slept"); done <- true }()
	}
	for range 6 {
		<-done
	}
	gate.Time(t, "six calls of one second", began, 4*time.Second)
}

// TestPorts checks that invalid port files are reported once and have no other
// effect.
func TestPorts(t *testing.T) {
	s := manager(t)
	s.port("crabtalk", "6688")
	for name, text := range map[string]string{
		"empty": "", "text": "http://x", "zero": "0", "big": "65536", "plus": "+80", "two": "80 81", "a__b": "80", "b c": "80", "<x>": "80",
		"long": strings.Repeat("1", 100), strings.Repeat("n", 65): "80", "": "80",
	} {
		s.port(name, text)
	}
	os.Symlink(filepath.Join(s.run, "crabtalk.port"), filepath.Join(s.run, "link.port"))
	os.Mkdir(filepath.Join(s.run, "dir.port"), 0o700)
	for range 3 {
		s.scan()
	}
	if n := len(s.servers()); n != 0 {
		t.Errorf("%d components", n)
	}
	if n := strings.Count(s.log.String(), "not a component"); n != 14 {
		t.Errorf("%d warnings:\n%s", n, s.log)
	}
	if strings.Contains(s.log.String(), "crabtalk.port: not") {
		t.Error("the daemon's own port is taken for a component's")
	}
	for i := range maxServers + 5 {
		s.port(fmt.Sprintf("x%03d", i), "1")
	}
	s.scan()
	if n := len(s.servers()); n != maxServers {
		t.Errorf("%d components", n)
	}
	ports, err := Ports(vfs.OS{}, filepath.Join(s.run, "nowhere"), nil)
	if err != nil || ports != nil {
		t.Errorf("a missing directory: %v, %v", ports, err)
	}
}

// TestNotMCP connects to ports without an MCP server: a web server, a silent
// port, a port without a listener.
func TestNotMCP(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	s := manager(t)
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	s.port("web", port)
	_, port, _ = net.SplitHostPort(mute.Addr().String())
	s.port("mute", port)
	s.port("nobody", "1")
	began := time.Now()
	s.want("", "", "no tools found")
	gate.Time(t, "the list of tools", began, settle+time.Second)
	if text := s.Resources(tool.Unbounded()); text != "" {
		t.Errorf("resources: %s", text)
	}
}

// TestConfiguredFirst: a component does not take the place of a server that was
// configured.
func TestConfiguredFirst(t *testing.T) {
	s := manager(t, stdio(t, "noise"))
	servicetest.Start(t, s.home(), "noise")
	s.want("noisy", "", "done")
	s.scan()
	if n := len(s.servers()); n != 1 || !strings.Contains(s.log.String(), "has the same name") {
		t.Errorf("%d servers:\n%s", n, s.log)
	}
}

// remoteServer is an MCP server at an address. It requires a token and records
// unexpected requests.
func remoteServer(t *testing.T, wrap func(http.Handler) http.Handler) *httptest.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "remote", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "ok"}, func(_ context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "ok"}}}, nil, nil
	})
	h := httptest.NewServer(wrap(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)))
	t.Cleanup(h.Close)
	return h
}

// TestToken checks that every request to the server has the token, and no
// request to another host has it, regardless of redirects.
func TestToken(t *testing.T) {
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("request to another host: %s %v", r.Method, r.Header)
	}))
	defer thief.Close()
	h := remoteServer(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			switch {
			case user == "me" && password == "planted" && r.URL.Query().Get("key") == "planted":
				next.ServeHTTP(w, r)
			case r.Header.Get("Authorization") != "Bearer planted":
				http.Error(w, "no", http.StatusUnauthorized)
			case r.URL.Path == "/away":
				http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
			case r.URL.Path == "/near":
				http.Redirect(w, r, "/mcp", http.StatusTemporaryRedirect)
			default:
				next.ServeHTTP(w, r)
			}
		})
	})
	s := manager(t,
		Server{Name: "right", URL: h.URL + "/mcp", Token: "planted"},
		Server{Name: "near", URL: h.URL + "/near", Token: "planted"},
		Server{Name: "none", URL: h.URL + "/mcp"},
		Server{Name: "user", URL: strings.Replace(h.URL, "//", "//me:planted@", 1) + "/mcp?key=planted"},
		Server{Name: "nobody", URL: "http://me:planted@127.0.0.1:1/mcp?key=planted"},
		Server{Name: "away", URL: h.URL + "/away", Token: "planted"},
	)
	s.settle(t.Context(), tool.Everything().Allows, func() bool { return false })
	s.want("right__ok", "{}", "ok")
	s.want("near__ok", "{}", "ok")
	s.want("user__ok", "{}", "ok")
	if n := len(s.view(tool.Unbounded())); n != 3 {
		t.Errorf("%d tools", n)
	}
	for _, text := range []string{"Unauthorized", "redirect to"} {
		if !strings.Contains(s.log.String(), text) {
			t.Errorf("the log has no %q:\n%s", text, s.log)
		}
	}
	if strings.Contains(s.log.String(), "planted") {
		t.Errorf("the token is in the log:\n%s", s.log)
	}
}

// TestMuteStream: a server that never answers the request for a stream of events
// is one without.
func TestMuteStream(t *testing.T) {
	h := remoteServer(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				<-r.Context().Done()
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	s := manager(t, Server{Name: "mute", URL: h.URL})
	s.want("ok", "", "ok")
}

// TestHugeAnswer checks that an endless response is cut off, and so is an
// unexpected stream of events.
func TestHugeAnswer(t *testing.T) {
	const most = 100 << 20
	var sent atomic.Int64
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusBadRequest)
			for sent.Load() < most {
				n, err := w.Write(make([]byte, 1<<20))
				if sent.Add(int64(n)); err != nil {
					return
				}
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		for range 2 * maxFrame / 1000 {
			if _, err := w.Write(make([]byte, 1000)); err != nil {
				return
			}
		}
	}))
	defer h.Close()
	s := manager(t, Server{Name: "huge", URL: h.URL}, Server{Name: "events", URL: h.URL + "/events"})
	s.want("", "", "no tools found")
	if n := sent.Load(); n >= most {
		t.Errorf("%d bytes were read", n)
	}
	if !strings.Contains(s.log.String(), "response exceeds 8 MiB") {
		t.Errorf("the log has no warning:\n%s", s.log)
	}
}

// TestToolListEndsItsResponse answers the request for tools with a stream of events
// that stays open: the client closes it after the list.
func TestToolListEndsItsResponse(t *testing.T) {
	ended := make(chan struct{}, 8)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&request); r.Method != http.MethodPost || err != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		io.Copy(io.Discard, r.Body)
		switch request.Method {
		case "initialize":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, withTools)
		case "tools/list":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"tools\":[%s]}}\n\n", request.ID, toolA)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			ended <- struct{}{}
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(h.Close)
	s := manager(t, Server{Name: "open", URL: h.URL})
	gate.Until(t, "the tools are listed", func() bool { return len(s.view(tool.Unbounded())) == 1 })
	select {
	case <-ended:
	case <-time.After(listTimeout / 2):
		t.Error("the response is open")
	}
}

// portFile writes the port file of a component, at a time of its own.
func (w *world) portFile(name, text string) {
	if err := vfs.MkdirAll(w.fs, "/run", 0o700); err != nil {
		w.t.Fatal(err)
	}
	w.fs.WriteFile("/run/"+name+".port", []byte(text), 0o600)
}

// TestComponentOfAConfiguredName configures a server with the name of a component
// while the components cannot be listed: the name means the configured one.
func TestComponentOfAConfiguredName(t *testing.T) {
	inWorld(t, func(w *world) {
		w.site("1001", false)
		w.site("1002", false)
		w.o.Run = "/run"
		w.portFile("one", "1001")
		w.Set(nil)
		time.Sleep(time.Second)
		w.fs.SetHook(func(c faultfs.Call) error {
			if c.Op == "readdir" {
				return syscall.EIO
			}
			return nil
		})
		w.Set([]Server{{Name: "one", URL: "http://127.0.0.1:1002/mcp"}})
		time.Sleep(time.Second)
		all := w.view(tool.Unbounded())
		if found := resolve(all, "one__a"); len(all) != 2 || len(found) != 1 || found[0].component {
			t.Errorf("%d tools, the name means %+v", len(all), found)
		}
	})
}
