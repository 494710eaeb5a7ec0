package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"crabmem/daemon/wire"

	"golang.org/x/net/netutil"
)

// Limits of the metrics server.
const (
	metricsConns = 16
	metricsTime  = 10 * time.Second
)

// serveMetrics serves /metrics on a loopback address until ctx ends.
func (d *Daemon) serveMetrics(ctx context.Context, l net.Listener, server *wire.Server) error {
	s := &http.Server{
		Handler: d.metricsHandler(server), ReadHeaderTimeout: metricsTime, ReadTimeout: metricsTime, WriteTimeout: metricsTime, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	d.log.Info("metrics", "address", "http://"+l.Addr().String()+"/metrics")
	if err := s.Serve(netutil.LimitListener(l, metricsConns)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// metricsHandler serves programs on this machine. It refuses web pages, also those
// that resolve their own host name to a loopback address.
func (d *Daemon) metricsHandler(server *wire.Server) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if !localHost(r.Host) || r.Header.Get("Origin") != "" {
			http.Error(w, "this is for programs of this machine: Host must be a loopback address", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Write(d.metricsText(server)) //nolint:errcheck // the client disconnected
	})
	return mux
}

// localHost reports whether a Host header names this machine by its loopback.
func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || host == "localhost"
}
