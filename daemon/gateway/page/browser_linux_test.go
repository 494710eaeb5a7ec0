//go:build !386 && !race

// The protocol of the browser takes long to compile, so one system does it once.

package page

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"crabmem/bench/gate"
	"crabmem/daemon/model/modeltest"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Screenshots are for people: no test compares them.
var (
	pictures = []string{"search", "conflict", "dark-1100-memories-2", "light-360-memories-q-deploy"} // in testdata
	shots    = flag.String("page.shots", "", "write screenshots of the page into this `directory`")
	picture  = flag.Bool("page.update", false, "write the pictures in testdata")
)

// chrome is a tab of a real browser.
type chrome struct {
	*rig
	ctx context.Context

	mu       sync.Mutex
	problems []string // reports of the policy, dialogs, requests to other servers
}

// startBrowser starts a browser, which ends with the test. Without Chromium, it skips the
// test.
func startBrowser(t *testing.T) context.Context {
	name := ""
	for _, n := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(n); err == nil {
			name = path
			break
		}
	}
	if name == "" {
		t.Skip("SKIPPED: chromium is not on the PATH (apt install chromium)")
	}
	o := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(name), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1100, 800),
		chromedp.WSURLReadTimeout(gate.Hang))
	if os.Geteuid() == 0 {
		o = append(o, chromedp.NoSandbox)
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), o...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// chrome opens a tab, without the cookies of others, in the browser of ctx.
func (r *rig) chrome(ctx context.Context) *chrome {
	r.Helper()
	c := &chrome{rig: r}
	c.tab(ctx, chromedp.WithNewBrowserContext())
	return c
}

// tab opens a tab in the browser of ctx.
func (c *chrome) tab(ctx context.Context, o ...chromedp.ContextOption) {
	c.Helper()
	var end context.CancelFunc
	c.ctx, end = chromedp.NewContext(ctx, o...)
	c.Cleanup(end)
	if err := chromedp.Do(c.ctx); err != nil { // opens the tab, which ends with the context
		c.Fatal(err)
	}
	if err := chromedp.Listen(c.ctx, func(e any) {
		switch e := e.(type) {
		case *page.EventJavascriptDialogOpening:
			c.problem("dialog: " + e.Message)
		case *log.EventEntryAdded:
			if e.Entry.Source == log.EntrySourceSecurity || strings.Contains(e.Entry.Text, "Content Security Policy") {
				c.problem("report: " + e.Entry.Text)
			}
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, c.url+"/ui/") {
				c.problem("request: " + e.Request.URL)
			}
		}
	}); err != nil {
		c.Fatal(err)
	}
	call(c, network.Enable, network.EnableParams{})
	call(c, log.Enable, cdp.Empty{})
	call(c, page.Enable, page.EnableParams{})
}

func (c *chrome) problem(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, text)
}

// clean fails the test if the browser reported a problem.
func (c *chrome) clean() {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.problems {
		c.Errorf("the browser reports: %s", p)
	}
}

// call sends a command to the tab.
func call[P, R any](c *chrome, command cdp.Command[P, R], params P) R {
	c.Helper()
	return get(c, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, command, params) })
}

// get runs an action and returns its result.
func get[T any](c *chrome, a chromedp.Action[T]) T {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, gate.Hang)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		c.Fatal(err)
	}
	return v
}

// do runs actions.
func (c *chrome) do(actions ...chromedp.Action[chromedp.Void]) {
	c.Helper()
	get(c, chromedp.Steps(actions...))
}

// open loads a page.
func (c *chrome) open(path string) {
	c.Helper()
	c.do(chromedp.Navigate(c.url+path), chromedp.WaitReady(chromedp.CSS("main")))
}

// at returns the path of the page.
func (c *chrome) at() string {
	c.Helper()
	return strings.TrimPrefix(get(c, chromedp.Location()), c.url)
}

// click clicks an element and waits for the next page.
func (c *chrome) click(selector string) {
	c.Helper()
	call(c, page.BringToFront, cdp.Empty{}) // a browser sends no input to a hidden tab
	ctx, cancel := context.WithTimeout(c.ctx, gate.Hang)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		c.Fatal(selector, err)
	}
	c.do(chromedp.WaitReady(chromedp.CSS("main")))
}

// login logs the browser in.
func (c *chrome) login() {
	c.Helper()
	c.open("/ui/")
	c.do(chromedp.SendKeys(chromedp.CSS("#code"), c.code()))
	c.click("form.login button")
	if at := c.at(); at != "/ui/memories" {
		c.Fatalf("the login led to %s", at)
	}
}

// text returns the text of an element.
func (c *chrome) text(selector string) string {
	c.Helper()
	return get(c, chromedp.Text(chromedp.CSS(selector)))
}

