package wire

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/daemon/wire/pb"
)

const (
	// workWait is how long a request waits for others to end.
	workWait    = 500 * time.Millisecond
	maxFailures = 3 // to authenticate
)

// The states of a connection. Other goroutines change only the state of an idle
// one.
const (
	idle    = iota
	busy    // with a request
	evicted // to make room
	stopped // with the server
)

// The states of a request.
const (
	none    = iota
	running // by the goroutine of the connection alone
	watched // by a second one, too
)

// Evicted is the kind of the error that ends an evicted connection. The server
// did not read requests that were sent on it meanwhile.
const Evicted = "evicted"

// served is a connection of the server. One goroutine reads and writes it.
// While a request is being answered, a second goroutine watches for the end of
// the connection.
type served struct {
	Conn
	s       *Server
	peer    Peer
	ctx     context.Context
	cancel  context.CancelFunc
	state   atomic.Uint32
	seq     atomic.Uint64 // of its last request
	trusted bool
	failed  int       // to authenticate
	authBy  time.Time // zero: it is trusted
	timed   bool      // a deadline for reads is set
	late    bool      // a deadline for writes has passed without progress
	farWell bool      // the message being written is the last one

	// Of the request.
	phase    atomic.Uint32 // none, running, watched
	req      *request
	answered bool
	over     error         // why the rest of the response is not sent
	broken   bool          // the connection is unusable
	watchEnd chan struct{} // one for each request that was watched
	hungUp   bool
}

// giveUp evicts an idle connection and wakes its goroutine. It returns false if
// the connection is not idle.
func (c *served) giveUp(state uint32) bool {
	if !c.state.CompareAndSwap(idle, state) {
		return false
	}
	if state != evicted {
		c.cancel()
	}
	_ = c.c.SetReadDeadline(time.Now()) // a pending Read returns immediately
	return true
}

// lastLook limits the wait for a request that the peer of an evicted connection
// may have sent already.
const lastLook = time.Millisecond

// waiting reports whether the buffer contains a complete unread small request.
func (c *served) waiting() bool {
	if c.r < c.w || !c.trusted || c.c.SetReadDeadline(time.Now().Add(lastLook)) != nil || c.fill() != nil {
		return false
	}
	return int64(c.w) >= header+int64(binary.BigEndian.Uint32(c.in)) // the buffer was empty, so r is 0
}

// next reads the next request. It also accepts a received request if the
// connection is evicted: otherwise a peer that dials without end could block all
// requests.
func (c *served) next(m *pb.ClientMessage) error {
	if c.state.Load() != evicted {
		if err := c.Read(m); err == nil || c.state.Load() != evicted {
			return err
		}
	}
	if !c.waiting() {
		return errStopped
	}
	return c.Read(m)
}

// stay reverts the eviction of a connection for one request.
func (c *served) stay() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.draining.Load() || !c.state.CompareAndSwap(evicted, busy) {
		return false
	}
	c.s.conns[c] = true
	return true
}

func (c *served) serve() {
	if c.setRead(time.Time{}) != nil && c.state.Load() != evicted {
		c.sendReason(errStopped)
		return
	}
	for {
		m := new(pb.ClientMessage)
		err := c.next(m)
		var bad *CodecError
		if err != nil && !errors.As(err, &bad) {
			c.sendReason(err)
			return
		}
		last := false
		if !c.state.CompareAndSwap(idle, busy) {
			if last = c.stay(); !last {
				c.sendReason(errStopped)
				return
			}
		}
		switch {
		case bad != nil:
			c.fail(400, "invalid", bad.Error())
		case !c.trusted:
			c.authenticate(m)
		case m.Msg == nil:
			c.fail(400, "invalid", "empty client message")
		case m.GetAuth() != nil:
			c.pong()
		case !c.gather(m):
		default:
			c.work(m)
		}
		c.seq.Store(c.s.requests.Add(1))
		if c.hungUp || c.broken || c.failed >= maxFailures {
			return
		}
		if last {
			c.state.Store(evicted)
			c.sendReason(errStopped)
			return
		}
		c.state.Store(idle)
		if c.s.draining.Load() {
			return
		}
	}
}

// sendReason sends an error response before the connection closes, if the
// protocol allows one.
func (c *served) sendReason(err error) {
	var large *TooLargeError
	var full *fullError
	c.partWays()
	switch state := c.state.Load(); {
	case state == evicted:
		c.fail(503, Evicted, "connection evicted: too many connections, and this one was idle longest: connect again")
	case state == stopped:
	case errors.As(err, &large) && !c.trusted:
		c.fail(401, "unauthorized", "the first message must be the token")
	case errors.As(err, &large):
		c.fail(400, "too_large", large.Error())
	case errors.As(err, &full):
		c.fail(503, "busy", full.Error())
	case timedOut(err) && !c.trusted:
		c.fail(401, "unauthorized", "token timeout: send the token first")
	case timedOut(err):
		c.fail(408, "timeout", "read frame: timed out")
	}
}

// partWays writes the last message with a short time limit.
func (c *served) partWays() {
	c.farWell = true
	_ = c.timeWrite(min(c.s.limits.Progress, time.Second))
}

