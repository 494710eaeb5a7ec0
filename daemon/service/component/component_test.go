package component

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/service"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestServeName checks that a component with an invalid name is not served.
func TestServeName(t *testing.T) {
	for _, name := range []string{"", "crabtalk", ".hidden", "../x"} {
		s := &McpService{Service: service.Service{Name: name, Home: t.TempDir()}, Handler: http.NotFoundHandler()}
		if err := s.Serve(t.Context()); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// serveIn serves a component in this process, until the test ends it.
func serveIn(t *testing.T, home string, h http.Handler) (address string, stop func() error) {
	t.Helper()
	s := &McpService{Service: service.Service{Name: "search", Home: home}, Handler: h}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	name := filepath.Join(home, "run", "search.port")
	var port []byte
	var err error
	gate.Until(t, "the component serves", func() bool {
		port, err = os.ReadFile(name)
		return err == nil
	})
	return "http://127.0.0.1:" + string(port), func() error { cancel(); return <-ended }
}

func status(t *testing.T, method, url string, change func(*http.Request)) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestOnlyLocal: web pages do not reach a component, by no name of this machine.
func TestOnlyLocal(t *testing.T) {
	home := t.TempDir()
	url, stop := serveIn(t, home, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	for _, c := range []struct {
		what   string
		path   string
		change func(*http.Request)
		want   int
	}{
		{"a client", "/mcp", nil, 204},
		{"localhost", "/mcp", func(r *http.Request) { r.Host = "localhost:1" }, 204},
		{"another name", "/mcp", func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"a page", "/mcp", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		{"another path", "/", nil, 404},
	} {
		if got := status(t, "POST", url+c.path, c.change); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
	if fi, err := os.Stat(filepath.Join(home, "run", "search.port")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("port file: %v, %v", fi.Mode(), err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestAnotherProcess: a component that ends leaves the port file of the one that
// took its place.
func TestAnotherProcess(t *testing.T) {
	home := t.TempDir()
	_, stop := serveIn(t, home, http.NotFoundHandler())
	name := filepath.Join(home, "run", "search.port")
	if err := os.WriteFile(name, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "1" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestEndsStreams checks that stopping a component ends an event stream and lets
// an active call finish.
func TestEndsStreams(t *testing.T) {
	started, release := make(chan bool, 2), make(chan bool)
	url, stop := serveIn(t, t.TempDir(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started <- true
		if r.Method == http.MethodGet {
			<-r.Context().Done()
			return
		}
		<-release // after the stream has ended
		w.WriteHeader(204)
	}))
	codes := make(chan int, 2)
	for _, method := range []string{"GET", "POST"} {
		go func() { codes <- status(t, method, url+"/mcp", nil) }()
	}
	<-started
	<-started
	began := time.Now()
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	stream := <-codes
	close(release)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	gate.Time(t, "stop", began, drain/2)
	if call := <-codes; call != 204 {
		t.Errorf("the call returned %d, the stream %d", call, stream)
	}
}

func TestMainArguments(t *testing.T) {
	s := &McpService{Service: service.Service{Name: "search", Description: "finds", Home: t.TempDir()}}
	for _, c := range []struct {
		args string
		code int
	}{{"help", 0}, {"--help", 0}, {"nothing", 2}, {"start now", 2}, {"logs -x", 2}, {"run", 1}, {"logs", 1}} {
		var out, diag bytes.Buffer
		if code := Main(s, strings.Fields(c.args), &out, &diag); code != c.code {
			t.Errorf("%s: %d\n%s%s", c.args, code, out.String(), diag.String())
		}
	}
	var out bytes.Buffer
	if code := Main(s, []string{"print"}, &out, &out); code != 0 || !strings.Contains(out.String(), "CRABTALK_HOME") {
		t.Errorf("print: %d\n%s", code, out.String())
	}
}
