package mcpserver

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// drainTransport delays the end of the input until all calls have a response. The
// implementation of the protocol cancels calls when the input ends.
type drainTransport struct{ mcp.Transport }

func (t *drainTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &drainConn{Connection: c, asked: make(map[jsonrpc.ID]bool), idle: make(chan struct{}), closed: make(chan struct{})}, nil
}

const methodListen = "subscriptions/listen"

// drainTimeout limits the delay.
const drainTimeout = 30 * time.Second

type drainConn struct {
	mcp.Connection

	mu    sync.Mutex
	asked map[jsonrpc.ID]bool // calls without a response
	ended bool                // the input ended
	idle  chan struct{}       // closed when the input ended and every call has a response
	once  sync.Once

	closed chan struct{}
}

// Read returns the end of the input after every call has a response.
func (c *drainConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	// A subscription has no response until it ends.
	if r, ok := m.(*jsonrpc.Request); err == nil && ok && r.IsCall() && r.Method != methodListen {
		c.mu.Lock()
		c.asked[r.ID] = true
		c.mu.Unlock()
	}
	if !errors.Is(err, io.EOF) {
		return m, err
	}
	c.mu.Lock()
	c.ended = true
	if len(c.asked) == 0 {
		c.mu.Unlock()
		return m, err
	}
	c.mu.Unlock()
	select {
	case <-c.idle:
	case <-c.closed:
	case <-ctx.Done():
	case <-time.After(drainTimeout):
	}
	return m, err
}

func (c *drainConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asked, r.ID)
		if c.ended && len(c.asked) == 0 {
			c.once.Do(func() { close(c.idle) })
		}
	}
	return err
}

func (c *drainConn) Close() error {
	c.mu.Lock()
	select {
	case <-c.closed:
	default:
		close(c.closed)
	}
	c.mu.Unlock()
	return c.Connection.Close()
}
