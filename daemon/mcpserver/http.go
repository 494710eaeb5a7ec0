package mcpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"crabmem/daemon/errtable"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// httpLimits bounds what clients of the HTTP server occupy.
type httpLimits struct {
	header, body, response, idle time.Duration
	calls                        int // at one time
	conns                        int // that brought the token
	unverified                   int // connections that have not brought it yet
}

// defaultHTTPLimits returns the limits that the command uses. The time for a
// response includes the wait for the lock.
func defaultHTTPLimits() httpLimits {
	return httpLimits{
		header: 10 * time.Second, body: time.Minute, response: 5 * time.Minute, idle: 2 * time.Minute,
		calls: 64, conns: 256, unverified: 64,
	}
}

const (
	shutdownWait   = 1500 * time.Millisecond
	maxHTTPHeaders = 32 << 10
)

const mcpPath = "/mcp"

// HTTPOptions configure ServeHTTP.
type HTTPOptions struct {
	Address string // host and port
	// Token is the value of CRABMEM_TOKEN. It is used if TokenFile is empty.
	Token string
	// TokenFile contains the token. If it is missing and no other machine can reach
	// Address, ServeHTTP creates it.
	TokenFile  string
	AllowHosts []string // further names in the header Host
}

// ServeHTTP listens until ctx ends.
func (s *Server) ServeHTTP(ctx context.Context, o HTTPOptions) error {
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return &errtable.Error{Exit: errtable.ExitUsage, Kind: "usage", Message: fmt.Sprintf("--http %q: want an address and a port, such as 127.0.0.1:7433", o.Address)}
	}
	token, from, err := o.token(s.o.FS, loopback(host))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.Address)
	if err != nil {
		return &errtable.Error{Exit: errtable.ExitFailure, Kind: "listen", Message: err.Error(), Fix: "use another port, or 0 for a free one", Err: err}
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	server, gate := s.httpServer(l, newBearer(token), newHosts(host, port, o.AllowHosts), defaultHTTPLimits())
	if !loopback(host) {
		s.o.Log.Warn("other machines can reach this address, and it has no TLS: they can read the token in transit", "address", l.Addr().String())
	}
	s.o.Log.Info("listening", "url", "http://"+l.Addr().String()+mcpPath, "token", from, "store", s.o.Path)
	served := make(chan error, 1)
	go func() { served <- server.Serve(gate) }()
	defer s.refusals.flush()
	select {
	case err = <-served:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
	defer cancel()
	if server.Shutdown(end) != nil {
		_ = server.Close()
	}
	<-served
	return nil
}

// httpServer returns a server and the listener that it must serve.
func (s *Server) httpServer(l net.Listener, token bearer, known hosts, limits httpLimits) (*http.Server, net.Listener) {
	return &http.Server{
		Handler:           s.httpHandler(token, known, limits.calls),
		ReadHeaderTimeout: limits.header, ReadTimeout: limits.body, WriteTimeout: limits.response, IdleTimeout: limits.idle,
		MaxHeaderBytes: maxHTTPHeaders,
		ConnContext:    connContext,
		ErrorLog:       slog.NewLogLogger(s.o.Log.Handler(), slog.LevelWarn),
	}, newConnGate(l, limits.unverified, limits.conns, s.refusals.evict)
}

// httpHandler serves requests that name this server and carry the token. Every
// other request gets the same response, whatever its path.
func (s *Server) httpHandler(token bearer, known hosts, maxCalls int) http.Handler {
	protocol := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.sdk }, &mcp.StreamableHTTPOptions{
		// Without state there is no session to hijack, and the server sends
		// nothing but responses.
		Stateless: true, JSONResponse: true,
		Logger:              slog.New(atLeastWarn{s.o.Log.Handler()}),
		MaxRequestBodyBytes: maxMessage,
		// known checks the Host header as strictly, and permits further names.
		DisableLocalhostProtection: true,
	})
	calls := make(chan struct{}, maxCalls)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		refuse := func(code int, why string) {
			s.refusals.refuse(code, why, r.RemoteAddr)
			// Do not read the rest of the request: the connection ends.
			w.Header().Set("Connection", "close")
			http.Error(w, why, code)
		}
		if code, why := refusalOf(r, token, known); code != 0 {
			if code == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="crabmem"`)
			}
			refuse(code, why)
			return
		}
		if !verifyConn(r.Context()) {
			w.Header().Set("Connection", "close")
		}
		switch {
		case r.URL.Path != mcpPath:
			refuse(http.StatusNotFound, "unknown path: use "+mcpPath)
		case r.Method == http.MethodPost && !jsonBody(r.Header):
			refuse(http.StatusUnsupportedMediaType, "set Content-Type to application/json")
		case r.Header.Get("Content-Encoding") != "":
			refuse(http.StatusUnsupportedMediaType, "send the body without Content-Encoding")
		default:
			select {
			case calls <- struct{}{}:
				defer func() { <-calls }()
				protocol.ServeHTTP(w, r)
			default:
				w.Header().Set("Retry-After", "1")
				refuse(http.StatusServiceUnavailable, "too many concurrent calls: retry the request")
			}
		}
	})
}

// refusalOf returns the status and the reason to refuse a request that is not for
// this server or lacks the token, or 0.
func refusalOf(r *http.Request, token bearer, known hosts) (code int, why string) {
	switch {
	case !known.host(r.Host):
		return http.StatusForbidden, "unknown Host: use the server's address, or allow the name with --allow-host"
	case !known.origins(r.Header):
		return http.StatusForbidden, "cross-site request: use an Origin of this server, or allow its name with --allow-host"
	case len(r.Header.Values("Authorization")) != 1 || !token.allows(r.Header.Get("Authorization")):
		return http.StatusUnauthorized, "missing or wrong bearer token: use CRABMEM_TOKEN of the server, or the content of its token file"
	}
	return 0, ""
}

// jsonBody reports whether the only Content-Type is JSON. Browsers send it to
// another site only after a preflight request.
func jsonBody(h http.Header) bool {
	types := h.Values("Content-Type")
	if len(types) != 1 {
		return false
	}
	media, _, _ := strings.Cut(types[0], ";")
	return strings.EqualFold(strings.TrimSpace(media), "application/json")
}

// loopback reports whether only this machine can reach an address.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// hosts contains the names of this server, in lower case.
type hosts struct {
	port    string
	own     []string
	allowed []string // names of a proxy, with any port
}

func newHosts(bound, port string, allowed []string) hosts {
	h := hosts{port: port, own: []string{"localhost", "127.0.0.1", "::1"}}
	if ip := net.ParseIP(bound); bound != "" && (ip == nil || !ip.IsUnspecified()) {
		h.own = append(h.own, strings.ToLower(bound))
	}
	for _, name := range allowed {
		h.allowed = append(h.allowed, strings.ToLower(strings.Trim(name, "[]")))
	}
	return h
}

// host reports whether a Host header contains one of the names and the server's
// port.
func (h hosts) host(header string) bool {
	name, port, err := net.SplitHostPort(header)
	if err != nil {
		name, port = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]"), "80"
	}
	name = strings.ToLower(name)
	return slices.Contains(h.own, name) && port == h.port || slices.Contains(h.allowed, name)
}

// origins reports whether Origin and Sec-Fetch-Site, if set, name this server.
func (h hosts) origins(header http.Header) bool {
	for _, o := range header.Values("Origin") {
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !h.host(u.Host) {
			return false
		}
	}
	site := header.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin" || site == "none"
}
