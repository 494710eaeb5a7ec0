package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/gateway/memstores"
	"crabmem/daemon/gateway/page"
	"crabmem/daemon/guard"
	"crabmem/daemon/trust"
)

const (
	maxOnceKey = 255 // bytes
	maxShown   = 80  // bytes of what a client sent, in a message
)

// call is a request that is permitted.
type call struct {
	w      http.ResponseWriter
	r      *http.Request
	g      *Gateway
	route  *route
	key    *Key    // nil: the route is open
	daemon *tenant // nil: the route is open
	query  url.Values
	once   string // Idempotency-Key
	body   []byte
}

// ServeHTTP answers a request. It checks, in this order: Host, Origin, the key, the path,
// the method, the type of the body, and its size.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	shared := g.share(h, r)
	switch {
	case !g.known.Host(r.Host):
		g.refuse(w, r, problemf(http.StatusForbidden, "host", "unknown Host").fix("use the address of the gateway, or add the name to allow_hosts in gateway.toml"))
	case shared && r.Method == http.MethodOptions:
		preflight(h, r)
		w.WriteHeader(http.StatusNoContent)
	case !shared && !g.known.Origins(r.Header):
		g.refuse(w, r, problemf(http.StatusForbidden, "origin", "request of another site").fix("send the request from a page of the gateway, or without a browser; [server] cors in gateway.toml lists other sites"))
	case r.URL.Path == "/" && r.Method == http.MethodGet:
		http.Redirect(w, r, page.Prefix, http.StatusSeeOther)
	case !clean(r.URL.Path):
		g.unrouted(w, r, noRoute())
	case g.o.Config.Gateway.SwaggerUI && strings.HasPrefix(r.URL.Path, swaggerPath):
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(responseTime))
		g.serveSwagger(w, r)
	case strings.HasPrefix(r.URL.Path, page.Prefix):
		g.servePage(w, r)
	default:
		g.mux.ServeHTTP(w, r)
	}
}

// servePage answers a request for the web page, for which keys have no meaning. Only a
// request of a logged-in browser takes a slot of a call.
func (g *Gateway) servePage(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(responseTime))
	g.page.ServeHTTP(w, r)
}

// refuse answers a request whose body is not read.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, p *Problem) {
	(&call{w: w, r: r, g: g}).refuse(p)
}

// refuse answers a request whose body is not read.
func (c *call) refuse(p *Problem) {
	c.g.refusals.Refuse(p.Status, p.Detail, c.r.RemoteAddr)
	p.close = true
	c.writeProblem(p)
}

// unrouted refuses a request without a route. The response to a client without a key
// does not depend on the path.
func (g *Gateway) unrouted(w http.ResponseWriter, r *http.Request, p *Problem) {
	c := &call{w: w, r: r, g: g}
	if key := c.authenticate(); key != nil {
		p = key
	}
	g.refuse(w, r, p)
}

// serve answers a request for a route.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, route *route) {
	counted, began := &countedWriter{ResponseWriter: w}, g.o.Now()
	defer func() { g.metrics.count(route, counted.status, g.o.Now().Sub(began)) }()
	w = counted
	c := &call{w: w, r: r, g: g, route: route}
	if p := c.admit(); p != nil {
		c.refuse(p)
		return
	}
	if !route.open && !guard.VerifyConn(r.Context()) {
		w.Header().Set("Connection", "close")
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(responseTime))
	if route.in == nil {
		c.received()
	} else {
		give, p := c.read()
		if p != nil {
			c.refuse(p)
			return
		}
		defer give()
	}
	if route.kind == streamKind || route.kind == socketKind {
		if _, err := route.run(c); err != nil {
			c.fail(err)
		}
		return
	}
	if route.waits {
		leave, err := c.enter()
		if err != nil {
			c.fail(err)
			return
		}
		defer leave()
	} else if !route.open { // a busy gateway is not dead: GET /health needs no slot
		leave, p := c.occupy(g.calls, "calls", 1)
		if p != nil {
			c.refuse(p)
			return
		}
		defer leave()
	}
	out, err := route.run(c)
	if err == errSent {
		return
	}
	if err != nil {
		c.fail(err)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(responseTime)) // after unlimited
	if route.out == nil {
		w.WriteHeader(route.status)
		return
	}
	writeJSON(w, route.status, jsonKind, out)
}

