// Package client talks to the daemon. The zero [Client] finds the one of this
// user:
//
//	var c client.Client
//	defer c.Close()
//	e, err := op.ReadEntry(ctx, &c, op.EntryName{Name: "deploy"})
//
// A Client carries out the operations of package op, and has methods for the others. The
// errors of operations on a store are errors of crmem. [OpenStore] opens a store without
// regard to whether a daemon has it open.
package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// watchEvery is the time between two calls of Client.Watch.
const watchEvery = time.Second

// WatchLimit is how often in a row Client.Watch must fail to end a request.
const WatchLimit = 5

// maxIdle is how many connections are kept between requests.
const maxIdle = 4

// Client is a client of one daemon. It is safe for concurrent use: every
// request that is going on has a connection of its own.
type Client struct {
	// Addr is where the daemon listens. Zero: CRABMEM_SOCKET, or the socket of this user's home.
	Addr wire.Addr
	// Watch, if set, is called every watchEvery while a request waits. After
	// WatchLimit errors in a row the request ends with the last one.
	Watch func() error
	// Header describes each request. [WithOnce] sets Once.
	op.Header
	// Warn, if set, receives the daemon's warnings about the texts of a change.
	Warn func(message string)

	agreed atomic.Bool // on the version of the additional operations

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

// localAddr returns where the daemon of this user listens: CRABMEM_SOCKET, or
// daemon.sock in CRABTALK_HOME, or in ~/.crabtalk. On Windows it is the port in
// run/crabtalk.port of the home, with the token in run/crabtalk.token.
func localAddr() (wire.Addr, error) {
	if path := os.Getenv("CRABMEM_SOCKET"); path != "" {
		return wire.Addr{Network: "unix", Address: path}, nil
	}
	home := os.Getenv("CRABTALK_HOME")
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return wire.Addr{}, fmt.Errorf("no home directory: %w; set CRABTALK_HOME", err)
		}
		home = filepath.Join(user, ".crabtalk")
	}
	if runtime.GOOS == "windows" {
		return localPort(filepath.Join(home, "run"))
	}
	return wire.Addr{Network: "unix", Address: filepath.Join(home, "daemon.sock")}, nil
}

// localPort reads where a daemon without a socket listens.
func localPort(run string) (wire.Addr, error) {
	var line [2]string
	for i, name := range []string{"crabtalk.port", "crabtalk.token"} {
		name = filepath.Join(run, name)
		b, err := vfs.ReadFile(vfs.OS{}, name, 1<<10)
		if errors.Is(err, fs.ErrNotExist) {
			return wire.Addr{}, &NoDaemonError{Addr: wire.Addr{Network: "tcp", Address: name}, err: err}
		} else if err != nil {
			return wire.Addr{}, err
		}
		line[i] = strings.TrimSpace(string(b))
	}
	if _, err := strconv.ParseUint(line[0], 10, 16); err != nil {
		return wire.Addr{}, fmt.Errorf("read port from %s: %w", filepath.Join(run, "crabtalk.port"), err)
	}
	return wire.Addr{Network: "tcp", Address: net.JoinHostPort("127.0.0.1", line[0]), Token: line[1]}, nil
}

// Close closes the connections that no request uses. Requests after it fail.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conn := range c.idle {
		conn.Close()
	}
	c.idle = nil
	return nil
}

// take returns a connection that waits for a request.
func (c *Client) take(ctx context.Context) (*conn, error) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return nil, errors.New("the client is closed")
		}
		n := len(c.idle)
		if n == 0 {
			c.mu.Unlock()
			return c.dial(ctx)
		}
		conn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		if conn.Fresh() {
			return conn, nil
		}
		conn.Close()
	}
}

// give takes a connection back whose answer has ended.
func (c *Client) give(conn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) == maxIdle {
		conn.Close()
		return
	}
	c.idle = append(c.idle, conn)
}

func (c *Client) dial(ctx context.Context) (*conn, error) {
	a := c.Addr
	if a.Network == "" {
		var err error
		if a, err = localAddr(); err != nil {
			return nil, err
		}
	}
	w, err := wire.Dial(ctx, a)
	if errors.Is(err, wire.ErrNoListener) {
		return nil, &NoDaemonError{Addr: a, err: err}
	}
	if err != nil {
		return nil, err
	}
	return &conn{w}, nil
}

// requestStream sends a request and returns the messages of the response, up to
// and including the last one. An error ends the iteration; an error that the
// daemon reports is an *Error. Breaking out of the loop closes the connection.
func (c *Client) requestStream(ctx context.Context, m *pb.ClientMessage, last func(*pb.ServerMessage) bool) iter.Seq2[*pb.ServerMessage, error] {
	return func(yield func(*pb.ServerMessage, error) bool) {
		for try := 1; c.exchange(ctx, m, last, yield, try < evictions); try++ {
		}
	}
}

// evictions is how many connections of one request may have had to make room
// for others.
const evictions = 5

// exchange sends a request on a connection, and yields its answer. It reports
// whether to do it again: the daemon had given the connection up before it saw
// the request.
func (c *Client) exchange(ctx context.Context, m *pb.ClientMessage, last func(*pb.ServerMessage) bool, yield func(*pb.ServerMessage, error) bool, may bool) (again bool) {
	ctx, done := c.watched(ctx)
	defer done()
	conn, err := c.take(ctx)
	if err != nil {
		yield(nil, because(ctx, err))
		return false
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	ended := false
	defer func() {
		if stop() && ended {
			c.give(conn)
		} else {
			conn.Close()
		}
	}()
	if err := conn.send(m); err != nil {
		if e, ok := errors.AsType[*Error](err); may && ok && e.Kind == wire.Evicted {
			return true
		}
		yield(nil, because(ctx, err))
		return false
	}
	for answered := false; ; {
		r := new(pb.ServerMessage)
		err := conn.Read(r)
		switch {
		case err != nil:
			yield(nil, because(ctx, err))
			return false
		case may && !answered && r.GetError().GetKind() == wire.Evicted:
			return true
		}
		answered = true
		for _, w := range r.GetResult().GetWarnings() {
			if c.Warn != nil {
				c.Warn(w)
			}
		}
		if err := reported(m, r); err != nil {
			ended = true
			yield(nil, err)
			return false
		}
		ended = last(r)
		if !yield(r, nil) || ended {
			return false
		}
	}
}

// watched returns a context that ends when Watch says so, and a function that
// ends the watch.
func (c *Client) watched(ctx context.Context) (context.Context, func()) {
	if c.Watch == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with ctx
		t := time.NewTicker(watchEvery)
		defer t.Stop()
		for failed := 0; failed < WatchLimit; {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			if err := c.Watch(); err == nil {
				failed = 0
			} else if failed++; failed == WatchLimit {
				cancel(err)
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// because returns why a call failed: for one that was cancelled that, and not
// what came of it.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
