package remote

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

// TestParseURL accepts https, and http only to this machine.
func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://team.example": "https://team.example", "https://TEAM.example:3000/": "https://team.example:3000", "https://[::1]:3": "https://[::1]:3",
		"http://127.0.0.1:3000": "http://127.0.0.1:3000", "http://localhost:3000": "http://localhost:3000", "http://[::1]:3000": "http://[::1]:3000",
		"http://team.example": "", "http://10.0.0.1:3000": "", "http://localhost.example": "", "http://127.0.0.1.example": "", "http://localhost@team.example": "",
		"https://user:password@team.example": "", "https://team.example/path": "", "https://team.example?x=1": "", "https://team.example?": "", "https://team.example#x": "",
		"team.example": "", "ftp://team.example": "", "https://": "", "https://:3000": "", "": "", "https://a b": "", "//team.example": "",
	} {
		u, err := ParseURL(text)
		if err != nil && (want != "" || errtable.Find(err).Exit != errtable.ExitUsage || errtable.Find(err).Fix == "" || strings.Contains(err.Error(), "password")) {
			t.Errorf("%s: %v, fix %q", text, err, errtable.Find(err).Fix)
		}
		if err == nil && u.String() != want {
			t.Errorf("%s: %s, want %q", text, u, want)
		}
	}
	if _, err := ParseURL("http://team.example"); !strings.Contains(errtable.Find(err).Fix, "ssh -L") {
		t.Errorf("http: fix %q", errtable.Find(err).Fix)
	}
}

// TestSecretName: each origin has its own secret.
func TestSecretName(t *testing.T) {
	seen := make(map[string]string)
	for _, host := range []string{"a.b", "a-b", "a--b", "a.b:3000", "a-b:3000", "a.b-3000", "127.0.0.1:3000", "[::1]:3000", "localhost", strings.Repeat("long.", 20) + "example", strings.Repeat("long.", 20) + "example:1"} {
		name := SecretName(&url.URL{Scheme: "https", Host: host})
		if other, ok := seen[name]; ok || len(name) > 64 {
			t.Errorf("%s and %s: %s", host, other, name)
		}
		seen[name] = host
	}
	if seen["gateway-a-b-3000"] != "a.b:3000" {
		t.Errorf("names: %v", seen)
	}
}

// server is a server for tests, and what it received.
func server(t *testing.T, h http.HandlerFunc) (s *httptest.Server, count *atomic.Int32, keys *atomic.Int32) {
	t.Helper()
	count, keys = new(atomic.Int32), new(atomic.Int32)
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		if r.Header.Get("Authorization") != "" {
			keys.Add(1)
		}
		h(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, count, keys
}

func clientOf(t *testing.T, text string, roots *x509.CertPool) *Client {
	t.Helper()
	u, err := ParseURL(text)
	if err != nil {
		t.Fatal(err)
	}
	c := New(u, "cmk_key", roots)
	t.Cleanup(func() { c.Close() })
	return c
}

func rootsOf(s *httptest.Server) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return roots
}

func wants(t *testing.T, what string, err error, kind string, exit int) {
	t.Helper()
	row := errtable.Find(err)
	if err == nil || row.Kind != kind || row.Exit != exit || row.Fix == "" || strings.Contains(err.Error(), "cmk_key") {
		t.Errorf("%s: %v: kind %q, exit %d, fix %q; want %s, %d", what, err, row.Kind, row.Exit, row.Fix, kind, exit)
	}
}

// TestCertificates: a certificate of an unknown authority, or of another host, receives no
// request.
func TestCertificates(t *testing.T) {
	s, count, _ := server(t, func(http.ResponseWriter, *http.Request) {})
	read := func(c *Client) error {
		_, err := op.ListTags.Do(t.Context(), c, op.None{})
		return err
	}
	wants(t, "unknown authority", read(clientOf(t, s.URL, nil)), "certificate", errtable.ExitUnreachable)
	other := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	wants(t, "another host", read(clientOf(t, other, rootsOf(s))), "certificate", errtable.ExitUnreachable)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	wants(t, "no TLS", read(clientOf(t, strings.Replace(plain.URL, "http:", "https:", 1), nil)), "no_gateway", errtable.ExitUnreachable)
	if n := count.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
	s.Close()
	wants(t, "nobody listens", read(clientOf(t, s.URL, rootsOf(s))), "no_gateway", errtable.ExitUnreachable)
}

// TestRoots refuses files without certificates.
func TestRoots(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, maxRoots+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "large", "missing", "."} {
		_, err := ReadRoots(vfs.OS{}, filepath.Join(dir, name))
		wants(t, name, err, "usage", errtable.ExitUsage)
	}
}

