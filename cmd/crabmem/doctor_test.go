package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/doctor"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon"
	"crabmem/daemon/gateway"
	"crabmem/daemon/sandbox"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// a patient is a home without problems, and the state of the machine.
type patient struct {
	*testing.T
	home     string
	provider string // its address
	key      string
	free     int64
	confined error
	now      time.Time
	path     string // PATH
}

// newPatient makes a home with a store, a session, a skill, a cron, a provider
// that answers, a scoped agent and a component.
func newPatient(t *testing.T) *patient {
	dir, err := os.MkdirTemp("", "crab") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &patient{T: t, home: filepath.Join(dir, "home"), key: "sk-right", free: 10 << 30, now: time.Now()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/v1/models" {
			t.Errorf("the provider was asked for %s %s", r.Method, r.URL.Path)
		}
		if r.Header.Get("Authorization") != "Bearer sk-right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"object":"list","data":[{"id":"large"}]}`)
	}))
	t.Cleanup(server.Close)
	p.provider = server.URL + "/v1"
	for _, args := range [][]string{
		{"remember", "deploy", "build, tag, push"}, {"remember", "tea", "green"}, {"skills", "new", "check-feeds", "--description", "Reads the feeds. Use it in the morning."},
	} {
		if err := p.cli(nil).execute(context.Background(), append([]string{"--home", p.home, "-q"}, args...)); err != nil {
			t.Fatal(err)
		}
	}
	p.write("sessions/crab_user_1.jsonl", `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00","title":"","uptime_secs":0}
{"role":"user","content":"hi"}
{"role":"assistant","content":"hello"}
`)
	p.write("crons.toml", "[[cron]]\nid = 1\nschedule = \"0 9 * * *\"\nskill = \"check-feeds\"\nsession = 1\nsession_file = \"crab_user_1\"\nonce = false\n")
	p.write("config.toml", p.config())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p.write("run/browser.port", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	p.write("logs/daemon.log", "{}\n")
	return p
}

func (p *patient) config() string {
	return fmt.Sprintf("[provider.far]\nkind = \"openai-compatible\"\nbase_url = %q\napi_key = \"${FAR_KEY}\"\nmodels = [\"large\"]\n[agents.reader]\nprompt = \"You read.\"\ntools = [\"bash\"]\n", p.provider)
}

func (p *patient) write(name, text string) {
	p.Helper()
	name = filepath.Join(p.home, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		p.Fatal(err)
	}
}

// change puts one text in the place of another in a file.
func (p *patient) change(name, from, to string) {
	p.Helper()
	b, err := os.ReadFile(filepath.Join(p.home, name))
	if err != nil || !strings.Contains(string(b), from) {
		p.Fatalf("%s has no %q: %v", name, from, err)
	}
	p.write(name, strings.Replace(string(b), from, to, 1))
}

func (p *patient) listen() net.Listener {
	p.Helper()
	l, err := net.Listen("unix", daemon.Socket(p.home))
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { l.Close() })
	return l
}

func (p *patient) cli(out *bytes.Buffer) *app {
	if out == nil {
		out = new(bytes.Buffer)
	}
	c := newApp(strings.NewReader(""), out, out)
	c.Getenv = func(name string) string {
		return map[string]string{"FAR_KEY": p.key, "NO_COLOR": "1", "PATH": p.path}[name]
	}
	c.now = func() time.Time { return p.now }
	c.machine = doctor.Machine{
		Free:       func(string) (int64, error) { return p.free, nil },
		Confinable: func(context.Context) error { return p.confined },
	}
	return c
}

// image is every name of the home with its mode, time and contents. It omits run and
// its files that the daemon writes concurrently.
func (p *patient) image() string {
	var b strings.Builder
	err := filepath.WalkDir(p.home, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// A daemon may replace the starts of cron entries at any moment.
		if e.Name() == "run" || strings.Contains(e.Name(), "cron-starts.json") {
			return nil
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, name, fi.Mode(), fi.ModTime())
		if fi.Mode().IsRegular() && fi.Size() < 1<<20 {
			text, err := os.ReadFile(name)
			b.Write(text)
			return err
		}
		return nil
	})
	if err != nil {
		p.Error(err)
	}
	return b.String()
}

