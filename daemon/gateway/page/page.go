// Package page serves the web page of the gateway: a person reads, searches, and edits the
// memory in a browser. It works without JavaScript. The page is for the owner of the home,
// who logs in with a code that crabmem open prints.
package page

import (
	"bytes"
	"context"
	"crypto/subtle"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/session"
	"crabmem/daemon/space"
	"crabmem/daemon/wire"
)

// Prefix begins the path of each part of the page.
const Prefix = "/ui/"

// maxForm limits the body of a request. A form encodes each byte of a content of at most
// 8 MiB as up to three.
const maxForm = 25 << 20

//go:embed templates
var files embed.FS

//go:embed style.css
var style []byte

//go:embed icon.svg
var icon []byte

// policy permits the stylesheet and forms of this server, and nothing else.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'"

// Options are the options of a page.
type Options struct {
	FS      vfs.FS
	Home    string
	Daemon  wire.Addr
	Log     *slog.Logger
	Version string // of the gateway
	Now     func() time.Time
	// Verified is called for a request of a logged-in browser. If it returns false, the
	// connection ends with the response.
	Verified func(context.Context) bool
	// Enter takes a slot for a request of a logged-in browser. It returns the function that
	// gives the slot back, or false if all slots are taken.
	Enter  func() (leave func(), ok bool)
	Owners func() *space.Owners // of spaces
	Runs   *session.Detached    // runs that continue when the browser closes the page
}

// Page is the web page of a gateway.
type Page struct {
	o         Options
	stores    stores
	mux       *http.ServeMux
	templates map[string]*template.Template
	browsers  browsers
	attempts  chan struct{} // a slot for each login that is being checked
	rendering chan struct{} // a slot for each text that is being rendered
	running   chan struct{} // a slot for each active run
}

// New returns a page. Close releases its connections to the daemon.
func New(o Options) (*Page, error) {
	p := &Page{
		o: o, stores: stores{addr: o.Daemon, byKind: make(map[storeKind]*client.Client)}, mux: http.NewServeMux(), templates: make(map[string]*template.Template),
		browsers: browsers{byHash: make(map[string]*browser)}, attempts: make(chan struct{}, 2), rendering: make(chan struct{}, 2),
		running: make(chan struct{}, maxRunning),
	}
	layout, err := template.New("").Funcs(functions).ParseFS(files, "templates/layout.html")
	if err != nil {
		return nil, err
	}
	names, err := files.ReadDir("templates")
	if err != nil {
		return nil, err
	}
	for _, f := range names {
		t, err := layout.Clone()
		if err == nil {
			t, err = t.ParseFS(files, "templates/"+f.Name())
		}
		if err != nil {
			return nil, err
		}
		p.templates[f.Name()] = t
	}
	p.route()
	return p, nil
}

// Close closes the connections to the daemon. Before, the runs must end.
func (p *Page) Close() { p.stores.close() }

// functions are the functions of the templates.
var functions = template.FuncMap{
	"label":        display.Label,
	"sessionlabel": display.SessionLabel,
	"bytes":        display.Size,
	"before":       func(line int64) int64 { return line - 1 },
	"size":         func(n int) string { return display.Size(int64(n)) },
	"plural":       display.Plural[int],
	"score":        func(f float64) string { return strconv.FormatFloat(f, 'f', 3, 64) },
	"day":          func(t crmem.UnixTime) string { return t.Day(time.UTC) },
}

// openPaths need no login.
var openPaths = map[string]func(*visit) error{
	"GET /ui/login":     (*visit).login,
	"POST /ui/login":    (*visit).enter,
	"GET /ui/style.css": static("text/css; charset=utf-8", style),
	"GET /ui/icon.svg":  static("image/svg+xml", icon),
}

// closedPaths need a login.
var closedPaths = map[string]func(*visit) error{
	"GET /ui/{$}":                              func(v *visit) error { return v.see("/ui/memories") },
	"POST /ui/logout":                          (*visit).logout,
	"POST /ui/space":                           (*visit).chooseSpace,
	"GET /ui/memories":                         (*visit).memories,
	"GET /ui/new":                              (*visit).newMemory,
	"POST /ui/new":                             (*visit).createMemory,
	"GET /ui/memories/{id}":                    (*visit).memory,
	"GET /ui/memories/{id}/edit":               (*visit).editMemory,
	"POST /ui/memories/{id}/edit":              (*visit).saveMemory,
	"GET /ui/memories/{id}/remove":             (*visit).askRemoval,
	"POST /ui/memories/{id}/remove":            (*visit).removeMemory,
	"GET /ui/memories/{id}/history":            (*visit).history,
	"GET /ui/memories/{id}/history/{version}":  (*visit).version,
	"POST /ui/memories/{id}/history/{version}": (*visit).restore,
	"GET /ui/sessions":                         (*visit).sessions,
	"GET /ui/sessions/{id}":                    (*visit).session,
	"POST /ui/sessions/{id}":                   (*visit).continueChat,
	"POST /ui/sessions/{id}/cancel":            (*visit).cancel,
	"POST /ui/sessions/{id}/answer":            (*visit).reply,
	"POST /ui/sessions/{id}/work/{work}/{do}":  (*visit).changeWork,
	"GET /ui/chat":                             (*visit).chat,
	"POST /ui/chat":                            (*visit).startChat,
	"GET /ui/status":                           (*visit).status,
	"/ui/":                                     func(*visit) error { return notFound("no such page", "choose a page of the navigation") },
}

