package guard

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// gate is a listener that never delays a new connection. A connection is
// unverified until verify is called for one of its requests. If unverified
// connections exceed their limit, Accept closes the oldest.
type gate struct {
	net.Listener
	maxUnverified int
	maxVerified   int
	evicted       func() // called after each eviction, without a lock

	mu         sync.Mutex
	unverified []*gated        // oldest first
	verified   map[*gated]bool // whether to keep it after its response
}

// NewGate returns a listener with a limit for unverified connections, and one
// for the verified connections that it keeps. It calls evicted after each eviction.
func NewGate(l net.Listener, maxUnverified, maxVerified int, evicted func()) net.Listener {
	return &gate{Listener: l, maxUnverified: maxUnverified, maxVerified: maxVerified, evicted: evicted, verified: make(map[*gated]bool)}
}

// Serve serves l until ctx ends. Then it calls ending, unless that is nil, and waits for the
// requests, at most for a time. It closes l.
func Serve(ctx context.Context, s *http.Server, l net.Listener, wait time.Duration, ending func()) error {
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	if ending != nil {
		ending()
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	if s.Shutdown(end) != nil {
		_ = s.Close()
	}
	<-served
	return nil
}

// Accept returns the next connection.
func (g *gate) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &gated{Conn: conn, gate: g}
	var oldest *gated
	g.mu.Lock()
	g.unverified = append(g.unverified, c)
	if len(g.unverified) > g.maxUnverified {
		oldest = g.unverified[0]
		g.unverified = slices.Delete(g.unverified, 0, 1)
	}
	g.mu.Unlock()
	if oldest != nil {
		_ = oldest.Conn.Close()
		g.evicted()
	}
	return c, nil
}

// verify exempts a connection from eviction. It reports false if the gate had
// maxVerified other connections: this one must end with its response.
func (g *gate) verify(c *gated) (keep bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.unverified, c); i >= 0 {
		g.unverified = slices.Delete(g.unverified, i, i+1)
		g.verified[c] = len(g.verified) < g.maxVerified
	}
	return g.verified[c]
}

func (g *gate) remove(c *gated) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.verified, c)
	if i := slices.Index(g.unverified, c); i >= 0 {
		g.unverified = slices.Delete(g.unverified, i, i+1)
	}
}

// gated is a connection of a gate.
type gated struct {
	net.Conn
	gate *gate
}

// Close removes the connection from its gate and closes it.
func (c *gated) Close() error {
	c.gate.remove(c)
	return c.Conn.Close()
}

type connKey struct{}

// ConnContext stores a connection for VerifyConn. It is an
// [http.Server.ConnContext].
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// VerifyConn verifies the connection of a request. Without a gate it keeps all.
func VerifyConn(ctx context.Context) (keep bool) {
	c, ok := ctx.Value(connKey{}).(*gated)
	return !ok || c.gate.verify(c)
}
