package mcpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"crabmem/daemon/errtable"
	"crabmem/daemon/guard"

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
	token, from, err := o.token(s.o.FS, guard.Loopback(host))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.Address)
	if err != nil {
		return &errtable.Error{Exit: errtable.ExitFailure, Kind: "listen", Message: err.Error(), Fix: "use another port, or 0 for a free one", Err: err}
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	server, gate := s.httpServer(l, newBearer(token), guard.NewHosts(host, port, o.AllowHosts), defaultHTTPLimits())
	if !guard.Loopback(host) {
		s.o.Log.Warn("other machines can reach this address, and it has no TLS: they can read the token in transit", "address", l.Addr().String())
	}
	s.o.Log.Info("listening", "url", "http://"+l.Addr().String()+mcpPath, "token", from, "store", s.o.Path)
	defer s.refusals.Flush()
	return guard.Serve(ctx, server, gate, shutdownWait, nil)
}

// httpServer returns a server and the listener that it must serve.
func (s *Server) httpServer(l net.Listener, token bearer, known guard.Hosts, limits httpLimits) (*http.Server, net.Listener) {
	return &http.Server{
		Handler:           s.httpHandler(token, known, limits.calls),
		ReadHeaderTimeout: limits.header, ReadTimeout: limits.body, WriteTimeout: limits.response, IdleTimeout: limits.idle,
		MaxHeaderBytes: maxHTTPHeaders,
		ConnContext:    guard.ConnContext,
		ErrorLog:       slog.NewLogLogger(s.o.Log.Handler(), slog.LevelWarn),
	}, guard.NewGate(l, limits.unverified, limits.conns, s.refusals.Evict)
}

// httpHandler serves requests that name this server and carry the token. Every
// other request gets the same response, whatever its path.
func (s *Server) httpHandler(token bearer, known guard.Hosts, maxCalls int) http.Handler {
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
		w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
		refuse := func(code int, why string) {
			s.refusals.Refuse(code, why, r.RemoteAddr)
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
		if !guard.VerifyConn(r.Context()) {
			w.Header().Set("Connection", "close")
		}
		switch {
		case strings.TrimSuffix(r.URL.Path, "/") != mcpPath:
			refuse(http.StatusNotFound, "unknown path: use "+mcpPath)
		case r.Method == http.MethodPost && !guard.JSONBody(r.Header):
			refuse(http.StatusUnsupportedMediaType, "set Content-Type to application/json")
		case r.Header.Get("Content-Encoding") != "":
			refuse(http.StatusUnsupportedMediaType, "send the body without Content-Encoding")
		default:
			select {
			case calls <- struct{}{}:
				defer func() { <-calls }()
				if r.Method == http.MethodPost {
					r.Body = withoutMark(r.Body)
					acceptResponse(r.Header)
				}
				protocol.ServeHTTP(w, r)
			default:
				w.Header().Set("Retry-After", "1")
				refuse(http.StatusServiceUnavailable, "too many concurrent calls: retry the request")
			}
		}
	})
}

// acceptResponse completes the header Accept of a client that accepts JSON, the only
// format of a response, or that names no format. The protocol's implementation requires two.
func acceptResponse(h http.Header) {
	accept := strings.ToLower(strings.Join(h.Values("Accept"), ","))
	if accept == "" || strings.Contains(accept, "application/json") || strings.Contains(accept, "application/*") {
		h.Set("Accept", "application/json, text/event-stream")
	}
}

// refusalOf returns the status and the reason to refuse a request that is not for
// this server or lacks the token, or 0.
func refusalOf(r *http.Request, token bearer, known guard.Hosts) (code int, why string) {
	switch {
	case !known.Host(r.Host):
		return http.StatusForbidden, "unknown Host: use the server's address, or allow the name with --allow-host"
	case !known.Origins(r.Header):
		return http.StatusForbidden, "cross-site request: use an Origin of this server, or allow its name with --allow-host"
	case len(r.Header.Values("Authorization")) != 1 || !token.allows(r.Header.Get("Authorization")):
		return http.StatusUnauthorized, "missing or wrong bearer token: use CRABMEM_TOKEN of the server, or the content of its token file"
	}
	return 0, ""
}