// examine runs the doctor, and returns the findings that are not ok.
func (p *patient) examine() (a doctorAnswer, wrong []doctor.Finding) {
	p.Helper()
	before := p.image()
	var out bytes.Buffer
	err := p.cli(&out).execute(context.Background(), []string{"--home", p.home, "--json", "doctor", "--timeout", "1s"})
	if after := p.image(); after != before {
		p.Errorf("the doctor changed the home\nfrom %s\nto %s", before, after)
	}
	if jerr := json.Unmarshal(out.Bytes(), &a); jerr != nil {
		p.Fatalf("%v, %v: %s", err, jerr, out.String())
	}
	if err := checkSchema("doctor", out.Bytes()); err != nil {
		p.Errorf("%v: %s", err, out.String())
	}
	for _, f := range a.Checks {
		if f.State != doctor.OK {
			wrong = append(wrong, f)
		}
	}
	if want := a.Failures > 0; (exitOfError(err) == cli.ExitFailure) != want || a.Failures+a.Warnings != len(wrong) {
		p.Errorf("it ended with %v, %d failures, %d warnings: %+v", err, a.Failures, a.Warnings, wrong)
	}
	return a, wrong
}

// TestDoctorDiskOnce puts the store and the home in different directories: doctor
// reports the directory with the least free space, and only that one.
func TestDoctorDiskOnce(t *testing.T) {
	p := newPatient(t)
	store := filepath.Join(t.TempDir(), "memory.db")
	if err := p.cli(nil).execute(context.Background(), []string{"--home", p.home, "--db", store, "-q", "remember", "tea", "green"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		home, store int64
		state, what string
	}{
		{10 << 30, 20 << 30, doctor.OK, "10.0 GiB free"},
		{20 << 30, 10 << 30, doctor.OK, "10.0 GiB free"},
		{300 << 20, 10 << 30, doctor.Warn, p.home + " has only 300.0 MiB free"},
		{300 << 20, 1 << 20, doctor.Fail, filepath.Dir(store) + " has 1.0 MiB free, and a checkpoint needs "},
	} {
		var out bytes.Buffer
		cli := p.cli(&out)
		cli.machine.Free = func(dir string) (int64, error) {
			if dir == filepath.Dir(store) {
				return c.store, nil
			}
			return c.home, nil
		}
		_ = cli.execute(context.Background(), []string{"--home", p.home, "--db", store, "--json", "doctor"}) // the findings are compared
		var a doctorAnswer
		if err := json.Unmarshal(out.Bytes(), &a); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		disk := slices.DeleteFunc(a.Checks, func(f doctor.Finding) bool { return f.Name != "disk" })
		if len(disk) != 1 || disk[0].State != c.state || !strings.HasPrefix(disk[0].What, c.what) {
			t.Errorf("%d bytes in the home and %d next to the store: found %+v, want %s %q", c.home, c.store, disk, c.state, c.what)
		}
	}
}

func exitOfError(err error) int {
	if e, ok := errors.AsType[cli.SilentError](err); ok {
		return int(e)
	}
	return 0
}

// TestDoctorGateway finds the gateway of a home, if the home has one.
func TestDoctorGateway(t *testing.T) {
	p := newPatient(t)
	check := func() string {
		t.Helper()
		a, wrong := p.examine()
		i := slices.IndexFunc(a.Checks, func(f doctor.Finding) bool { return f.Name == "gateway" })
		if i < 0 || len(wrong) > 0 {
			return fmt.Sprint(wrong)
		}
		return a.Checks[i].What
	}
	if got := check(); got != "[]" {
		t.Errorf("without a gateway: %s", got)
	}
	health := `{"status":"ok","version":"1","home":"` + gateway.HomeID(vfs.OS{}, p.home) + `"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, health) }))
	defer server.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	p.write("config/gateway.toml", "[server]\nport = "+port+"\n")
	if got := check(); got != "answers at "+server.URL {
		t.Errorf("with a gateway: %s", got)
	}
	for _, health = range []string{`{"status":"ok","version":"1","home":"of-another"}`, "{}", "hello", ""} {
		if got := check(); !strings.HasPrefix(got, "not running") {
			t.Errorf("another program answers %q: %s", health, got)
		}
	}
}

// TestDoctor plants faults, each in a home without other problems: the doctor
// reports the fault with its fix, and no other.
func TestDoctor(t *testing.T) {
	for _, test := range []struct {
		fault  string
		plant  func(p *patient)
		name   string // of the check that finds it
		state  string
		what   string
		remedy string
	}{
		{"the home is open to others", func(p *patient) { chmod(p, ".", 0o755) },
			"home", doctor.Warn, "other users can read ", "chmod 700 "},
		{"a file is another user's", func(p *patient) {
			if os.Geteuid() != 0 {
				p.Skip("SKIPPED: only root can change the owner of files")
			}
			if err := os.Chown(filepath.Join(p.home, "logs"), 12345, -1); err != nil {
				p.Fatal(err)
			}
		}, "home", doctor.Fail, "logs belongs to user 12345", "chown -R "},
		{"the store is damaged", func(p *patient) {
			if err := p.cli(nil).execute(context.Background(), []string{"--home", p.home, "-q", "checkpoint"}); err != nil {
				p.Fatal(err)
			}
			damage(p, "memory.db", 0)
		}, "store", doctor.Fail, "memory.db", "crabmem "},
		{"the snapshot is missing and its log has operations", func(p *patient) {
			s, err := crmem.Open(filepath.Join(p.home, "memory.db"), &crmem.Options{CheckpointOnClose: crmem.CheckpointNever})
			if err != nil {
				p.Fatal(err)
			}
			if _, err := s.Remember("late", "in the log only", nil); err != nil {
				p.Fatal(err)
			}
			if err := errors.Join(s.Close(), os.Remove(filepath.Join(p.home, "memory.db"))); err != nil {
				p.Fatal(err)
			}
		}, "store", doctor.Fail, "memory.db: file missing but its log exists", "crabmem repair"},
		{"the snapshot is missing and its log is empty", func(p *patient) {
			if err := os.Remove(filepath.Join(p.home, "memory.db")); err != nil {
				p.Fatal(err)
			}
		}, "store", doctor.Fail, "memory.db: file missing but its log exists", "crabmem repair"},
		{"another program has the store", func(p *patient) {
			l, err := vfs.OS{}.Lock(filepath.Join(p.home, "memory.db-lock"))
			if err != nil {
				p.Fatal(err)
			}
			p.Cleanup(func() { l.Unlock() })
			if err := l.SetText("pid 4711\nboot x\ncommand crabmem import\nsocket \nstate dirty\n"); err != nil {
				p.Fatal(err)
			}
		}, "lock", doctor.Warn, "crabmem import (pid 4711) holds the lock", "wait until"},
		{"a line of a session is damaged", func(p *patient) { p.change("sessions/crab_user_1.jsonl", `"content":"hi"}`, `"content":`) },
			"sessions", doctor.Fail, "crab_user_1.jsonl: line 2", "crabmem sessions repair crab_user_1"},
		{"a socket was left", func(p *patient) {
			if err := leftSocket(daemon.Socket(p.home)); err != nil {
				p.Fatal(err)
			}
		}, "socket", doctor.Warn, "has no listener", "crabmem daemon start"},
		{"something else is where the socket belongs", func(p *patient) { p.write("daemon.sock", "mine") },
			"socket", doctor.Fail, "not a socket", "mv "},
		{"another program listens", func(p *patient) {
			l := p.listen()
			go func() { // until the listener is closed
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
					c.Close()
				}
			}()
		}, "socket", doctor.Fail, "another program answers", "stop the listener"},
		{"the daemon hangs", func(p *patient) { p.listen() },
			"socket", doctor.Fail, "did not respond within 1s", "stop the listener"},
		{"the daemon's sockets are missing", func(p *patient) {
			serveSick(p, "")
			if err := errors.Join(os.Remove(daemon.Socket(p.home)), os.Remove(filepath.Join(p.home, "run", "crabtalk.sock"))); err != nil {
				p.Fatal(err)
			}
		}, "daemon", doctor.Fail, "holds the home, but does not answer", "crabmem daemon start"},
		{"the daemon is of another version", func(p *patient) { serveSick(p, "0.0.1") },
			"daemon", doctor.Warn, "the daemon has version 0.0.1", "run crabmem daemon stop, then run crabmem daemon start"},
		{"the gateway's configuration has a slip", func(p *patient) { p.write("config/gateway.toml", "[server]\nhots = 1\n") },
			"gateway", doctor.Fail, "gateway.toml:2: unknown key server.hots", "correct the file"},
		{"the gateway's keys are damaged", func(p *patient) { p.write("config/gateway-keys.json", "{") },
			"gateway", doctor.Fail, "gateway-keys.json: unexpected end", "remove the file"},
		{"others can change the gateway's keys", func(p *patient) {
			p.write("config/gateway-keys.json", "{}")
			chmod(p, "config/gateway-keys.json", 0o666)
		}, "gateway", doctor.Fail, "has mode 0666", "chmod 600 "},
		{"the configuration has a slip", func(p *patient) { p.change("config.toml", "prompt", "descripton = \"reads\"\nprompt") },
			"config", doctor.Fail, "config.toml:", "run crabmem config edit to correct "},
		{"the key is not set", func(p *patient) { p.key = "" },
			"config", doctor.Fail, "the environment variable FAR_KEY is not set", "run export FAR_KEY=VALUE, or store the value"},
		{"the key is wrong", func(p *patient) { p.key = "sk-wrong" },
			"provider far", doctor.Fail, "/v1/models rejects the key from the variable FAR_KEY", "put a valid key"},
		{"the provider is unreachable", func(p *patient) { p.change("config.toml", p.provider, "http://"+closedPort(p)+"/v1") },
			"provider far", doctor.Fail, "cannot be reached", "check base_url"},
		{"the provider is silent", func(p *patient) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				p.Fatal(err)
			}
			p.Cleanup(func() { l.Close() })
			p.change("config.toml", p.provider, "http://"+l.Addr().String()+"/v1")
		}, "provider far", doctor.Fail, "did not respond within 1s", "check the network"},
		{"the local server has not got the model", func(p *patient) {
			p.change("config.toml", `openai-compatible"`, `ollama"`)
			p.change("config.toml", `"large"`, `"larger; exit"`)
		},
			"provider far", doctor.Fail, "the server has no model larger; exit", "ollama pull 'larger; exit'"},
		{"the model is offline", func(p *patient) {
			p.change("config.toml", "[agents.reader]", "[system.crab]\nmodel = \"offline\"\n[agents.reader]")
		},
			"model", doctor.Warn, "offline, but a provider is configured", "set model in [system.crab]"},
		{"the program of a server is not there", func(p *patient) {
			p.change("config.toml", "[agents.reader]", "[mcps.files]\ncommand = \"no-such-server\"\n[agents.reader]")
		},
			"server files", doctor.Fail, "program no-such-server not found", "install it"},
		{"a link leads nowhere", func(p *patient) {
			if err := os.Symlink("/nowhere/at/all", filepath.Join(p.home, "history")); err != nil {
				p.Fatal(err)
			}
		}, "home", doctor.Fail, "history is a link without a target", "restore the target of the link"},
		{"a confined agent cannot be confined", func(p *patient) { p.confined = &sandbox.Error{Err: errors.New("no namespaces")} },
			"confinement", doctor.Fail, "agent reader has a scope, but this system cannot confine its commands: no namespaces", `access = "never"`},
		{"a component has exited", func(p *patient) {
			_, port, _ := strings.Cut(closedPort(p), ":")
			p.write("run/mail.port", port)
		}, "components", doctor.Warn, "which has no listener", "start mail again"},
		{"a port file is empty", func(p *patient) { p.write("run/mail.port", "") },
			"components", doctor.Warn, "mail.port contains no port", "start the component again"},
		{"a cron cannot be read", func(p *patient) {
			p.write("crons.toml", "[[cron]]\nid = 2\nschedule = \"nonsense\"\nskill = \"check-feeds\"\nsession = 1\nonce = false\n")
		},
			"crons", doctor.Warn, "crons.toml:3", "fix or remove the entry"},
		{"a cron has no skill", func(p *patient) { p.change("crons.toml", `"check-feeds"`, `"feeds"`) },
			"crons", doctor.Warn, "cron 1 runs /feeds: skill not found", "crabmem skills new feeds"},
		{"a cron has no session", func(p *patient) { p.change("crons.toml", "crab_user_1", "crab_user_2") },
			"crons", doctor.Warn, "runs in session crab_user_2: session not found", "crabmem cron remove 1"},
		{"a cron has no session file", func(p *patient) { p.change("crons.toml", "session_file = \"crab_user_1\"\n", "") },
			"crons", doctor.Warn, "cron 1 has no session_file and cannot run", "crabmem cron remove 1"},
		{"a skill is not used", func(p *patient) { p.write("skills/half/SKILL.md", "---\nname: half\n---\n") },
			"skills", doctor.Warn, "SKILL.md", "description"},
		{"the disk is full", func(p *patient) { p.free = 1 << 20 },
			"disk", doctor.Fail, "has 1.0 MiB free", "free some space"},
		{"the disk is nearly full", func(p *patient) { p.free = 300 << 20 },
			"disk", doctor.Warn, "has only 300.0 MiB free", "free some space"},
		{"a log is long", func(p *patient) {
			if err := os.Truncate(filepath.Join(p.home, "logs", "daemon.log"), 64<<20+1); err != nil {
				p.Fatal(err)
			}
		}, "logs", doctor.Warn, "daemon.log has 64.0 MiB", "rm "},
		{"the clock is slow", func(p *patient) { p.now = time.Now().Add(-time.Hour) },
			"clock", doctor.Warn, "but the clock shows", "set the clock"},
		{"the clock was never set", func(p *patient) { p.now = time.Unix(1000, 0) },
			"clock", doctor.Fail, "1970-01-01T00:16:40Z", "set the clock"},
	} {
		t.Run(strings.ReplaceAll(test.fault, " ", "_"), func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" {
				t.Skip("SKIPPED: modes and sockets are others here")
			}
			p := newPatient(t)
			test.plant(p)
			_, wrong := p.examine()
			if len(wrong) != 1 {
				t.Fatalf("found %+v", wrong)
			}
			f := wrong[0]
			if f.Name != test.name || f.State != test.state || !strings.Contains(f.What, test.what) || !strings.Contains(f.Remedy, test.remedy) {
				t.Errorf("found %+v\nwant %s %s, %q, %q", f, test.name, test.state, test.what, test.remedy)
			}
			if strings.Contains(f.What+f.Remedy, "sk-") {
				t.Errorf("it tells the key: %+v", f)
			}
		})
	}
}

// TestDoctorHealthy expects no findings in a home without problems: without a
// daemon, with one, and in a missing home.
func TestDoctorHealthy(t *testing.T) {
	p := newPatient(t)
	if a, wrong := p.examine(); len(wrong) > 0 || len(a.Checks) < 14 {
		t.Errorf("found %+v of %+v", wrong, a)
	}
	serveSick(p, "")
	a, wrong := p.examine()
	if len(wrong) > 0 || len(a.Checks) < 14 {
		t.Errorf("with a daemon: found %+v of %+v", wrong, a)
	}

	empty := newPatient(t)
	empty.home += "2"
	var out bytes.Buffer
	if err := empty.cli(&out).execute(context.Background(), []string{"--home", empty.home, "-q", "doctor"}); err != nil {
		t.Errorf("no home: %v", err)
	}
	if want := "warn  home         " + empty.home + " does not exist\n" + strings.Repeat(" ", 17) + "  try: run crabmem init to create it, or set another home with --home or CRABTALK_HOME\n"; out.String() != want {
		t.Errorf("no home: got\n%swant\n%s", out.String(), want)
	}
	if _, err := os.Lstat(empty.home); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the doctor made a home: %v", err)
	}
}

// TestDoctorServers compares the PATH of the installed service with that of the shell, and
// reports the states of MCP servers in the daemon.
func TestDoctorServers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: the definition is of systemd")
	}
	p := newPatient(t)
	user := t.TempDir()
	bin := filepath.Join(user, ".local", "bin")
	script := filepath.Join(bin, "my-mcp")
	if err := errors.Join(os.MkdirAll(bin, 0o700), os.WriteFile(script, []byte("#!/bin/sh\nexit 3\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	system := os.Getenv("PATH")
	t.Setenv("HOME", user)
	t.Setenv("XDG_CONFIG_HOME", "")
	finding := func(name string) (f doctor.Finding) {
		t.Helper()
		a, _ := p.examine()
		for _, f := range a.Checks {
			if f.Name == name {
				return f
			}
		}
		return f
	}
	check := func(when, name, state, what, remedy string) {
		t.Helper()
		if f := finding(name); f.State != state || !strings.Contains(f.What, what) || !strings.Contains(f.Remedy, remedy) {
			t.Errorf("%s: %+v, want %s %q, %q", when, f, state, what, remedy)
		}
	}
	install := func(home, path string) {
		t.Helper()
		c := p.cli(nil)
		c.home = home
		t.Setenv("PATH", path)
		s := c.daemonService()
		s.System = func(context.Context, string, ...string) error { return nil }
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+":"+system)
		p.path = bin + ":" + system
	}
	check("no service", "service", "", "", "")
	install(t.TempDir(), system)
	check("of another home", "service", "", "", "")
	install(p.home, system)
	check("another PATH", "service", doctor.OK, "installed; its PATH has no "+bin+"; run crabmem service install from this shell to add them", "")
	p.change("config.toml", "[agents.reader]", "[mcps.mine]\ncommand = \"my-mcp\"\n[agents.reader]")
	check("a program", "service", doctor.Warn, "the PATH of the service has no my-mcp, the program of the MCP server mine: "+script, "run crabmem service install")
	check("a program", "server mine", doctor.OK, script, "")
	install(p.home, bin+":"+system)
	check("the same PATH", "service", doctor.OK, "installed, with the PATH of this shell", "")

	remote := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "far"}, nil)
		mcp.AddTool(s, &mcp.Tool{Name: "look"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
		return s
	}, nil))
	t.Cleanup(remote.Close)
	p.change("config.toml", "[mcps.mine]", "[mcps.far]\nurl = \""+remote.URL+"\"\n[mcps.mine]")
	t.Setenv("PATH", system) // the daemon was started by another shell
	serveSick(p, "")
	for _, name := range []string{"far", "mine"} {
		gate.Until(t, "the daemon has tried "+name, func() bool { return !strings.Contains(finding("server "+name).What, "connecting") })
	}
	check("connected", "server far", doctor.OK, "connected, 1 tool; checked by the daemon", "")
	check("nowhere", "server mine", doctor.Fail, `disconnected: exec: "my-mcp": executable file not found in $PATH; checked by the daemon`, "install it, or fix command in [mcps.mine]")
}

// serve has a daemon of a version serve the home; "" is this program's.
func serveSick(p *patient, version string) {
	p.Helper()
	if version == "" {
		version, _ = buildVersion()
	}
	stop, err := serveHome(daemon.Options{Home: p.home, Version: version, Getenv: p.cli(nil).Getenv})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := stop(); err != nil {
			p.Error(err)
		}
	})
}

func chmod(p *patient, name string, mode fs.FileMode) {
	p.Helper()
	if err := os.Chmod(filepath.Join(p.home, name), mode); err != nil {
		p.Fatal(err)
	}
}

// damage changes a bit of a file.
func damage(p *patient, name string, at int) {
	p.Helper()
	b, err := os.ReadFile(filepath.Join(p.home, name))
	if err != nil {
		p.Fatal(err)
	}
	b[at] ^= 1
	p.write(name, string(b))
}

// closedPort is an address without a listener.
func closedPort(p *patient) string {
	p.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestDoctorHostile puts other objects in the places of files and folders: the
// doctor reports them, changes nothing, and does not block.
func TestDoctorHostile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: links and modes are others here")
	}
	for _, name := range []string{".", "memory.db", "memory.db-lock", "sessions", "skills", "crons.toml", "config.toml", "run", "logs", "run/browser.port"} {
		for what, put := range map[string]func(path string) error{
			"a folder":  func(path string) error { return os.Mkdir(path, 0o700) },
			"a file":    func(path string) error { return os.WriteFile(path, []byte("\x00mine"), 0o600) },
			"a link":    func(path string) error { return os.Symlink("/nowhere/at/all", path) },
			"a circle":  func(path string) error { return os.Symlink(filepath.Base(path), path) },
			"a socket":  func(path string) error { return leftSocket(path) },
			"no rights": func(path string) error { return os.WriteFile(path, nil, 0) },
		} {
			folder := name == "." || name == "sessions" || name == "skills" || name == "run" || name == "logs"
			if what == "a folder" && folder || what == "a file" && name == "memory.db-lock" || what == "no rights" && os.Geteuid() == 0 && !folder {
				continue // no problems found with that
			}
			t.Run(what+" in the place of "+name, func(t *testing.T) {
				t.Parallel()
				p := newPatient(t)
				path := filepath.Join(p.home, name)
				if err := errors.Join(os.RemoveAll(path), put(path)); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				a, wrong := p.examine()
				if len(wrong) == 0 {
					t.Errorf("it reported no problem: %+v", a)
				}
				for _, f := range wrong {
					if f.Remedy == "" {
						t.Errorf("no remedy: %+v", f)
					}
				}
				gate.Time(t, "doctor", began, 10*time.Second)
			})
		}
	}
}

// leftSocket leaves a socket without a listener.
func leftSocket(path string) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return l.Close()
}
