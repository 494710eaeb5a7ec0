package gateway

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"crabmem/bench/gate"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
)

// nginx runs nginx with the configuration of its package before a gateway, and returns its
// URL. Without nginx, it skips the test, unless CRABMEM_REQUIRE contains nginx.
func nginx(t *testing.T, gateway string) string {
	t.Helper()
	const packaged = "/etc/nginx/nginx.conf"
	text, err := os.ReadFile(packaged)
	program, lookup := exec.LookPath("nginx")
	if err != nil || lookup != nil {
		if slices.Contains(strings.Split(os.Getenv("CRABMEM_REQUIRE"), ","), "nginx") {
			t.Fatalf("CRABMEM_REQUIRE=nginx: %v, %v", err, lookup)
		}
		t.Skip("SKIPPED: nginx is not installed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	site := "server { listen " + address + "; location / { proxy_pass " + gateway + "; } }"
	conf := string(text)
	for old, replacement := range map[string]string{
		"/run/nginx.pid": dir + "/pid", "/var/log/nginx/error.log": dir + "/error.log", "/var/log/nginx/access.log": dir + "/access.log",
		"include /etc/nginx/sites-enabled/*;": site,
	} {
		if !strings.Contains(conf, old) {
			t.Fatalf("%s: no %s", packaged, old)
		}
		conf = strings.ReplaceAll(conf, old, replacement)
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-c", file, "-g", "daemon off;")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	gate.Until(t, "nginx listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "http://" + address
}

// TestNginx reads each kind of stream through nginx: the first word arrives before the
// model writes the second.
func TestNginx(t *testing.T) {
	for name, open := range map[string]func(r, front *rig) func() (sent, bool){
		"stream": func(_, front *rig) func() (sent, bool) {
			_, next := front.open(t.Context(), "root", "POST", "/v1/stream", `{"content":"hi"}`)
			return next
		},
		"OpenAI": func(_, front *rig) func() (sent, bool) {
			_, next := front.open(t.Context(), "root", "POST", "/v1/chat/completions", `{"model":"crab","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
			return next
		},
		"run": func(_, front *rig) func() (sent, bool) {
			at := front.do("root", "POST", "/v1/runs", object{"content": "hi"}).Header.Get("Location")
			_, next := front.open(t.Context(), "root", "GET", at+"/events", nil)
			return next
		},
		"events": func(r, front *rig) func() (sent, bool) {
			_, next := front.open(t.Context(), "root", "GET", "/v1/events?kind=text_delta", nil)
			r.eventually("the subscription", func() bool {
				st, err := op.ReadDaemonStats.Do(t.Context(), r.g.pinger, op.None{})
				return err == nil && st.Subscribers == 1
			})
			front.do("root", "POST", "/v1/runs", object{"content": "hi"})
			return next
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withOpenAI)
			front := *r
			front.url = nginx(t, r.url)
			r.model.Queue(modeltest.Reply{}.Text("first ").Stall(0).Text("second"))
			next := open(r, &front)
			wait := func(text string) {
				t.Helper()
				for e, ok := next(); !strings.Contains(e.data, text); e, ok = next() {
					if !ok {
						t.Fatalf("the stream ended before %q", text)
					}
				}
			}
			wait("first")
			r.model.Release()
			wait("second")
		})
	}
}
