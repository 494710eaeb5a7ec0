package mcpserver

import (
	"context"
	"net"
	"slices"
	"sync"
)

// connGate is a listener that never delays a new connection. A connection is
// unverified until verify is called for one of its requests. If unverified
// connections exceed their limit, Accept closes the oldest.
type connGate struct {
	net.Listener
	maxUnverified int
	maxVerified   int
	evicted       func() // called after each eviction, without a lock

	mu         sync.Mutex
	unverified []*gatedConn        // oldest first
	verified   map[*gatedConn]bool // whether to keep it after its response
}

// newConnGate returns a listener with a limit for unverified connections, and one
// for the verified connections that it keeps. It calls evicted after each eviction.
func newConnGate(l net.Listener, maxUnverified, maxVerified int, evicted func()) net.Listener {
	return &connGate{Listener: l, maxUnverified: maxUnverified, maxVerified: maxVerified, evicted: evicted, verified: make(map[*gatedConn]bool)}
}

// Accept returns the next connection.
func (g *connGate) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &gatedConn{Conn: conn, gate: g}
	var oldest *gatedConn
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
func (g *connGate) verify(c *gatedConn) (keep bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.unverified, c); i >= 0 {
		g.unverified = slices.Delete(g.unverified, i, i+1)
		g.verified[c] = len(g.verified) < g.maxVerified
	}
	return g.verified[c]
}

func (g *connGate) remove(c *gatedConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.verified, c)
	if i := slices.Index(g.unverified, c); i >= 0 {
		g.unverified = slices.Delete(g.unverified, i, i+1)
	}
}

// gatedConn is a connection of a connGate.
type gatedConn struct {
	net.Conn
	gate *connGate
}

// Close removes the connection from its gate and closes it.
func (c *gatedConn) Close() error {
	c.gate.remove(c)
	return c.Conn.Close()
}

type gatedConnKey struct{}

// connContext stores a connection for verifyConn. It is an
// [http.Server.ConnContext].
func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, gatedConnKey{}, c)
}

// verifyConn verifies the connection of a request. Without a gate it keeps all.
func verifyConn(ctx context.Context) (keep bool) {
	c, ok := ctx.Value(gatedConnKey{}).(*gatedConn)
	return !ok || c.gate.verify(c)
}