// shot writes a screenshot of the page.
func (c *chrome) shot(name string) {
	c.Helper()
	for dir, write := range map[string]bool{*shots: *shots != "", "testdata": *picture && slices.Contains(pictures, name)} {
		if !write {
			continue
		}
		png := get(c, chromedp.FullScreenshot(100))
		if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
			c.Fatal(err)
		}
	}
}

// named fails the test unless each element that a person can use has a role and a name in
// the accessibility tree.
func (c *chrome) named() {
	c.Helper()
	seen := 0
	for _, n := range call(c, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		focusable := false
		for _, p := range n.Properties {
			if p.Name == "focusable" && string(p.Value.Value) == "true" {
				focusable = true
			}
		}
		if n.Ignored || !focusable || n.Role == nil || string(n.Role.Value) == `"RootWebArea"` || string(n.Role.Value) == `"main"` {
			continue
		}
		seen++
		if role := string(n.Role.Value); role == `"generic"` || role == `""` || n.Name == nil || string(n.Name.Value) == `""` {
			c.Errorf("%s: an element of the role %s has no name or no role", c.at(), role)
		}
	}
	if seen < 2 {
		c.Errorf("%s: %d elements in the accessibility tree", c.at(), seen)
	}
}

// sample writes notes as a person would.
func (r *rig) sample() {
	r.Helper()
	r.remember("canary", "The canary gets one request in a hundred. See [[deploy]].")
	r.remember("deploy", "---\ntype: decision\ntags: [release, infra]\n---\n# How we deploy\n\nWe **build**, tag, and push to the registry. Then we watch the [[canary]] for ten minutes.\n\n- never on Friday\n- `make release` does the first three steps\n\n> A canary that is silent is not a canary.\n", "ship", "release")
	r.remember("deploy", "---\ntype: decision\ntags: [release, infra]\n---\n# How we deploy\n\nWe **build**, tag, sign, and push to the registry. Then we watch the [[canary]] for twenty minutes.\n\n- never on Friday\n- `make release` does the first three steps\n\n> A canary that is silent is not a canary.\n", "ship", "release")
	r.remember("on call", "Anna is on call this week. The pager is in the drawer.")
	r.remember("tea", "Green tea at 70 degrees, two minutes.")
}

// TestBrowser uses the page in one Chromium.
func TestBrowser(t *testing.T) {
	browser := startBrowser(t)
	for name, f := range map[string]func(*testing.T, context.Context){
		"pages": browse, "chat": browseChat, "forms": browseForms, "hostile": browseHostile, "keyboard": browseKeyboard,
	} {
		t.Run(name, func(t *testing.T) { f(t, browser) })
	}
}

