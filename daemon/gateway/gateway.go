// Package gateway serves a daemon over HTTP: its memory, its sessions, and its agents. A
// gateway is a client of the daemon. It opens no store and no session file.
//
// [Gateway.Serve] listens, [Config] is its configuration, and [Keys] the keys of its
// clients. A table of routes determines what the server accepts, and the OpenAPI
// document that describes it.
package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/errtable"
	"crabmem/daemon/gateway/chats"
	"crabmem/daemon/gateway/page"
	"crabmem/daemon/guard"
	"crabmem/daemon/session"
	"crabmem/daemon/space"
	"crabmem/daemon/wire"
)

// Options are the options of [New].
type Options struct {
	FS      vfs.FS
	Home    string // contains the files of Config and Keys
	Config  Config
	Daemon  wire.Addr // zero: the daemon of this user's home
	Log     *slog.Logger
	Version string // of this program
	Now     func() time.Time
}

// Gateway is an HTTP server. It is safe for concurrent use.
type Gateway struct {
	o        Options
	keys     *keyring
	clients  *clients
	pinger   *client.Client
	mux      *http.ServeMux
	page     *page.Page
	known    guard.Hosts
	refusals *guard.RefusalLog
	routes   []route
	runs     *session.Detached
	hooks    hooks
	chats    *chats.Table
	metrics  metrics
	began    time.Time
	calls    *room
	readers  *room // calls whose body arrives
	memory   *room // bytes of bodies
	streams  slots
	document []byte      // OpenAPI
	tls      *tls.Config // nil: plain HTTP
	homes    []string

	ending     context.Context // ends when the server begins to stop
	end        context.CancelFunc
	background sync.WaitGroup // WebSocket connections, and messages of webhooks
}

// New returns a gateway. Close releases its connections to the daemon.
func New(o Options) (*Gateway, error) {
	g := &Gateway{
		o: o, keys: &keyring{fs: o.FS, home: o.Home}, clients: &clients{addr: o.Daemon, limits: &o.Config.Limits, byID: make(map[string]*tenant)},
		pinger: &client.Client{Addr: o.Daemon}, refusals: &guard.RefusalLog{Log: o.Log},
		calls: newRoom(int64(o.Config.Limits.Calls)), readers: newRoom(int64(o.Config.Limits.Calls)), memory: newRoom(bodyMemory), streams: newSlots(o.Config.Limits.Streams),
	}
	g.began, g.routes = o.Now(), o.Config.routes()
	g.ending, g.end = context.WithCancel(context.Background())
	g.runs = session.NewDetached(g.ending, o.Now)
	g.homes = []string{o.Home}
	if real, err := o.FS.Resolve(o.Home); err == nil {
		g.homes = append(g.homes, real)
	}
	var err, cerr error
	if g.tls, err = o.Config.Server.tls(o.FS, o.Home); err != nil {
		return nil, err
	}
	if g.document, err = openAPI(g.routes); err != nil {
		return nil, err
	}
	g.mux = g.newMux()
	g.page, err = page.New(page.Options{FS: o.FS, Home: o.Home, Daemon: o.Daemon, Log: o.Log, Version: o.Version, Now: o.Now, Verified: guard.VerifyConn, Runs: g.runs, Owners: g.owners,
		Enter: func() (func(), bool) {
			owner := party{key: "page"} // no identity of a key: those begin with api:
			ok, _ := g.calls.take(owner, 1)
			return func() { g.calls.give(owner, 1) }, ok
		}})
	if err == nil {
		g.openHooks()
	}
	if g.chats, cerr = chats.Open(o.FS, filepath.Join(o.Home, "run", "chats.jsonl")); cerr != nil {
		o.Log.Warn("read the sessions of conversations: they continue in other sessions", "error", cerr)
	}
	return g, err
}

// owners returns the names of the keys.
func (g *Gateway) owners() *space.Owners { return Owners(g.o.FS, g.o.Home) }

// Close ends streams and runs, and closes the connections to the daemon.
func (g *Gateway) Close() {
	g.end()
	g.background.Wait()
	g.runs.Wait()
	g.clients.close()
	g.page.Close()
	_ = g.pinger.Close()
	if err := g.chats.Close(); err != nil {
		g.o.Log.Warn("write the sessions of conversations", "error", err)
	}
	g.refusals.Flush()
}

// The limits of a connection.
const (
	headerTime   = 10 * time.Second
	bodyTime     = time.Minute
	responseTime = 5 * time.Minute
	idleTime     = 2 * time.Minute
	maxHeaders   = 32 << 10
	unverified   = 64 // connections that have not sent a key
	shutdownTime = 5 * time.Second
)

// Listen listens on the address of the configuration. It refuses an address that other
// machines can reach if the configuration names no host for them.
func (c *Server) Listen() (net.Listener, error) {
	if !guard.Loopback(c.Host) && len(c.AllowHosts) == 0 {
		return nil, &errtable.Error{Kind: "config", Exit: errtable.ExitUsage, Message: fmt.Sprintf("host %q: other machines can reach this address, and allow_hosts is empty", c.Host),
			Fix: "listen on 127.0.0.1, or set allow_hosts in gateway.toml to the names that clients use"}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(c.Host, strconv.Itoa(c.Port)))
	if err != nil {
		return nil, &errtable.Error{Kind: "listen", Exit: errtable.ExitFailure, Message: err.Error(), Fix: "use another port, or 0 for a free one", Err: err}
	}
	return l, nil
}

// Serve answers requests until ctx ends, and then ends the streams and waits for the
// other requests, at most five seconds. It closes l.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	g.known = guard.NewHosts(host, port, g.o.Config.Server.AllowHosts)
	s := &http.Server{
		Handler: g, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaders,
		ConnContext: guard.ConnContext, ErrorLog: slog.NewLogLogger(g.o.Log.Handler(), slog.LevelWarn),
	}
	l = guard.NewGate(l, unverified, g.o.Config.Limits.Connections, g.refusals.Evict)
	scheme := "http://"
	if g.tls != nil {
		scheme, l = "https://", tls.NewListener(l, g.tls)
	}
	g.o.Log.Info("listening", "url", scheme+l.Addr().String())
	if g.tls == nil && !guard.Loopback(host) {
		g.o.Log.Warn("other machines can reach this address, and it has no TLS: they can read keys in transit", "address", l.Addr().String())
	}
	return guard.Serve(ctx, s, l, shutdownTime, g.end)
}

// slots limits the number of concurrent holders.
type slots chan struct{}

func newSlots(n int) slots { return make(slots, n) }

// take takes a slot, and returns false if all are taken.
func (s slots) take() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) give() { <-s }
