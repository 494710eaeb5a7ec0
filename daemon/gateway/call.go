package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"crabmem/daemon/display"
	"crabmem/daemon/guard"
)

// The limits of a body.
const (
	maxBody     = 1 << 20
	maxBigBody  = 9 << 20
	maxDepth    = 64
	maxOnceKey  = 255
	keyWait     = 200 * time.Millisecond // before a wrong key is refused
	defaultSize = 1024
	maxShown    = 80 // bytes of what a client sent, in a message
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
}

// ServeHTTP answers a request. It checks, in this order: Host, Origin, the key, the path,
// the method, the type of the body, and its size.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	switch {
	case !g.known.Host(r.Host):
		g.refuse(w, r, problemf(http.StatusForbidden, "host", "unknown Host").fix("use the address of the gateway, or add the name to allow_hosts in gateway.toml"))
	case !g.known.Origins(r.Header):
		g.refuse(w, r, problemf(http.StatusForbidden, "origin", "request of another site").fix("send the request from a page of the gateway, or without a browser"))
	case !clean(r.URL.Path):
		g.unrouted(w, r, noRoute())
	default:
		g.mux.ServeHTTP(w, r)
	}
}

// refuse answers a request whose body is not read.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, p *Problem) {
	(&call{w: w, r: r, g: g}).refuse(p)
}