// browse uses the page in Chromium: it logs in, searches, reads, edits in two tabs,
// and restores a version, with scripts of pages turned off.
func browse(t *testing.T, browser context.Context) {
	r := newRig(t)
	c := r.chrome(browser)
	r.sample()
	call(c, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	c.login()
	c.named()
	c.shot("memories")
	c.do(chromedp.SendKeys(chromedp.CSS("#q"), "sign and push"+kb.Enter), chromedp.WaitVisible(chromedp.CSS(".hits")))
	if got := c.text(".hits h2"); got != "deploy" {
		t.Errorf("the first hit is %q", got)
	}
	c.do(chromedp.Click(chromedp.CSS(".hits summary")), chromedp.WaitVisible(chromedp.CSS(".hits meter")))
	c.named()
	c.shot("search")
	c.click(".hits h2 a")
	c.named()
	c.shot("memory")

	other := &chrome{rig: r}
	other.tab(c.ctx)
	other.open("/ui/memories/2/edit")
	c.click(`a[href="/ui/memories/2/edit"]`)
	c.named()
	other.do(chromedp.SetValue(chromedp.CSS("#content"), "the text of the other tab\nanother line\n"))
	other.click("form.edit button")
	call(c, page.BringToFront, cdp.Empty{})
	c.do(chromedp.SendKeys(chromedp.CSS("#content"), "one more line\n"))
	c.click("form.edit button")
	if !strings.Contains(c.text("main"), "The note has changed since you opened it") || r.content("deploy") != "the text of the other tab\nanother line\n" {
		t.Errorf("conflict: %s", c.text("main"))
	}
	c.named()
	c.shot("conflict")
	c.click("form.edit button")
	if got := r.content("deploy"); !strings.Contains(got, "one more line\n") || !strings.Contains(got, "sign, and push") {
		t.Errorf("saved %q", got)
	}
	c.open("/ui/memories/2/history")
	c.named()
	c.shot("history")
	c.click("tbody tr:last-child a")
	c.named()
	c.shot("version")
	c.click("form[action*=history] button")
	if got := r.content("deploy"); !strings.Contains(got, "for ten minutes") {
		t.Errorf("restored %q", got)
	}
	for _, path := range []string{"/ui/sessions", "/ui/status", "/ui/new", "/ui/memories/3/remove", "/ui/nothing"} {
		c.open(path)
		c.named()
	}
	c.clean()
	other.clean()
}

// browseChat sends a message, and waits while Chromium loads the page again.
func browseChat(t *testing.T, browser context.Context) {
	r := newRig(t)
	c := r.chrome(browser)
	call(c, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	r.model.Queue(modeltest.Say("**Half** of").Stall(0).Text(" the answer."))
	c.login()
	c.open("/ui/chat")
	c.named()
	c.do(chromedp.SendKeys(chromedp.CSS("#content"), "How do we deploy?"))
	c.click("form.edit button")
	c.do(chromedp.WaitVisible(chromedp.CSS("#end strong")))
	c.named()
	c.shot("chat")
	r.model.Release()
	c.do(chromedp.WaitVisible(chromedp.CSS("#end textarea")), chromedp.WaitVisible(chromedp.CSS("li.assistant strong")))
	c.named()
	c.clean()
}

// browseForms: what a real browser makes of texts in a form is what the other tests
// assume.
func browseForms(t *testing.T, browser context.Context) {
	r := newRig(t)
	c := r.chrome(browser)
	c.login()
	for _, content := range []string{"\n\na\n\n", "a\r\nb\r\n", "</textarea><b>&amp;&#10;\"'", "\t x \u0085\u2028\ufeff\x7f🦀 \n", "{{.}}"} {
		path := r.remember("note", content, "<i>", "an alias")
		c.open(path + "/edit")
		c.click("form.edit button")
		if got := r.content("note"); got != content || c.at() != path {
			t.Errorf("the browser changed %q to %q, at %s", content, got, c.at())
		}
	}
	c.clean()
}

// browseHostile shows hostile texts: the browser runs nothing, and asks no other
// server.
func browseHostile(t *testing.T, browser context.Context) {
	r := newRig(t)
	c := r.chrome(browser)
	c.login()
	text := strings.Join(hostile, "\n\n") + "\n\n![x](http://127.0.0.1:1/image.png)"
	path := r.remember(`<img src=x onerror=alert(1)>`, text, `<script>alert(1)</script>`)
	r.remember(`<img src=x onerror=alert(1)>`, text+"\n", `<script>alert(1)</script>`)
	for _, at := range []string{path, path + "/edit", path + "/history", path + "/remove", "/ui/memories", "/ui/memories?q=alert"} {
		c.open(at)
	}
	c.mu.Lock()
	c.problems = slices.DeleteFunc(c.problems, func(p string) bool { // the policy stops the image, and reports that
		return strings.Contains(p, "http://127.0.0.1:1/image.png")
	})
	c.mu.Unlock()
	c.clean()
}

// browseKeyboard: the tab key reaches each link and field, in the order of the page,
// and the page fits a small screen.
func browseKeyboard(t *testing.T, browser context.Context) {
	r := newRig(t)
	c := r.chrome(browser)
	r.sample()
	c.login()
	c.open("/ui/memories")
	var got []string
	want := get(c, chromedp.Evaluate[[]string](`[...document.querySelectorAll('a, button, input:not([type=hidden]), textarea, summary, [tabindex="0"]')].map(e => e.outerHTML.slice(0, 200))`))
	for range want {
		c.do(chromedp.KeyEvent(kb.Tab))
		got = append(got, get(c, chromedp.Evaluate[string](`document.activeElement.outerHTML.slice(0, 200)`)))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the tab key reaches\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, dark := range []string{"light", "dark"} {
		for _, width := range []int64{1100, 360} {
			call(c, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: dark}}})
			c.do(chromedp.EmulateViewport(width, 800))
			for _, path := range []string{"/ui/memories", "/ui/memories?q=deploy", "/ui/memories/2", "/ui/memories/2/edit", "/ui/memories/2/history", "/ui/memories/2/history/2", "/ui/sessions", "/ui/status"} {
				c.open(path)
				if over := get(c, chromedp.Evaluate[int](`document.documentElement.scrollWidth - document.documentElement.clientWidth`)); over > 0 {
					t.Errorf("%s is %d pixels wider than the screen of %d", path, over, width)
				}
				c.shot(fmt.Sprintf("%s-%d%s", dark, width, strings.NewReplacer("/ui/", "-", "/", "-", "?", "-", "=", "-").Replace(path)))
			}
		}
	}
	c.clean()
}