func busy(what string) *Problem {
	return problemf(http.StatusServiceUnavailable, "busy", "too many concurrent %s", what).fix("try again, or raise %s in gateway.toml", what).after(1)
}

// fail sends the problem of an error, and logs what the client does not receive.
func (c *call) fail(err error) {
	p := c.g.problem(err)
	if known := c.route.statuses(); !slices.Contains(known, p.Status) && p.Status != client.StatusCanceled {
		p = problemf(http.StatusInternalServerError, p.Kind, "the daemon could not do it").fix("the log of the gateway has the cause")
		p.hidden = err
	}
	if p.hidden != nil {
		c.g.o.Log.Error("request failed", "method", c.route.method, "path", c.route.path, "error", p.hidden)
	}
	c.writeProblem(p)
}

// writeProblem sends a problem in the style of the route.
func (c *call) writeProblem(p *Problem) {
	p.headers(c.w)
	style := ""
	if c.route != nil {
		style = c.route.style
	}
	switch style {
	case openaiStyle:
		writeJSON(c.w, p.Status, jsonKind, openaiErrorOf(p))
	case storeStyle:
		writeJSON(c.w, p.Status, jsonKind, memstores.RefusalOf(p.Status, p.Kind, p.Detail, p.Remedy))
	default:
		writeJSON(c.w, p.Status, problemKind, p)
	}
}

// unlimited removes the time limit of the response, for a run of an agent.
func (c *call) unlimited() { _ = http.NewResponseController(c.w).SetWriteDeadline(time.Time{}) }

// received removes the time limit of the body. Otherwise, the server would end a request
// that takes longer.
func (c *call) received() { _ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) }

// admit checks the request, except for its body.
func (c *call) admit() *Problem {
	if !c.route.open {
		if p := c.authenticate(); p != nil {
			return p
		}
	}
	var err error
	if c.query, err = url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return invalidf("the query of the URL is not valid")
	}
	if p := c.checkQuery(); p != nil {
		return p
	}
	h := c.r.Header
	if c.route.once {
		keys := h.Values("Idempotency-Key")
		if len(keys) > 1 || len(keys) == 1 && (keys[0] == "" || len(keys[0]) > maxOnceKey || !utf8.ValidString(keys[0])) {
			return invalidf("Idempotency-Key: want one value of 1 to %d bytes", maxOnceKey)
		}
		if len(keys) == 1 {
			c.once = keys[0]
		}
	}
	if c.route.match && len(h.Values("If-Match")) != 1 {
		return problemf(http.StatusPreconditionRequired, "no_precondition", "the header If-Match is missing").fix("read the entry, and send its etag in If-Match")
	}
	switch {
	case c.route.in == nil && (c.r.ContentLength > 0 || len(c.r.TransferEncoding) > 0):
		return invalidf("this request has no body")
	case c.route.in != nil && !guard.JSONBody(h):
		return problemf(http.StatusUnsupportedMediaType, "media_type", "the body is not JSON").fix("set Content-Type to application/json")
	case h.Get("Content-Encoding") != "":
		return problemf(http.StatusUnsupportedMediaType, "media_type", "the body is encoded").fix("send the body without Content-Encoding")
	case c.r.ContentLength > c.limit():
		return c.tooLarge()
	}
	if c.route.big { // the daemon refuses the call, too, but after the body
		if level, err := c.trust(); err == nil && level == trust.Untrusted {
			return problemf(http.StatusForbidden, "scope", "an untrusted key may not change the memory").fix("ask the owner of this machine, who sets trust in [origins] of config.toml")
		}
	}
	return nil
}

// printable returns a text for a message, without control characters, and not long.
func printable(s string) string { return display.Short(s, maxShown) }