// refuse answers a request whose body is not read.
func (c *call) refuse(p *Problem) {
	c.g.refusals.Refuse(p.Status, p.Detail, c.r.RemoteAddr)
	p.close = true
	c.refusal(p)
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
	counted := &countedWriter{ResponseWriter: w}
	c := &call{w: counted, r: r, g: g, route: route}
	defer g.metrics.count(route, counted, g.o.Now(), g.o.Now)
	w = counted
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
	}
	if route.kind == streamKind || route.kind == socketKind {
		if _, err := route.run(c); err != nil {
			c.fail(err)
		}
		return
	}
	if !route.open { // GET /health tells a supervisor that the gateway is busy, not dead
		if !g.calls.take() {
			c.refuse(busy("calls"))
			return
		}
		defer g.calls.give()
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
	if text, ok := out.(string); ok && route.kind == textKind {
		writeText(w, text)
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
	if known := c.route.statuses(); !slices.Contains(known, p.Status) && p.Status != statusClosed {
		p = problemf(http.StatusInternalServerError, p.Kind, "the daemon could not do it").fix("the log of the gateway has the cause")
		p.hidden = err
	}
	if p.hidden != nil {
		c.g.o.Log.Error("request failed", "method", c.route.method, "path", c.route.path, "error", p.hidden)
	}
	c.refusal(p)
}

// refusal sends a refusal in the style of the route.
func (c *call) refusal(p *Problem) {
	p.headers(c.w)
	if c.route != nil && c.route.style == openaiStyle {
		writeJSON(c.w, p.Status, jsonKind, openaiErrorOf(p))
		return
	}
	writeJSON(c.w, p.Status, problemKind, p)
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
	return nil
}

func (c *call) limit() int64 {
	if c.route.big {
		return maxBigBody
	}
	return maxBody
}

func (c *call) tooLarge() *Problem {
	return problemf(http.StatusRequestEntityTooLarge, "too_large", "the body is larger than %d bytes", c.limit())
}

// authenticate finds the key of the request, and takes a token of its rate.
func (c *call) authenticate() *Problem {
	for name := range c.r.URL.Query() {
		switch strings.ToLower(name) {
		case "key", "api_key", "apikey", "token", "access_token":
			return invalidf("a URL must not contain a key: it is in logs and histories").fix("send the header Authorization: Bearer KEY, and replace the key")
		}
	}
	text, p := keyOf(c.r.Header)
	if p != nil {
		return p
	}
	if p := c.identify(text); p != nil {
		return p
	}
	return c.spend()
}

// identify sets the key of the request to the one with a text.
func (c *call) identify(text string) *Problem {
	k, err := c.g.keys.find(text)
	if err != nil {
		c.g.o.Log.Error("read keys", "error", err)
		return problemf(http.StatusServiceUnavailable, "keys", "the keys cannot be read").fix("the log of the gateway has the cause").after(1)
	}
	if k == nil {
		select {
		case <-time.After(keyWait):
		case <-c.r.Context().Done():
		}
		return problemf(http.StatusUnauthorized, "key", "unknown key").fix("run crabmem gateway key add NAME on the machine of the gateway")
	}
	if k.Expired(c.g.o.Now()) {
		return problemf(http.StatusUnauthorized, "expired", "the key has expired").fix("run crabmem gateway key add NAME on the machine of the gateway")
	}
	c.key, c.daemon = k, c.g.clients.of(k.Identity())
	return nil
}

// spend takes a token of the rate of the key.
func (c *call) spend() *Problem {
	if r := c.daemon.limiter.ReserveN(c.g.o.Now(), 1); r.DelayFrom(c.g.o.Now()) > 0 {
		wait := r.DelayFrom(c.g.o.Now())
		r.CancelAt(c.g.o.Now())
		return problemf(http.StatusTooManyRequests, "rate", "too many requests with this key").fix("send at most %v requests per second", c.g.o.Config.Limits.Rate).after(1 + int(wait/time.Second))
	}
	return nil
}

// keyOf returns the key of a request: exactly one, in one header.
func keyOf(h http.Header) (string, *Problem) {
	bearer, plain := h.Values("Authorization"), h.Values("X-Api-Key")
	missing := problemf(http.StatusUnauthorized, "no_key", "the request needs exactly one key").fix("send the header Authorization: Bearer KEY, or X-Api-Key: KEY")
	switch {
	case len(bearer)+len(plain) != 1:
		return "", missing
	case len(plain) == 1:
		return plain[0], nil
	}
	scheme, text, _ := strings.Cut(bearer[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", missing
	}
	return strings.TrimSpace(text), nil
}

// checkQuery checks the parameters of the query against the route.
func (c *call) checkQuery() *Problem {
	known := make(map[string]*param)
	for i := range c.route.query {
		known[c.route.query[i].name] = &c.route.query[i]
	}
	for name, values := range c.query {
		p := known[name]
		switch {
		case p == nil:
			return invalidf("unknown parameter %q", printable(name))
		case len(values) != 1:
			return invalidf("the parameter %s occurs %d times", name, len(values))
		}
		if err := p.check(values[0]); err != nil {
			return invalidf("the parameter %s: %v", name, err)
		}
	}
	return nil
}

func (p *param) check(value string) error {
	size := p.size
	if size == 0 {
		size = defaultSize
	}
	switch {
	case !utf8.ValidString(value) || len(value) > size:
		return fmt.Errorf("want UTF-8 of at most %d bytes", size)
	case p.kind == "integer":
		if n, err := strconv.ParseUint(value, 10, 53); err != nil || p.most > 0 && n > uint64(p.most) {
			return errors.New("want " + p.wants())
		}
	case p.kind == "boolean" && value != "true" && value != "false":
		return errors.New("want true or false")
	case len(p.words) > 0:
		for _, w := range p.words {
			if value == w {
				return nil
			}
		}
		return errors.New("want " + strings.Join(p.words, " or "))
	}
	return nil
}

func (p *param) wants() string {
	if p.most > 0 {
		return fmt.Sprintf("a number from 0 to %d", p.most)
	}
	return "a number below 2^53"
}

// text returns a parameter, which the route declares.
func (c *call) text(name string) string { return c.query.Get(name) }

func (c *call) flag(name string) bool { return c.query.Get(name) == "true" }

// number returns a parameter, or absent if the request has none.
func (c *call) number(name string, absent uint64) uint64 {
	if n, err := strconv.ParseUint(c.query.Get(name), 10, 53); err == nil {
		return n
	}
	return absent
}

// decode reads the body.
func (c *call) decode(to any) error {
	b, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.limit()))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return c.tooLarge()
	}
	if err != nil {
		return invalidf("the body could not be read")
	}
	c.received()
	if err := checkJSON(b); err != nil {
		return invalidf("the body is not valid: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return invalidf("the body is not valid: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// checkJSON returns an error for a text that is not one object, is nested too deep, or
// has a key twice, which programs read in different ways.
func checkJSON(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("want UTF-8")
	}
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '{' {
		return errors.New("want a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var open []map[string]bool // the keys of open objects; nil for an array
	key := false               // the next string is a key
	for {
		t, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "json: "))
		}
		switch v := t.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				if len(open) == maxDepth {
					return fmt.Errorf("nested more than %d deep", maxDepth)
				}
				var keys map[string]bool
				if v == '{' {
					keys = make(map[string]bool)
				}
				open = append(open, keys)
			} else {
				open = open[:len(open)-1]
			}
			if len(open) == 0 && d.More() {
				return errors.New("want one JSON object")
			}
		case string:
			if key {
				folded := strings.ToLower(v) // as encoding/json compares keys
				if open[len(open)-1][folded] {
					return fmt.Errorf("the key %q occurs twice", printable(v))
				}
				open[len(open)-1][folded] = true
				key = false
				continue
			}
		}
		key = len(open) > 0 && open[len(open)-1] != nil
	}
}

// printable returns a text for a message, without control characters, and not long.
func printable(s string) string {
	s = display.Printable(strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	return s
}
