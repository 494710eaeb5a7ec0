package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/daemontest"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/service/servicetest"
	"crabmem/daemon/wire"
	"crabmem/fuzz/race"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	servicetest.Main(os.Exit)
	debug.SetGCPercent(400) // the daemons are small and many
	goleak.VerifyTestMain(tests{m})
}

// tests checks after all tests that they saw each response of each route.
type tests struct{ *testing.M }

func (t tests) Run() int {
	code := t.M.Run()
	chosen := flag.Lookup("test.run").Value.String() + flag.Lookup("test.list").Value.String() // not all tests ran
	if missing := unseen(); code == 0 && chosen == "" && !race.Enabled && len(missing) > 0 {   // it skips tests
		fmt.Println("no test saw these responses: " + strings.Join(missing, ", "))
		return 1
	}
	return code
}

// unseen lists the responses that no test saw: the success of each route without an operation,
// which has its schema from its type, each refusal that is special to a route, and the
// refusals of all routes.
func unseen() (missing []string) {
	for _, one := range everyRoute() {
		special := one.fails
		if !isOperation(one) {
			special = append([]int{one.status}, special...)
		}
		for _, status := range special {
			name := fmt.Sprint(one.operationID(), " ", status)
			if _, ok := seen.Load(name); !ok && status != http.StatusInsufficientStorage && status != http.StatusBadGateway {
				missing = append(missing, name)
			}
		}
	}
	for _, status := range []int{400, 401, 403, 404, 413, 415, 429, 500, 502, 503} {
		found := false
		seen.Range(func(name, _ any) bool {
			found = strings.HasSuffix(name.(string), fmt.Sprint(" ", status))
			return !found
		})
		if !found {
			missing = append(missing, fmt.Sprint("any ", status))
		}
	}
	return missing
}

// isOperation reports whether a route serves an operation.
func isOperation(r route) bool {
	return slices.ContainsFunc(rowRoutes(), func(row route) bool { return row.method == r.method && row.path == r.path })
}

// everyRoute returns the routes of a gateway that has all.
func everyRoute() []route { return (&Config{Gateway: Paths{OpenAI: true}}).routes() }

// origins is the trust in the keys of a rig.
const origins = `[origins."api:root"]
trust = "admin"
[origins."api:ann"]
trust = "trusted"
[origins."api:bob"]
trust = "trusted"
[limits]
untrusted_runs_per_minute = 0
trusted_runs_per_minute = 0
`

// rig is a gateway with a daemon, a scripted model, and keys: root, an admin; ann and
// bob, who are trusted; and eve, who is not.
type rig struct {
	t      *testing.T
	home   string
	addr   wire.Addr // of the daemon
	model  *modeltest.Server
	g      *Gateway
	url    string
	keys   map[string]string
	stop   func() // the gateway
	daemon func() // stops the daemon
	log    *syncBuffer
	check  bool // each response, against the document
	small  bool // the buffers of connections, from the next start
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// newRig starts a daemon and a gateway. change may change the configuration of the
// gateway.
func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	home, err := os.MkdirTemp("", "crab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	r := &rig{t: t, home: home, model: modeltest.New(t), keys: make(map[string]string), log: &syncBuffer{}, check: true}
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(daemontest.Config(r.model.URL)+origins), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"root", "ann", "bob", "eve"} {
		r.keys[name] = r.addKey(Key{Name: name})
	}
	r.startDaemon()
	c := DefaultConfig()
	c.Limits.Rate, c.Limits.Burst = 1e5, 1e5
	for _, f := range change {
		f(&c)
	}
	r.start(c)
	return r
}

func (r *rig) addKey(k Key) string {
	r.t.Helper()
	text, _, err := AddKey(vfs.OS{}, r.home, k, time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

// startDaemon runs a daemon until r.daemon is called.
func (r *rig) startDaemon() {
	r.t.Helper()
	r.addr, r.daemon = daemontest.Serve(r.t, r.home)
}

// configure adds text to the daemon's configuration, and restarts the daemon.
func (r *rig) configure(text string) {
	r.t.Helper()
	file := filepath.Join(r.home, "config.toml")
	old, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(old, text...), 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.daemon()
	r.startDaemon()
}

func (r *rig) eventually(what string, f func() bool) {
	r.t.Helper()
	gate.Until(r.t, what, f)
}

// start runs a gateway until r.stop is called.
func (r *rig) start(c Config) {
	r.t.Helper()
	g, err := New(Options{FS: vfs.OS{}, Home: r.home, Config: c, Daemon: r.addr,
		Log: slog.New(slog.NewTextHandler(r.log, nil)), Version: "test", Now: time.Now})
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	if r.small {
		l = smallBuffers{l}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, l) }()
	r.g, r.url = g, "http://"+l.Addr().String()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("serve: %v", err)
		}
		g.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	r.t.Cleanup(func() { r.stop() })
}

// restart runs another gateway with the same configuration.
func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start(r.g.o.Config)
}

// response is a response with its body.
type response struct {
	*http.Response
	body []byte
}

