package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"crabmem/daemon/wire/pb"

	"golang.org/x/sync/semaphore"
)

// A Handler answers one request. Its ctx ends when the peer hangs up and when
// the server stops hard. send sends a part of the answer; it blocks while the
// peer is slow, for Limits.Progress at most, and after its first error the
// request is over. It must not be called after the Handler has returned, nor
// twice at a time.
//
// A peer that closes only its sending side has hung up, too.
type Handler func(ctx context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error)

// Peer is who is at the other end.
type Peer struct {
	Network string // unix or tcp
	Addr    string
	UID     int // -1: not known
}

// Server answers requests on any number of listeners: of each connection one
// at a time, in order. It must be shut down.
//
// Over a Unix socket and over loopback TCP the peer must be a process of the
// same user, or of root. Where that cannot be known it must begin with the
// token.
type Server struct {
	Handler Handler
	Limits  Limits
	Token   string // if empty, no token authenticates
	// Trust says whether a peer of the same user may do without the token. nil:
	// every one may.
	Trust func(Peer) bool
	// Waits reports whether a request waits for other requests, such as one for their
	// events. It takes no place of theirs. nil: none waits.
	Waits func(*pb.ClientMessage) bool
	Log   *slog.Logger

	start    sync.Once
	limits   Limits
	log      *slog.Logger
	base     context.Context // of all requests
	cut      context.CancelFunc
	inFlight *semaphore.Weighted
	requests atomic.Uint64 // counts them: which of two is older
	refused  atomic.Int64  // when a refusal was logged last
	watch    watch

	working, subscribed, gathering atomic.Int64 // places that are taken

	following context.Context // of the requests that wait for others
	unfollow  context.CancelFunc

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*served]bool
	draining  atomic.Bool // set under mu
	all       sync.WaitGroup
}

func (s *Server) init() {
	s.limits = s.Limits.withDefaults()
	s.log = s.Log
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.base, s.cut = context.WithCancel(context.Background())
	s.following, s.unfollow = context.WithCancel(s.base)
	s.inFlight = semaphore.NewWeighted(s.limits.InFlight)
	s.listeners = make(map[net.Listener]struct{})
	s.conns = make(map[*served]bool)
	s.watch.wake = make(chan struct{}, 1)
	s.watch.end.Go(s.watchAll)
}

// Serve accepts connections until Shutdown, and returns nil then. It closes
// the listener.
func (s *Server) Serve(l net.Listener) error {
	s.start.Do(s.init)
	defer l.Close()
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && s.Token == "" {
		return fmt.Errorf("listen on %s: other machines could connect: set a token, or listen on 127.0.0.1", a)
	}
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		return nil
	}
	s.listeners[l] = struct{}{}
	s.all.Add(1)
	s.mu.Unlock()
	defer s.all.Done()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	var wait time.Duration
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			wait = 0
			s.admit(nc)
			continue
		case s.draining.Load():
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			s.mu.Lock()
			s.evict()
			s.mu.Unlock()
		}
		wait = min(max(2*wait, 5*time.Millisecond), time.Second)
		s.log.Warn("cannot accept connections", "address", l.Addr().String(), "error", err, "again_in", wait)
		select {
		case <-time.After(wait):
		case <-s.base.Done():
		}
	}
}

// admit starts to serve a connection, or refuses it.
func (s *Server) admit(nc net.Conn) {
	p := peerOf(nc)
	c := &served{s: s, peer: p, trusted: p.UID >= 0 && (s.Trust == nil || s.Trust(p)), watchEnd: make(chan struct{}, 1)}
	c.Conn = Conn{c: nc, in: make([]byte, smallFrame), max: MaxFrame, srv: c}
	c.seq.Store(s.requests.Add(1))
	why := ""
	switch {
	case p.UID >= 0 && !mayUse(p.UID):
		why = fmt.Sprintf("authenticate: this daemon accepts only user %d and root, but you are user %d", ownUID(), p.UID)
	case !c.trusted && s.Token == "":
		why = "authenticate: this connection does not identify the user, and the daemon has no token: set token_file in [tcp] of config.toml, or connect to the socket"
	case !c.trusted:
		c.max = smallFrame
		c.authBy = time.Now().Add(s.limits.Header)
	}
	if why != "" {
		now, last := time.Now().UnixNano(), s.refused.Load()
		if now-last > int64(time.Second) && s.refused.CompareAndSwap(last, now) {
			s.log.Warn("a connection was refused", "network", p.Network, "address", p.Addr, "uid", p.UID)
		}
		c.partWays()
		c.fail(401, "refused", why)
		nc.Close()
		return
	}
	_ = c.timeWrite(s.limits.Progress / 2)
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		nc.Close()
		return
	}
	if len(s.conns) >= s.limits.Conns {
		s.evict()
	}
	c.ctx, c.cancel = context.WithCancel(s.base)
	s.conns[c] = true
	s.all.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.all.Done()
		c.serve()
		c.cancel()
		nc.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}

// evict gives up the connection that is longest without a request. s.mu is
// held.
func (s *Server) evict() {
	for {
		var oldest *served
		for c := range s.conns {
			if c.state.Load() == idle && (oldest == nil || c.seq.Load() < oldest.seq.Load()) {
				oldest = c
			}
		}
		if oldest == nil {
			return
		}
		if oldest.giveUp(evicted) {
			delete(s.conns, oldest)
			return
		}
	}
}

// take takes one of a number of places. It does not wait.
func take(taken *atomic.Int64, limit int) bool {
	if taken.Add(1) <= int64(limit) {
		return true
	}
	taken.Add(-1)
	return false
}

// Conns returns how many connections there are.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// leave adds n to the number of requests that work. If the server shuts down and no other
// request works, it ends those that wait for others.
func (s *Server) leave(n int64) {
	if s.working.Add(n) == 0 && s.draining.Load() {
		s.unfollow()
	}
}

// Shutdown accepts nothing more and waits for the requests that are being
// answered. When ctx ends it cuts them off, waits for their handlers, and
// returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.start.Do(s.init)
	s.mu.Lock()
	s.draining.Store(true)
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		c.giveUp(stopped)
	}
	s.mu.Unlock()
	s.leave(0)
	drained := make(chan struct{})
	go func() {
		s.all.Wait()
		close(drained)
	}()
	var err error
	select {
	case <-drained:
	case <-ctx.Done():
		err = context.Cause(ctx)
		s.mu.Lock()
		for c := range s.conns {
			c.c.Close()
		}
		s.mu.Unlock()
		s.cut()
		<-drained
	}
	s.cut()
	s.watch.end.Wait()
	return err
}
