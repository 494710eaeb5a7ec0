package mcp

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/service"
	"crabmem/daemon/service/component"
	"crabmem/daemon/service/servicetest"
	"crabmem/daemon/tool"
)

// TestRFC0043 tests every sentence of the Design section, in order. Package
// service tests the templates and commands of each system.
func TestRFC0043(t *testing.T) {
	// installed returns a service that records commands instead of running
	// them.
	installed := func(t *testing.T) (*service.Service, *[]string) {
		var commands []string
		home := t.TempDir()
		t.Setenv("HOME", home)
		t.Setenv("XDG_CONFIG_HOME", "")
		return &service.Service{Name: "search", Description: "finds things", Home: filepath.Join(home, ".crabtalk"),
			System: func(_ context.Context, name string, args ...string) error {
				commands = append(commands, name+" "+strings.Join(args, " "))
				return nil
			}}, &commands
	}
	exists := func(name string) bool {
		_, err := os.Lstat(name)
		return err == nil
	}

	t.Run("A component installs itself as a system service", func(t *testing.T) {
		s, commands := installed(t)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		file, text, err := s.Render()
		self, _ := os.Executable()
		if err != nil || !exists(file) || len(*commands) == 0 || !strings.Contains(string(text), self) {
			t.Errorf("%s %v, %q, %v", file, exists(file), *commands, err)
		}
	})
	t.Run("It writes a port file to run/NAME.port on startup", func(t *testing.T) {
		home := t.TempDir()
		p := servicetest.Start(t, home, "search")
		b, err := os.ReadFile(filepath.Join(home, "run", "search.port"))
		if n, aerr := strconv.Atoi(string(b)); err != nil || aerr != nil || n < 1 || string(b) != p.Port {
			t.Errorf("%q, %v, %v", b, err, aerr)
		}
	})
	t.Run("It serves an HTTP API, MCP protocol, on that port", func(t *testing.T) {
		p := servicetest.Start(t, t.TempDir(), "search")
		s := manager(t, Server{Name: "direct", URL: "http://127.0.0.1:" + p.Port + "/mcp"})
		s.want("greet", `{"name":"you"}`, "hello, you, from search")
	})
	t.Run("The daemon scans run/*.port at startup and discovers components automatically", func(t *testing.T) {
		dir := t.TempDir()
		servicetest.Start(t, dir, "one")
		servicetest.Start(t, dir, "two")
		m := New(Options{Run: filepath.Join(dir, "run")})
		defer m.Close()
		s := &setup{Manager: m, t: t, run: filepath.Join(dir, "run")}
		s.want("one__greet", `{"name":"a"}`, "hello, a, from one")
		s.want("two__greet", `{"name":"a"}`, "hello, a, from two")
	})
	t.Run("No configuration needed: the daemon finds it", func(t *testing.T) {
		s := manager(t)
		servicetest.Start(t, s.home(), "search")
		gate.Until(t, "it is found without a call", func() bool { return len(s.view(tool.Unbounded())) == 3 })
	})

	t.Run("Service: name, description and label", func(t *testing.T) {
		s, _ := installed(t)
		_, text, err := s.Render()
		if err != nil || s.Label() != "ai.crabtalk.search" || !strings.Contains(string(text), "finds things") {
			t.Errorf("%s, %v\n%s", s.Label(), err, text)
		}
	})
	t.Run("start renders a platform-specific service template, installs and launches", func(t *testing.T) {
		s, commands := installed(t)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		file, want, err := s.Render()
		got, rerr := os.ReadFile(file)
		if err != nil || rerr != nil || string(got) != string(want) || !strings.Contains(strings.Join(*commands, "\n"), s.Label()) {
			t.Errorf("%v, %v, %q\n%s", err, rerr, *commands, got)
		}
	})
	t.Run("stop uninstalls the service and removes the port file", func(t *testing.T) {
		s, commands := installed(t)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		file, _, _ := s.Render()
		port, _ := s.PortFile()
		os.WriteFile(port, []byte("1"), 0o600)
		*commands = nil
		if err := s.Stop(t.Context()); err != nil || exists(file) || exists(port) || len(*commands) == 0 {
			t.Errorf("%v, %v, %v, %q", err, exists(file), exists(port), *commands)
		}
	})
	t.Run("logs tails logs/NAME.log", func(t *testing.T) {
		s, _ := installed(t)
		name := filepath.Join(s.Home, "logs", "search.log")
		os.MkdirAll(filepath.Dir(name), 0o700)
		os.WriteFile(name, []byte("one\ntwo\n"), 0o600)
		var b strings.Builder
		if err := s.Logs(t.Context(), &b, 1, false); err != nil || b.String() != "two\n" {
			t.Errorf("%q, %v", b.String(), err)
		}
	})

	t.Run("Components that expose tools to agents extend McpService with a router", func(t *testing.T) {
		c := servicetest.New("search")
		c.Home = t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Serve(ctx) }()
		m := New(Options{})
		defer m.Close()
		var port []byte
		gate.Until(t, "the port file", func() bool {
			var err error
			port, err = os.ReadFile(filepath.Join(c.Home, "run", "search.port"))
			return err == nil
		})
		m.Set([]Server{{Name: "it", URL: "http://127.0.0.1:" + string(port) + "/mcp"}})
		(&setup{Manager: m, t: t}).want("greet", `{"name":"b"}`, "hello, b, from search")
		m.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Run("run_mcp binds 127.0.0.1:0, writes the port, and serves the router", func(t *testing.T) {
		home := t.TempDir()
		p := servicetest.Start(t, home, "one")
		q := servicetest.Start(t, home, "two")
		if p.Port == q.Port {
			t.Errorf("both on port %s", p.Port)
		}
		r, err := http.Get("http://127.0.0.1:" + p.Port + "/mcp")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		if _, err := http.Get("http://[::1]:" + p.Port + "/mcp"); err == nil {
			t.Error("it listens on more than 127.0.0.1")
		}
	})
	t.Run("The daemon discovers it on next scan", func(t *testing.T) {
		s := manager(t)
		servicetest.Start(t, s.home(), "search")
		s.scan()
		s.want("greet", `{"name":"c"}`, "hello, c, from search")
	})

	t.Run("Service templates: launchd in ~/Library/LaunchAgents, systemd user unit, schtasks with XML", func(t *testing.T) {
		for _, name := range []string{"search.plist", "search.service", "search.xml"} {
			if fi, err := os.Stat(filepath.Join("..", "service", "testdata", name)); err != nil || fi.Size() == 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
	})

	t.Run("The daemon scans for port files not already connected", func(t *testing.T) {
		s := manager(t)
		p := servicetest.Start(t, s.home(), "search")
		s.want("pid", "", strconv.Itoa(p.Process.Pid))
		before := s.servers()[0]
		for range 5 {
			s.scan()
		}
		if now := s.servers(); len(now) != 1 || now[0] != before || before.ctx.Err() != nil {
			t.Error("a scan connects again to what is connected")
		}
	})
	t.Run("Each file contains a port number", func(t *testing.T) {
		s := manager(t)
		s.port("a", "8080")
		s.port("b", " 8081\n")
		s.port("c", "http://127.0.0.1:8082")
		ports, err := Ports(vfs.OS{}, s.run, func(string, error) {})
		if err != nil || len(ports) != 2 || ports[0].Port != 8080 || ports[1].Port != 8081 {
			t.Errorf("%v, %v", ports, err)
		}
	})
	t.Run("The daemon connects via http://127.0.0.1:PORT/mcp", func(t *testing.T) {
		if url := (Port{Name: "x", Port: 8080}).URL(); url != "http://127.0.0.1:8080/mcp" {
			t.Error(url)
		}
	})
	t.Run("No subprocess management, no shared fate", func(t *testing.T) {
		s := manager(t)
		p := servicetest.Start(t, s.home(), "search")
		s.want("pid", "", strconv.Itoa(p.Process.Pid))
		s.Close()
		if err := p.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("a component ended with the daemon: %v", err)
		}
	})
	t.Run("Crash? The daemon doesn't care", func(t *testing.T) {
		s := manager(t)
		p := servicetest.Start(t, s.home(), "frail")
		servicetest.Start(t, s.home(), "solid")
		s.want("frail__greet", `{"name":"d"}`, "hello, d, from frail")
		p.Kill(t)
		s.want("solid__greet", `{"name":"d"}`, "hello, d, from solid")
	})
	t.Run("Restart? New port file, the daemon picks it up", func(t *testing.T) {
		s := manager(t)
		p := servicetest.Start(t, s.home(), "search")
		s.want("pid", "", strconv.Itoa(p.Process.Pid))
		p.Kill(t)
		q := servicetest.Start(t, s.home(), "search")
		gate.Until(t, "the new process answers", func() bool {
			pid, _ := s.call(tool.Unbounded(), "pid", "") // fails until the daemon notices the disconnection
			return pid == strconv.Itoa(q.Process.Pid)
		})
	})
	t.Run("Update a component? The daemon sees the new port on next scan", func(t *testing.T) {
		s := manager(t)
		p := servicetest.Start(t, s.home(), "search")
		s.want("pid", "", strconv.Itoa(p.Process.Pid))
		if err := p.Stop(t); err != nil {
			t.Error(err)
		}
		if exists(filepath.Join(s.run, "search.port")) {
			t.Error("the port file exists after the end")
		}
		q := servicetest.Start(t, s.home(), "search")
		gate.Until(t, "the new process answers", func() bool {
			pid, _ := s.call(tool.Unbounded(), "pid", "") // fails until the daemon notices the disconnection
			return pid == strconv.Itoa(q.Process.Pid)
		})
	})

	t.Run("The run function handles tracing and signals for all component binaries", func(t *testing.T) {
		p := servicetest.Start(t, t.TempDir(), "search")
		if err := p.Stop(t); err != nil {
			t.Errorf("an interrupt: %v", err)
		}
		if code := component.Run(func(context.Context) error { return context.DeadlineExceeded }); code != 1 {
			t.Errorf("exit code %d", code)
		}
	})
}
