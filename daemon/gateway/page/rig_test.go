package page

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/daemontest"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/service/servicetest"
	"crabmem/daemon/session"
	"crabmem/daemon/space"

	"go.uber.org/goleak"
	"golang.org/x/net/html"
)

func TestMain(m *testing.M) {
	servicetest.Main(os.Exit)
	debug.SetGCPercent(400) // the daemons are small and many
	goleak.VerifyTestMain(m)
}

// rig is a page with a daemon and a scripted model.
type rig struct {
	*testing.T
	endRuns func() // cancels the runs of the page, and waits for them
	home    string
	url     string
	model   *modeltest.Server
	daemon  *client.Client
	stop    func() // the daemon
	clock   *clock
	page    *Page
	busy    atomic.Bool // no request may enter
}

// clock is a time that a test sets.
type clock struct {
	mu  sync.Mutex
	add time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.add)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add += d
}

// newRig starts a page. more continues the table of the agent crab.
func newRig(t *testing.T, more ...string) *rig {
	t.Helper()
	home, err := os.MkdirTemp("", "crab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	r := &rig{T: t, home: home, model: modeltest.New(t), clock: &clock{}}
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(daemontest.Config(r.model.URL)+strings.Join(more, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	addr, stop := daemontest.Serve(t, home)
	r.stop, r.daemon = stop, &client.Client{Addr: addr}
	t.Cleanup(func() { r.daemon.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	runs := session.NewDetached(ctx, r.clock.now)
	r.endRuns = func() {
		cancel()
		runs.Wait()
	}
	p, err := New(Options{Runs: runs, Owners: func() *space.Owners { return &space.Owners{Keys: []string{"phone"}, Removed: []string{"gone"}} }, FS: vfs.OS{}, Home: home, Daemon: r.daemon.Addr, Log: slog.New(slog.DiscardHandler), Version: "test", Now: r.clock.now,
		Verified: func(context.Context) bool { return true }, Enter: func() (func(), bool) { return func() {}, !r.busy.Load() }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	t.Cleanup(r.endRuns)
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	r.url, r.page = s.URL, p
	return r
}

// person is a browser without JavaScript.
type person struct {
	*rig
	c    *http.Client
	doc  *html.Node // of the current page
	at   string     // its path and query
	text string     // its source
	code int        // its status
	next string     // the header Refresh
}

// arrive returns a browser that has not logged in.
func (r *rig) arrive() *person {
	r.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.Fatal(err)
	}
	c := &http.Client{Jar: jar, Transport: &http.Transport{}}
	r.Cleanup(c.CloseIdleConnections)
	return &person{rig: r, c: c}
}

// visitor returns a browser that has logged in.
func (r *rig) visitor() *person {
	r.Helper()
	p := r.arrive()
	p.open("/ui/login")
	p.submit("/ui/login", map[string]string{"code": r.code()})
	if p.at != "/ui/memories" {
		r.Fatalf("the login led to %s", p.at)
	}
	return p
}

func (r *rig) code() string {
	r.Helper()
	code, err := NewCode(vfs.OS{}, r.home, r.clock.now())
	if err != nil {
		r.Fatal(err)
	}
	return code
}

// open loads a page.
func (p *person) open(path string) *person {
	p.Helper()
	q, err := http.NewRequestWithContext(p.Context(), "GET", p.url+path, nil)
	if err != nil {
		p.Fatal(err)
	}
	return p.load(q)
}

func (p *person) load(q *http.Request) *person {
	p.Helper()
	r, err := p.c.Do(q)
	if err != nil {
		p.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		p.Fatal(err)
	}
	if kind := r.Header.Get("Content-Type"); kind != "text/html; charset=utf-8" {
		p.Fatalf("%s: %s", q.URL.Path, kind)
	}
	p.text, p.code, p.at, p.next = string(b), r.StatusCode, r.Request.URL.RequestURI(), r.Header.Get("Refresh")
	if p.doc, err = html.Parse(strings.NewReader(p.text)); err != nil {
		p.Fatal(err)
	}
	p.check()
	return p
}

// find returns the elements for which f is true.
func (p *person) find(f func(*html.Node) bool) (list []*html.Node) {
	for n := range p.doc.Descendants() {
		if n.Type == html.ElementNode && f(n) {
			list = append(list, n)
		}
	}
	return list
}

// elements returns the elements with a name.
func (p *person) elements(name string) []*html.Node {
	return p.find(func(n *html.Node) bool { return n.Data == name })
}

func attr(n *html.Node, name string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// textOf returns the text in an element.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.TrimSpace(b.String())
}

// heading returns the text of the heading.
func (p *person) heading() string { return textOf(p.elements("h1")[0]) }

// links returns the paths of the links in main, without those of a navigation.
func (p *person) links(prefix string) (list []string) {
	for _, a := range p.elements("a") {
		if to, _ := attr(a, "href"); strings.HasPrefix(to, prefix) {
			list = append(list, to)
		}
	}
	return list
}

// follow loads the page of the link with a text.
func (p *person) follow(text string) *person {
	p.Helper()
	for _, a := range p.elements("a") {
		if textOf(a) == text {
			to, _ := attr(a, "href")
			return p.open(to)
		}
	}
	p.Fatalf("%s has no link %q", p.at, text)
	return p
}

// fields returns what a browser sends for the form with an action: it sends each line end
// as CRLF.
func (p *person) fields(action string) (values url.Values, method string) {
	p.Helper()
	for _, form := range p.elements("form") {
		if to, _ := attr(form, "action"); to != action {
			continue
		}
		values = url.Values{}
		for n := range form.Descendants() {
			name, ok := attr(n, "name")
			if !ok || n.Type != html.ElementNode {
				continue
			}
			value, _ := attr(n, "value")
			if n.Data == "textarea" { // html.Parse has removed the first line end
				value = ""
				for t := range n.ChildNodes() {
					value += t.Data
				}
			}
			if n.Data == "select" {
				value, _ = attr(n.FirstChild, "value")
			}
			if kind, _ := attr(n, "type"); kind == "checkbox" {
				if _, checked := attr(n, "checked"); !checked {
					continue
				}
			}
			values.Add(name, crlf(value))
		}
		method, _ = attr(form, "method")
		return values, method
	}
	p.Fatalf("%s has no form for %s", p.at, action)
	return nil, ""
}

// crlf normalizes line ends as the HTML standard defines it for forms.
func crlf(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	return strings.ReplaceAll(text, "\n", "\r\n")
}

// submit sends the form with an action, with changed fields.
func (p *person) submit(action string, change map[string]string) *person {
	p.Helper()
	values, method := p.fields(action)
	for name, value := range change {
		values.Set(name, crlf(value))
	}
	if method == "get" {
		return p.open(action + "?" + values.Encode())
	}
	q, err := http.NewRequestWithContext(p.Context(), "POST", p.url+action, strings.NewReader(values.Encode()))
	if err != nil {
		p.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return p.load(q)
}

// check checks what holds for each page: it loads nothing from elsewhere, runs no script,
// and a person who does not see it can use it.
func (p *person) check() {
	p.Helper()
	fail := func(format string, args ...any) {
		p.Helper()
		p.Errorf("%s: %s", p.at, fmt.Sprintf(format, args...))
	}
	ids, labels := make(map[string]bool), make(map[string]bool)
	for n := range p.doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if id, ok := attr(n, "id"); ok {
			if ids[id] {
				fail("two elements have the ID %s", id)
			}
			ids[id] = true
		}
		if id, ok := attr(n, "for"); ok && n.Data == "label" {
			labels[id] = true
		}
	}
	for n := range p.doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "script", "iframe", "object", "embed", "base", "style", "svg", "math", "frame":
			fail("an element %s", n.Data)
		case "input", "textarea", "select":
			id, _ := attr(n, "id")
			kind, _ := attr(n, "type")
			if kind != "hidden" && !labels[id] && n.Parent.Data != "label" {
				fail("a field without a label: %v", n.Attr)
			}
		case "a", "button", "summary", "h1", "h2", "th":
			label, _ := attr(n, "aria-label")
			if textOf(n)+label == "" && n.FirstChild == nil {
				fail("an element %s without a text", n.Data)
			}
		case "form":
			if to, _ := attr(n, "action"); !strings.HasPrefix(to, "/ui/") {
				fail("a form for %q", to)
			}
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc" {
				fail("an attribute %s of %s", a.Key, n.Data)
			}
			if a.Key == "href" || a.Key == "src" || a.Key == "action" {
				u, err := url.Parse(a.Val)
				if err != nil || u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
					fail("%s=%q", a.Key, a.Val)
				}
			}
		}
	}
	if n := len(p.elements("main")); n != 1 {
		fail("%d elements main", n)
	}
	if n := len(p.find(func(n *html.Node) bool { return n.Data == "h1" && !inProse(n) })); n != 1 {
		fail("%d headings", n)
	}
	if titles := p.elements("title"); len(titles) != 1 || textOf(titles[0]) == "" {
		fail("no title")
	}
	if lang, _ := attr(p.elements("html")[0], "lang"); lang != "en" {
		fail("no language")
	}
}

// inProse reports whether an element is of the text of an entry.
func inProse(n *html.Node) bool {
	for ; n != nil; n = n.Parent {
		if class, _ := attr(n, "class"); class == "prose" {
			return true
		}
	}
	return false
}