// field returns a value of the body at a path of keys and indexes, such as hits.0.score.
func (p *response) field(path string) any {
	var v any
	if json.Unmarshal(p.body, &v) != nil {
		return nil
	}
	for key := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[key]
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

// do sends a request with a key; who is the name of a key, or empty. Each pair of header
// is a name and a value.
func (r *rig) do(who, method, path string, body any, header ...string) *response {
	r.t.Helper()
	var reader io.Reader
	if s, ok := body.(string); ok {
		reader = strings.NewReader(s)
	} else if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			r.t.Fatal(err)
		}
		reader = bytes.NewReader(b)
	}
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, reader)
	if err != nil {
		r.t.Fatal(err)
	}
	if who != "" {
		q.Header.Set("Authorization", "Bearer "+r.keys[who])
	}
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		q.Header.Add(header[i], header[i+1])
	}
	return r.send(q)
}

func (r *rig) send(q *http.Request) *response {
	r.t.Helper()
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatalf("%s %s: %v", q.Method, q.URL.Path, err)
	}
	defer p.Body.Close()
	b, err := io.ReadAll(p.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	out := &response{p, b}
	if r.check {
		r.conforms(q, out)
	}
	return out
}

// want checks the status of a response, and the kind of a problem.
func (r *rig) want(what string, p *response, status int, kind string) *response {
	r.t.Helper()
	got, _ := p.field("kind").(string)
	for _, name := range []string{"error.type", "error.code"} {
		if code, ok := p.field(name).(string); ok {
			got = code
		}
	}
	if p.StatusCode < 400 {
		got = "" // of an entry
	}
	if p.StatusCode != status || got != kind {
		r.t.Errorf("%s: %d %s, want %d %s: %s", what, p.StatusCode, got, status, kind, cut(p.body))
	}
	return p
}

func cut(b []byte) []byte { return b[:min(len(b), 500)] }

// seen has the statuses that the tests saw, by operation.
var seen sync.Map

// conforms checks a response against the table of routes.
func (r *rig) conforms(q *http.Request, p *response) {
	r.t.Helper()
	fail := func(format string, args ...any) {
		r.t.Helper()
		r.t.Errorf("%s %s: %s: %s", q.Method, q.URL.Path, fmt.Sprintf(format, args...), cut(p.body))
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if got := p.Header.Get(name); got != want {
			fail("%s is %q", name, got)
		}
	}
	if bytes.Contains(p.body, []byte("sk-planted")) || bytes.Contains(p.body, []byte(r.home)) {
		fail("the response contains a key or a path")
	}
	kind := p.Header.Get("Content-Type")
	if kind == streamKind && p.Header.Get("X-Accel-Buffering") != "no" {
		fail("nginx would hold events back")
	}
	_, pattern := r.g.mux.Handler(q)
	i := slices.IndexFunc(r.g.routes, func(one route) bool { return one.path == pattern && one.method == q.Method })
	if p.StatusCode >= 400 {
		if kind == jsonKind && i >= 0 && r.g.routes[i].style != "" {
			refused, _ := r.g.routes[i].refusal()
			r.valid(refused, p.body, fail)
		} else if n, ok := p.field("status").(float64); kind != problemKind || !ok || int(n) != p.StatusCode {
			fail("a problem of type %q with status %v", kind, n)
		} else {
			r.valid(of[Problem](), p.body, fail)
		}
	}
	if i < 0 {
		if p.StatusCode < 400 {
			fail("a response without a route")
		}
		return
	}
	one := &r.g.routes[i]
	seen.Store(fmt.Sprint(one.operationID(), " ", p.StatusCode), true)
	switch {
	case p.StatusCode >= 400:
		if !slices.Contains(one.statuses(), p.StatusCode) {
			fail("undocumented status %d", p.StatusCode)
		}
	case p.StatusCode != one.status:
		fail("status %d, want %d", p.StatusCode, one.status)
	case kind == streamKind && one.kind == "" && one.events != nil:
	case one.out == nil:
		if len(p.body) > 0 {
			fail("a body")
		}
	case one.kind == textKind:
		if kind != textKind {
			fail("type %q", kind)
		}
	case one.kind == streamKind:
		if kind != streamKind {
			fail("type %q", kind)
		}
		for _, e := range eventsOf(p.body) {
			t := one.events[e.name]
			if e.name == "" {
				t = one.out
			}
			if t == nil {
				fail("event %q", e.name)
				continue
			}
			r.valid(t, []byte(e.data), fail)
		}
	default:
		if kind != jsonKind {
			fail("type %q", kind)
		}
		r.valid(one.out, p.body, fail)
	}
}

// valid checks a body against the schema of its type.
func (r *rig) valid(t reflect.Type, b []byte, fail func(string, ...any)) {
	r.t.Helper()
	schema, err := schemaOf(t)
	if err != nil {
		r.t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		fail("not JSON: %v", err)
	} else if err := resolved.Validate(v); err != nil {
		fail("%v", err)
	}
}

// sent is an event of a stream.
type sent struct{ name, id, data string }

// eventsOf parses a stream as the WHATWG specification defines it.
func eventsOf(b []byte) (list []sent) {
	var e sent
	for line := range strings.SplitSeq(string(b), "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if e.data != "" {
				list = append(list, e)
			}
			e = sent{}
		case name == "event":
			e.name = value
		case name == "id":
			e.id = value
		case name == "data":
			e.data += value
		}
	}
	return list
}