// TestRedirects: a redirect is not followed, so that the key stays at its origin.
func TestRedirects(t *testing.T) {
	other, count, _ := server(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"tags":[]}`) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		s, _, keys := server(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+r.URL.Path, status) })
		roots := rootsOf(s)
		roots.AddCert(other.Certificate())
		c := clientOf(t, s.URL, roots)
		_, err := op.ListTags.Do(t.Context(), c, op.None{})
		wants(t, "read", err, "gateway", errtable.ExitUnreachable)
		_, err = op.TagNote.Do(t.Context(), c, op.TagChange{Name: "x", Add: []string{"y"}})
		wants(t, "write", err, "gateway", errtable.ExitUnreachable)
		if keys.Load() != 2 {
			t.Errorf("%d requests with a key", keys.Load())
		}
	}
	if n := count.Load(); n != 0 {
		t.Errorf("the other host received %d requests", n)
	}
}

// TestResponses: responses of other servers, large ones, and those without a known outcome.
func TestResponses(t *testing.T) {
	type response struct {
		status  int
		body    string
		kind    string // of the error of a request that reads
		writes  string // and of one that writes and may be repeated
		exit    int    // of that one
		request int32  // how many of that one
	}
	for what, x := range map[string]response{
		"another server":   {404, "<html>", "gateway", "gateway", 8, 1},
		"an older gateway": {404, `{"status":404,"detail":"no such path","kind":"no_route"}`, "gateway", "gateway", 8, 1},
		"no daemon":        {503, `{"detail":"no daemon answers","kind":"no_daemon","remedy":"start it"}`, "no_daemon", "no_daemon", 8, 1},
		"the trust":        {403, `{"detail":"api:a may not","kind":"scope","remedy":"ask"}`, "scope", "scope", 7, 1},
		"an unknown key":   {401, `{"detail":"unknown key","kind":"key","remedy":"add"}`, "key", "key", 7, 1},
		"a conflict":       {409, `{"detail":"x","kind":"changed","remedy":"read"}`, "changed", "changed", 4, 1},
		"a lost daemon":    {502, `{"detail":"x","kind":"no_response","remedy":"repeat"}`, "no_response", "outcome_unknown", 6, 2},
		"a proxy's 504":    {504, "", "no_response", "outcome_unknown", 6, 2},
		"not JSON":         {200, "<html>", "no_response", "outcome_unknown", 6, 1},
		"too large":        {200, strings.Repeat("x", 2000), "no_response", "outcome_unknown", 6, 2},
	} {
		s, count, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(x.status)
			io.WriteString(w, x.body)
		})
		c := clientOf(t, s.URL, rootsOf(s))
		c.limit = 1000
		_, err := op.ListTags.Do(t.Context(), c, op.None{})
		if row := errtable.Find(err); row.Kind != x.kind || row.Fix == "" {
			t.Errorf("%s: %v, kind %q, fix %q", what, err, row.Kind, row.Fix)
		}
		count.Store(0)
		_, err = op.Remember.Do(t.Context(), c, note("x"))
		wants(t, what, err, x.writes, x.exit)
		if n := count.Load(); n != x.request {
			t.Errorf("%s: %d requests, want %d", what, n, x.request)
		}
	}
}

func note(text string) op.Note {
	n := op.Note{}
	n.Name, n.Content = "a", text
	return n
}

// TestRate waits for the rate of the key, and then repeats.
func TestRate(t *testing.T) {
	n := 0
	s, count, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		if n++; n < 4 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(429)
			io.WriteString(w, `{"detail":"too many","kind":"rate"}`)
			return
		}
		io.WriteString(w, `{"tags":[]}`)
	})
	if _, err := op.ListTags.Do(t.Context(), clientOf(t, s.URL, rootsOf(s)), op.None{}); err != nil || count.Load() != 4 {
		t.Errorf("%v after %d requests", err, count.Load())
	}
}

// TestInvalidTexts: JSON would replace invalid UTF-8, so nothing is sent. Neither are fields
// and operations of the owner, and a request whose context has ended.
func TestInvalidTexts(t *testing.T) {
	s, count, _ := server(t, func(http.ResponseWriter, *http.Request) {})
	c := clientOf(t, s.URL, rootsOf(s))
	_, err := op.Append.Do(t.Context(), c, op.Addition{Name: "a", Text: "b\xff"})
	if errtable.Find(err).Kind != "invalid" {
		t.Errorf("invalid UTF-8: %v", err)
	}
	_, err = op.ListLoaded.Do(t.Context(), c, op.None{})
	wants(t, "an operation without a path", err, "usage", 2)
	_, err = op.GetEntry.Do(t.Context(), c, op.EntryName{Name: "a"})
	wants(t, "a field of the owner", err, "usage", 2)
	wants(t, "the store", c.Read(nil), "usage", 2)
	ended, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("stop")
	cancel(cause)
	if _, err := op.Remember.Do(ended, c, note("x")); err != cause {
		t.Errorf("after the end: %v", err)
	}
	if n := count.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
}