// route adds the handlers of the paths.
func (p *Page) route() {
	for pattern, f := range openPaths {
		p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { (&visit{p: p, w: w, r: r}).run(f) })
	}
	for pattern, f := range closedPaths {
		p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { (&visit{p: p, w: w, r: r}).runLoggedIn(f) })
	}
}

// ServeHTTP answers a request whose Host and Origin were checked.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers send forms with the Origin null
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	p.mux.ServeHTTP(w, r)
}

// visit is a request.
type visit struct {
	p       *Page
	w       http.ResponseWriter
	r       *http.Request
	browser *browser // nil: not logged in
	space   string   // of the memory
}

// run answers a request.
func (v *visit) run(f func(*visit) error) {
	if err := f(v); err != nil {
		v.fail(err)
	}
}

// runLoggedIn answers a request of a logged-in browser. A form must contain the token of
// the browser, which pages of other sites do not know.
func (v *visit) runLoggedIn(f func(*visit) error) {
	if v.browser = v.p.browsers.find(v.r, v.p.o.Now()); v.browser == nil {
		v.run(func(v *visit) error { return v.see("/ui/login") })
		return
	}
	if !v.p.o.Verified(v.r.Context()) {
		v.w.Header().Set("Connection", "close")
	}
	v.space = v.p.browsers.spaceOf(v.browser)
	if space.Exists(v.p.o.FS, v.p.o.Home, v.space) != nil { // it was removed
		v.space = space.Main
	}
	leave, ok := v.p.o.Enter()
	if !ok {
		v.fail(&errtable.Error{HTTP: http.StatusServiceUnavailable, Message: "the gateway is busy", Fix: "load the page again in a second"})
		return
	}
	defer leave()
	if v.r.Method == http.MethodPost {
		if err := v.checkForm(); err != nil {
			v.fail(err)
			return
		}
	}
	v.run(f)
}

// checkForm checks the token of a form, and uses the space of its page.
func (v *visit) checkForm() error {
	if err := v.parse(); err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(v.r.PostForm.Get("token")), []byte(v.browser.token)) != 1 {
		return &errtable.Error{HTTP: http.StatusForbidden, Message: "the form is of an earlier login", Fix: "load the page again, and repeat the change"}
	}
	if name := v.r.PostForm.Get("space"); name != "" {
		return v.use(name)
	}
	return nil
}

// parse reads the form of the request.
func (v *visit) parse() error {
	err := v.r.ParseForm()
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &errtable.Error{HTTP: http.StatusRequestEntityTooLarge, Message: "the form is too large", Fix: "shorten the text"}
	}
	if err != nil {
		return &errtable.Error{HTTP: http.StatusBadRequest, Message: "the form is not valid", Fix: "load the page again"}
	}
	return nil
}

// see redirects to another part of the page.
func (v *visit) see(path string) error {
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// static returns the handler of a file.
func static(kind string, content []byte) func(*visit) error {
	return func(v *visit) error {
		v.w.Header().Set("Content-Type", kind)
		_, _ = v.w.Write(content) // an error: the browser is gone
		return nil
	}
}

// view is what a template shows.
type view struct {
	Title string
	Nav   string // the part of the navigation that is current
	Data  any

	// Of the browser. Without a token, it is not logged in.
	Token, Space string // Space as people read it
	Spaces       []spaceLabel
}

// show sends a page.
func (v *visit) show(name string, status int, page view) error {
	if v.browser != nil {
		names, err := space.Names(v.p.o.FS, v.p.o.Home)
		if err != nil {
			return err
		}
		owners := v.p.o.Owners()
		page.Token = v.browser.token
		page.Space, _ = owners.Describe(v.space)
		for _, name := range names {
			label, owner := owners.Describe(name)
			page.Spaces = append(page.Spaces, spaceLabel{label, owner})
		}
	}
	var b bytes.Buffer
	if err := v.p.templates[name].ExecuteTemplate(&b, "layout", page); err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	v.w.WriteHeader(status)
	_, _ = v.w.Write(b.Bytes()) // an error: the browser is gone
	return nil
}

func notFound(message, fix string) error {
	return &errtable.Error{HTTP: http.StatusNotFound, Message: message, Fix: fix}
}

// fail sends the page of an error.
func (v *visit) fail(err error) {
	row := errtable.Find(err)
	status, message, fix := int(row.HTTP), err.Error(), row.Fix
	if c, ok := errors.AsType[*client.Error](err); ok {
		status, message = int(c.Code), c.Message
	}
	if errors.Is(err, crmem.ErrNotFound) {
		status = http.StatusNotFound
	}
	if _, ok := errors.AsType[*client.NoDaemonError](err); ok {
		status, message, fix = http.StatusServiceUnavailable, "no daemon answers", "run crabmem daemon start"
	}
	if status < 400 || status > 599 {
		status = http.StatusInternalServerError
	}
	if status >= 500 && !errors.Is(err, context.Canceled) {
		v.p.o.Log.Error("page failed", "path", v.r.URL.Path, "error", err)
	}
	problem := struct{ Status, Message, Fix string }{fmt.Sprint(status, " ", http.StatusText(status)), display.Printable(message), fix}
	if err := v.show("problem.html", status, view{Title: http.StatusText(status), Data: problem}); err != nil {
		v.p.o.Log.Error("page failed", "path", v.r.URL.Path, "error", err)
		http.Error(v.w, "the page failed: see the log of the gateway", http.StatusInternalServerError)
	}
}