func timedOut(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// fail answers with an error.
func (c *served) fail(code uint32, kind, message string) {
	c.say(&pb.ServerMessage{Msg: &pb.ServerMessage_Error{Error: &pb.ErrorMsg{Code: code, Message: message, Kind: kind}}})
}

func (c *served) pong() {
	c.say(&pb.ServerMessage{Msg: &pb.ServerMessage_Pong{Pong: &pb.Pong{}}})
}

func (c *served) say(m *pb.ServerMessage) {
	if err := c.Write(m); err != nil {
		c.broken = true
	}
}

func (c *served) authenticate(m *pb.ClientMessage) {
	got, want := sha256.Sum256([]byte(m.GetAuth().GetToken())), sha256.Sum256([]byte(c.s.Token))
	switch {
	case m.GetAuth() == nil:
		c.failed++
		c.fail(401, "unauthorized", "the first message must be the token")
	case subtle.ConstantTimeCompare(got[:], want[:]) != 1:
		c.failed++
		c.fail(401, "unauthorized", "invalid token: use the token of the daemon's token_file")
	default:
		c.trusted, c.authBy, c.max = true, time.Time{}, MaxFrame
		if err := c.setRead(time.Time{}); err != nil {
			c.broken = true
			return
		}
		c.pong()
	}
}

// work has a request answered, in a place for it.
func (c *served) work(m *pb.ClientMessage) {
	follows := c.s.Waits != nil && c.s.Waits(m)
	c.req = &request{conn: c.ctx}
	if follows {
		if !c.occupy(&c.s.subscribed, c.s.limits.Conns, "too many concurrent subscribers: retry the request") {
			return
		}
		defer c.s.subscribed.Add(-1)
		defer context.AfterFunc(c.s.following, c.req.end)()
	} else {
		if !c.occupy(&c.s.working, c.s.limits.Working, "too many concurrent requests: retry the request") {
			return
		}
		defer c.s.leave(-1)
	}
	defer c.req.end()
	c.answered, c.over = false, nil
	c.phase.Store(running)
	c.s.watch.rouse()
	c.s.Handler(c.req, m, c.reply)
	if c.phase.Swap(none) == watched {
		_ = c.c.SetReadDeadline(time.Now())
		<-c.watchEnd
		_ = c.setRead(time.Time{})
	}
	if follows && c.s.following.Err() != nil {
		c.broken = true
	}
	if !c.answered && c.over == nil && !c.hungUp && !c.broken && c.ctx.Err() == nil {
		c.fail(500, "failed", "the handler sent no response")
	}
}

// watchPeer cancels the request when the peer disconnects. It buffers data that it
// receives, which is the next request, and stops when the buffer is full.
func (c *served) watchPeer() {
	defer func() { c.watchEnd <- struct{}{} }()
	c.r, c.w = 0, copy(c.in, c.in[c.r:c.w])
	for c.w < len(c.in) {
		n, err := c.c.Read(c.in[c.w:])
		c.w += n
		if err != nil && !timedOut(err) {
			c.hungUp = true
			c.req.end()
		}
		if err != nil {
			return
		}
	}
}

// reply is what a Handler sends with. An error that is sent in the place of
// what cannot be sent ends the answer.
func (c *served) reply(m *pb.ServerMessage) error {
	if c.over != nil {
		return c.over
	}
	err := c.Write(m)
	if err == nil {
		c.answered = true
		return nil
	}
	var large *TooLargeError
	var full *fullError
	var bad *CodecError
	switch {
	case errors.As(err, &large):
		c.fail(500, "too_large", large.Error())
	case errors.As(err, &full):
		c.fail(503, "busy", full.Error())
	case errors.As(err, &bad):
		c.fail(500, "failed", bad.Error())
	default:
		c.broken = true
	}
	c.over = err
	c.req.end()
	return err
}

// peerOf identifies the peer of an accepted connection.
func peerOf(nc net.Conn) Peer {
	p := Peer{Network: nc.LocalAddr().Network(), Addr: nc.RemoteAddr().String(), UID: -1}
	switch c := nc.(type) {
	case *net.UnixConn:
		p.UID = unixUID(c)
	case *net.TCPConn:
		local, remote := c.LocalAddr().(*net.TCPAddr), c.RemoteAddr().(*net.TCPAddr)
		if local.IP.IsLoopback() && remote.IP.IsLoopback() {
			p.UID = loopbackUID(local.AddrPort(), remote.AddrPort())
		}
	}
	return p
}

// request is the context of a request. Its channel is created on demand,
// because most requests never use it.
type request struct {
	conn  context.Context // of the connection
	mu    sync.Mutex
	inner context.Context // nil before its first use
	stop  context.CancelFunc
	ended bool
}

func (r *request) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.stop != nil {
		r.stop()
	}
}

func (r *request) context() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inner == nil {
		r.inner, r.stop = context.WithCancel(r.conn)
		if r.ended {
			r.stop()
		}
	}
	return r.inner
}

func (r *request) Done() <-chan struct{}       { return r.context().Done() }
func (r *request) Err() error                  { return r.context().Err() }
func (r *request) Value(key any) any           { return r.context().Value(key) }
func (r *request) Deadline() (time.Time, bool) { return r.conn.Deadline() }
