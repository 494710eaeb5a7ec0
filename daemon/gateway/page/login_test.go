package page

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/op"
)

// TestLogin: a code is valid once, for a minute, and only the newest.
func TestLogin(t *testing.T) {
	r := newRig(t)
	enter := func(code string) *person {
		t.Helper()
		p := r.arrive().open("/ui/login")
		return p.submit("/ui/login", map[string]string{"code": code})
	}
	refused := func(what, code string) {
		t.Helper()
		if p := enter(code); p.code != http.StatusUnauthorized || !strings.Contains(p.text, "The code is wrong") {
			t.Errorf("%s: %d", what, p.code)
		}
	}
	refused("without a code", "abcde-fghjk")
	refused("an empty code", "")
	first := r.code()
	second := r.code()
	refused("an earlier code", first)
	if p := enter(" " + strings.ToUpper(second) + " "); p.code != 200 || p.at != "/ui/memories" {
		t.Errorf("the code: %d, %s", p.code, p.at)
	}
	refused("the code again", second)
	late := r.code()
	r.clock.advance(CodeTime)
	refused("a late code", late)
	early := r.code()
	r.clock.advance(-2 * CodeTime) // the clock was set to an earlier time
	refused("a code of the future", early)
	if err := os.WriteFile(filepath.Join(r.home, CodeFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a damaged file", "abcde-fghjk")
	b, err := os.ReadFile(filepath.Join(r.home, CodeFile))
	if code := r.code(); err != nil || strings.Contains(string(b), code) {
		t.Errorf("the file contains the code: %s, %v", b, err)
	}
}

// TestCookies: who has logged in is known by a cookie, until the time ends or the person
// logs out.
func TestCookies(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	u, _ := url.Parse(p.url + "/ui/")
	cookies := p.c.Jar.Cookies(u)
	if len(cookies) != 1 || len(cookies[0].Value) < 43 {
		t.Fatalf("cookies %v", cookies)
	}
	other, _ := url.Parse(p.url + "/v1/memories")
	if got := p.c.Jar.Cookies(other); len(got) != 0 {
		t.Errorf("the browser sends %v to other paths", got)
	}
	with := func(header string) string {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), "GET", p.url+"/ui/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Cookie", header)
		return r.arrive().load(q).at
	}
	if at := with("crabmem=x; crabmem=" + cookies[0].Value); at != "/ui/status" {
		t.Errorf("with the cookie of another server: %s", at)
	}
	if at := with("crabmem=" + cookies[0].Value + "x"); at != "/ui/login" {
		t.Errorf("with another cookie: %s", at)
	}
	if at := p.open("/ui/status").at; at != "/ui/status" {
		t.Errorf("logged in: %s", at)
	}
	r.clock.advance(loginTime)
	if at := p.open("/ui/status").at; at != "/ui/login" {
		t.Errorf("after %v: %s", loginTime, at)
	}
	p = r.visitor()
	if at := p.submit("/ui/logout", nil).at; at != "/ui/login" {
		t.Errorf("log out: %s", at)
	}
	if at := p.open("/ui/status").at; at != "/ui/login" {
		t.Errorf("after the logout: %s", at)
	}
	var b browsers
	b.byHash = make(map[string]*browser)
	now := time.Now()
	first, _ := b.add(now)
	for i := range maxBrowsers {
		if _, err := b.add(now.Add(time.Duration(i+1) * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.byHash) != maxBrowsers || b.byHash[op.SHA256(first)] != nil {
		t.Errorf("%d browsers; the first remains: %v", len(b.byHash), b.byHash[op.SHA256(first)] != nil)
	}
}

// TestPathsNeedLogin sends each request without a login, and each form without its token.
func TestPathsNeedLogin(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	for pattern := range closedPaths {
		method, path, ok := strings.Cut(pattern, " ")
		if !ok {
			method, path = "GET", pattern+"nothing"
		}
		path = strings.NewReplacer("{id}", "1", "{version}", "1", "{$}", "").Replace(path)
		request := func() *http.Request {
			q, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader("token=x"))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			return q
		}
		if one := r.arrive().load(request()); one.at != "/ui/login" {
			t.Errorf("%s without a login: %d, %s", pattern, one.code, one.at)
		}
		one := p.load(request())
		if forbidden := one.code == http.StatusForbidden; forbidden != (method == "POST") {
			t.Errorf("%s without a token: %d", pattern, one.code)
		}
	}
	if p := p.open("/ui/status"); p.at != "/ui/status" {
		t.Errorf("afterwards: %s", p.at)
	}
}

// TestLoginLimits: who has not logged in occupies little.
func TestLoginLimits(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	r.busy.Store(true)
	if p.open("/ui/status"); p.code != http.StatusServiceUnavailable {
		t.Errorf("a busy gateway: %d", p.code)
	}
	if other := r.arrive().open("/ui/login"); other.code != 200 {
		t.Errorf("the login of a busy gateway: %d", other.code)
	}
	r.busy.Store(false)
	if other := r.arrive().open("/ui/login").submit("/ui/login", map[string]string{"code": strings.Repeat("x", maxLogin)}); other.code != http.StatusRequestEntityTooLarge {
		t.Errorf("a long form: %d", other.code)
	}
}

// TestHeaders: the policy of each page permits no script.
func TestHeaders(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/ui/login", "/ui/style.css", "/ui/icon.svg", "/ui/nothing"} {
		q, err := http.NewRequestWithContext(t.Context(), "GET", r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := http.DefaultTransport.RoundTrip(q)
		if err != nil {
			t.Fatal(err)
		}
		p.Body.Close()
		h := p.Header
		if csp := h.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; style-src 'self';") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "script-src") ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%s: %v", path, h)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// TestNoDaemon: without a daemon, a page says what to do.
func TestNoDaemon(t *testing.T) {
	r := newRig(t)
	p := r.visitor()
	r.stop()
	for _, path := range []string{"/ui/memories", "/ui/memories/1", "/ui/sessions", "/ui/status"} {
		if p.open(path); p.code != 503 || !strings.Contains(p.text, "crabmem daemon start") {
			t.Errorf("%s: %d", path, p.code)
		}
	}
}
