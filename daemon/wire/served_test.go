package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// deadlineConn records deadlines and what is written.
type deadlineConn struct {
	net.Conn
	out         []byte
	read, write time.Time
	closed      bool
	err         error // of deadlines and writes
}

func (c *deadlineConn) Read([]byte) (int, error) { return 0, io.EOF }
func (c *deadlineConn) Write(b []byte) (int, error) {
	c.out = append(c.out, b...)
	return len(b), c.err
}
func (c *deadlineConn) SetReadDeadline(t time.Time) error  { c.read = t; return c.err }
func (c *deadlineConn) SetWriteDeadline(t time.Time) error { c.write = t; return c.err }
func (c *deadlineConn) Close() error                       { c.closed = true; return nil }
func (c *deadlineConn) LocalAddr() net.Addr                { return &net.IPAddr{} }
func (c *deadlineConn) RemoteAddr() net.Addr               { return &net.IPAddr{} }

// servedConn returns an idle connection of a server.
func servedConn(s *Server, nc net.Conn) *served {
	c := &served{s: s, trusted: true}
	c.Conn = Conn{c: nc, in: make([]byte, smallFrame), max: MaxFrame, srv: c}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.state.Store(idle)
	return c
}

// errorOf returns the error in a frame.
func errorOf(t *testing.T, frame []byte) *pb.ErrorMsg {
	t.Helper()
	var m pb.ServerMessage
	if len(frame) < header || proto.Unmarshal(frame[header:], &m) != nil || m.GetError() == nil {
		t.Errorf("% X is no error", frame)
	}
	return m.GetError()
}

// TestPatient checks after which time-outs a write continues.
func TestPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{limits: Limits{Progress: time.Minute}.withDefaults()}
		for _, tt := range []struct {
			n                    int
			late, last, other    bool
			want, after, renewed bool
		}{
			{n: 0, want: true, after: true, renewed: true}, {n: 0, late: true, after: true}, {n: 0, last: true},
			{n: smallFrame - 1, late: true, after: true}, {n: smallFrame, late: true, want: true, after: true, renewed: true},
			{n: smallFrame, last: true, want: true, after: true, renewed: true}, {n: smallFrame + 1, late: true, last: true, want: true, after: true, renewed: true},
			{n: smallFrame, other: true}, {n: 0, late: true, other: true, after: true},
		} {
			nc := &deadlineConn{}
			c := servedConn(s, nc)
			c.late, c.farWell = tt.late, tt.last
			err := error(os.ErrDeadlineExceeded)
			if tt.other {
				err = syscall.EPIPE
			}
			got := c.patient(tt.n, err)
			if want := time.Now().Add(30 * time.Second); got != tt.want || c.late != tt.after || nc.write.Equal(want) != tt.renewed {
				t.Errorf("%+v: %v, late %v, deadline %v", tt, got, c.late, nc.write)
			}
			if c.wrote(); c.late {
				t.Error("late after a write")
			}
		}
		c := servedConn(s, &deadlineConn{err: net.ErrClosed})
		if c.patient(0, os.ErrDeadlineExceeded) {
			t.Error("patient without a deadline")
		}
		var none *served
		if none.patient(0, os.ErrDeadlineExceeded) {
			t.Error("a client is patient")
		}
	})
}

// TestPartWays bounds the time of the last write.
func TestPartWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for progress, want := range map[time.Duration]time.Duration{time.Minute: time.Second, time.Millisecond: time.Millisecond} {
			nc := &deadlineConn{}
			c := servedConn(&Server{limits: Limits{Progress: progress}.withDefaults()}, nc)
			if c.partWays(); !c.farWell || !nc.write.Equal(time.Now().Add(want)) {
				t.Errorf("%v: the last is written: %v, until %v", progress, c.farWell, nc.write)
			}
		}
	})
}

// TestGiveUp gives up connections in each state.
func TestGiveUp(t *testing.T) {
	for _, from := range []uint32{idle, busy, evicted, stopped} {
		for _, to := range []uint32{evicted, stopped} {
			nc := &deadlineConn{}
			c := servedConn(&Server{}, nc)
			c.state.Store(from)
			got := c.giveUp(to)
			if want := from == idle; got != want || (c.state.Load() == to) != (want || from == to) || (nc.read.IsZero() || nc.read.After(time.Now())) == want || (c.ctx.Err() != nil) != (want && to == stopped) {
				t.Errorf("from %d to %d: %v, now %d, deadline %v, %v", from, to, got, c.state.Load(), nc.read, c.ctx.Err())
			}
		}
	}
}

// TestEvictOrder evicts idle connections, the one with the oldest request first.
func TestEvictOrder(t *testing.T) {
	s := &Server{conns: map[*served]bool{}}
	var list []*served
	for i, state := range []uint32{idle, busy, idle, evicted, idle} {
		c := servedConn(s, &deadlineConn{})
		c.state.Store(state)
		c.seq.Store(uint64(10 - i))
		s.conns[c] = true
		list = append(list, c)
	}
	for _, want := range []int{4, 2, 0} {
		before := len(s.conns)
		s.evict()
		if list[want].state.Load() != evicted || s.conns[list[want]] || len(s.conns) != before-1 {
			t.Errorf("connection %d is in state %d, %d of %d are left", want, list[want].state.Load(), len(s.conns), before)
		}
	}
	if s.evict(); len(s.conns) != 2 || s.Conns() != 2 {
		t.Errorf("%d connections are left", s.Conns())
	}
}

// TestSetRead checks the deadline of reads, which the time to authenticate bounds.
func TestSetRead(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tt := range []struct{ authBy, set, want time.Time }{
		{time.Time{}, time.Time{}, time.Time{}}, {time.Time{}, now, now}, {now, time.Time{}, now}, {now, now.Add(1), now}, {now, now.Add(-1), now.Add(-1)}, {now, now, now},
	} {
		nc := &deadlineConn{}
		c := servedConn(&Server{}, nc)
		c.authBy = tt.authBy
		if err := c.setRead(tt.set); err != nil || !nc.read.Equal(tt.want) || c.timed != !tt.want.IsZero() {
			t.Errorf("%+v: %v, %v, timed %v", tt, err, nc.read, c.timed)
		}
	}
	for state, want := range map[uint32]error{idle: nil, busy: nil, evicted: errStopped, stopped: errStopped} {
		c := servedConn(&Server{}, &deadlineConn{})
		c.state.Store(state)
		if err := c.setRead(now); err != want {
			t.Errorf("state %d: %v", state, err)
		}
	}
	if err := servedConn(&Server{}, &deadlineConn{err: net.ErrClosed}).setRead(now); err != net.ErrClosed {
		t.Errorf("closed: %v", err)
	}
}

// TestRefusedConnections admits connections of unknown users without a token. Each
// gets the reason; the log has one line per second.
func TestRefusedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &Server{Log: slog.New(slog.NewTextHandler(&log, nil))}
		s.start.Do(s.init)
		for i, wait := range []time.Duration{0, time.Second / 2, time.Second / 2, 1, time.Second, 1} {
			time.Sleep(wait)
			log.Reset()
			nc := &deadlineConn{}
			s.admit(nc)
			e := errorOf(t, nc.out)
			if e.GetCode() != 401 || e.GetKind() != "refused" || !nc.closed || s.Conns() != 0 || !nc.write.Equal(time.Now().Add(time.Second)) {
				t.Errorf("%v until %v, closed %v, %d connections", e, nc.write, nc.closed, s.Conns())
			}
			lines := strings.Count(log.String(), "a connection was refused")
			if want := map[int]int{0: 1, 3: 1, 5: 1}[i]; lines != want {
				t.Errorf("connection %d: %d lines in the log, want %d: %s", i, lines, want, &log)
			}
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		// After Shutdown a connection is closed without a word.
		s.Token = "token"
		nc := &deadlineConn{}
		if s.admit(nc); !nc.closed || len(nc.out) != 0 || s.Conns() != 0 || !s.mu.TryLock() {
			t.Errorf("closed %v, % X", nc.closed, nc.out)
		}
	})
}

// TestReplies sends what can and what cannot be sent. After an error each reply
// returns it.
func TestReplies(t *testing.T) {
	large := &pb.ServerMessage{Msg: &pb.ServerMessage_Error{Error: &pb.ErrorMsg{Message: strings.Repeat("x", MaxFrame)}}}
	s := &Server{}
	s.start.Do(s.init)
	defer s.Shutdown(t.Context())
	for _, tt := range []struct {
		m      *pb.ServerMessage
		err    error
		kind   string
		broken bool
	}{{pong(), nil, "", false}, {large, nil, "too_large", false}, {pong(), syscall.EPIPE, "", true}} {
		nc := &deadlineConn{err: tt.err}
		c := servedConn(s, nc)
		c.req = &request{conn: t.Context()}
		err := c.reply(tt.m)
		if failed := tt.kind != "" || tt.broken; (err != nil) != failed || c.answered == failed || c.broken != tt.broken || (c.req.Err() != nil) != failed || c.over != err {
			t.Errorf("%v: answered %v, broken %v, over %v, %v", err, c.answered, c.broken, c.over, c.req.Err())
		}
		if tt.kind != "" {
			if e := errorOf(t, nc.out); e.GetKind() != tt.kind || e.GetCode() != 500 {
				t.Errorf("%v, want %s", e, tt.kind)
			}
		}
		sent := len(nc.out)
		if again := c.reply(pong()); err != nil && (again != err || len(nc.out) != sent) {
			t.Errorf("after %v: %v, %d bytes", err, again, len(nc.out)-sent)
		}
	}
	c := servedConn(s, &deadlineConn{err: syscall.EPIPE})
	if c.pong(); !c.broken {
		t.Error("a connection that takes no response is not broken")
	}
	if err := NewConn(&deadlineConn{}).Write(&descriptorpb.UninterpretedOption_NamePart{}); err == nil {
		t.Error("an incomplete message was sent")
	}
}

// TestReasons compares a connection's last message, by the error that ends it.
func TestReasons(t *testing.T) {
	large := &TooLargeError{Size: MaxFrame + 1, Max: MaxFrame}
	for _, tt := range []struct {
		state   uint32
		trusted bool
		err     error
		code    uint32
		kind    string
	}{
		{evicted, true, errStopped, 503, Evicted}, {busy, false, large, 401, "unauthorized"}, {busy, true, large, 400, "too_large"}, {busy, true, &fullError{}, 503, "busy"},
		{busy, false, os.ErrDeadlineExceeded, 401, "unauthorized"}, {busy, true, os.ErrDeadlineExceeded, 408, "timeout"}, {stopped, true, large, 0, ""}, {busy, true, ErrTruncated, 0, ""},
	} {
		nc := &deadlineConn{}
		c := servedConn(&Server{limits: Limits{}.withDefaults()}, nc)
		c.state.Store(tt.state)
		c.trusted = tt.trusted
		if c.sendReason(tt.err); tt.code == 0 && len(nc.out) > 0 {
			t.Errorf("%v in state %d: % X", tt.err, tt.state, nc.out)
		} else if tt.code != 0 {
			if e := errorOf(t, nc.out); e.GetCode() != tt.code || e.GetKind() != tt.kind {
				t.Errorf("%v in state %d: %v, want %d %s", tt.err, tt.state, e, tt.code, tt.kind)
			}
		}
	}
}

// TestBusyReply sends a response for which the server has no memory.
func TestBusyReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Limits: Limits{InFlight: MaxFrame}}
		s.start.Do(s.init)
		s.inFlight.TryAcquire(MaxFrame)
		nc := &deadlineConn{}
		c := servedConn(s, nc)
		c.req = &request{conn: t.Context()}
		if err := c.reply(response(strings.Repeat("x", 1<<20))); !errors.As(err, new(*fullError)) {
			t.Error(err)
		}
		if e := errorOf(t, nc.out); e.GetCode() != 503 || e.GetKind() != "busy" {
			t.Error(e)
		}
		s.inFlight.Release(MaxFrame)
		s.Shutdown(t.Context())
	})
}

// TestSome reads what has arrived. With memory reserved, it reads a full chunk.
func TestSome(t *testing.T) {
	for held, want := range map[int]int{0: 3, 9: 9} {
		c := servedConn(&Server{limits: Limits{}.withDefaults()}, &stoppedConn{&pieceConn{in: make([]byte, 9), piece: 3, err: io.EOF}})
		c.held = held
		if n, err := c.some(make([]byte, 9)); n != want || err != nil {
			t.Errorf("with %d bytes reserved: %d bytes read, %v, want %d", held, n, err, want)
		}
	}
}

// TestWatchedPeer buffers what arrives during a request.
func TestWatchedPeer(t *testing.T) {
	for _, read := range []int{0, 3} {
		nc := &pieceConn{in: []byte("next"), piece: 3, err: io.EOF}
		c := servedConn(&Server{}, nc)
		c.watchEnd = make(chan struct{}, 1)
		c.req = &request{conn: t.Context()}
		c.w = copy(c.in, "old12")
		c.r = read
		c.watchPeer()
		if got, want := string(c.in[c.r:c.w]), "old12"[read:]+"next"; got != want || c.r != 0 || !c.hungUp || c.req.Err() == nil || len(c.watchEnd) != 1 {
			t.Errorf("%q, want %q; from %d, hung up %v, %v", got, want, c.r, c.hungUp, c.req.Err())
		}
	}
	c := servedConn(&Server{}, &pieceConn{in: make([]byte, 2*smallFrame), piece: 999, err: io.EOF})
	c.watchEnd = make(chan struct{}, 1)
	c.req = &request{conn: t.Context()}
	if c.watchPeer(); c.w != smallFrame || c.hungUp || c.req.Err() != nil {
		t.Errorf("%d bytes are buffered, hung up %v", c.w, c.hungUp)
	}
	c = servedConn(&Server{}, &pieceConn{piece: 1, err: os.ErrDeadlineExceeded})
	c.watchEnd = make(chan struct{}, 1)
	c.req = &request{conn: t.Context()}
	if c.watchPeer(); c.hungUp || c.req.Err() != nil {
		t.Errorf("a deadline: hung up %v", c.hungUp)
	}
}

// TestTake takes places up to a limit.
func TestTake(t *testing.T) {
	s := &Server{}
	for i := range 5 {
		if got := take(&s.working, 3); got != (i < 3) || s.working.Load() != int64(min(i+1, 3)) {
			t.Errorf("place %d: %v, %d are taken", i, got, s.working.Load())
		}
	}
}

// TestDialErrors dials addresses without a listener.
func TestDialErrors(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		addr Addr
		is   error
		text string
	}{
		{Addr{Network: "unix", Address: filepath.Join(dir, "none")}, ErrNoListener, "none"}, {Addr{Network: "unix", Address: file}, ErrNoListener, "file"},
		{Addr{Network: "tcp", Address: closed}, ErrNoListener, closed}, {Addr{Network: "udp", Address: closed}, nil, "want unix or tcp"},
		{Addr{Network: "unix", Address: strings.Repeat("x", 300)}, syscall.ENAMETOOLONG, "300"}, {Addr{Network: "tcp", Address: "127.0.0.1:x"}, nil, "x"},
	} {
		c, err := Dial(t.Context(), tt.addr)
		if c != nil || err == nil || tt.is != nil && !errors.Is(err, tt.is) || tt.is == nil && errors.Is(err, ErrNoListener) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%v: %v, want %v with %q", tt.addr, err, tt.is, tt.text)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := Dial(ctx, Addr{Network: "unix", Address: filepath.Join(dir, "none")}); c != nil || err == nil {
		t.Errorf("canceled: %v", err)
	}
	if l, err := ListenUnix(vfs.OS{}, strings.Repeat("x", 300)); l != nil || !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("listen on a long path: %v", err)
	}
	if l, err := ListenUnix(vfs.OS{}, filepath.Join(file, "socket")); l != nil || err == nil {
		t.Errorf("listen under a file: %v", err)
	}
	if l, err := ListenTCP("127.0.0.1:x"); l != nil || err == nil {
		t.Errorf("listen on an invalid port: %v", err)
	}
	m := faultfs.NewMem() // the socket cannot be made: the directory exists only in memory
	for _, op := range []string{"mkdir", "lstat", "resolve", ""} {
		m.Hook = func(c faultfs.Call) error {
			if c.Op == op {
				return syscall.EIO
			}
			return nil
		}
		if l, err := ListenUnix(m, "/none-of-this-machine/socket"); l != nil || err == nil || op != "" && !errors.Is(err, syscall.EIO) {
			t.Errorf("listen, %s fails: %v, %v", op, l, err)
		}
	}
	if got := fmt.Sprint(Addr{Network: "tcp", Address: "a:1", Token: "secret"}); got != "tcp:a:1" {
		t.Errorf("%s", got)
	}
}

// TestFrameOfStopped reads the rest of a frame on a connection that was stopped.
func TestFrameOfStopped(t *testing.T) {
	for _, size := range []byte{0, 0xff} { // a small frame, a large one
		nc := &pieceConn{in: make([]byte, 3), piece: 3, err: io.EOF}
		c := servedConn(&Server{}, &stoppedConn{nc})
		c.w = copy(c.in, []byte{0, 0, size, 9})
		c.state.Store(stopped)
		if _, err := c.frame(); err != errStopped || len(nc.reads) != 0 {
			t.Errorf("frame of %d bytes: %v after %d reads", int(size)<<8|9, err, len(nc.reads))
		}
	}
	c := NewConn(&emptyConn{})
	if err := c.Read(pong()); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a read without bytes: %v", err)
	}
}

type stoppedConn struct{ *pieceConn }

func (*stoppedConn) SetReadDeadline(time.Time) error { return nil }

// emptyConn reads no bytes.
type emptyConn struct{ net.Conn }

func (*emptyConn) Read([]byte) (int, error) { return 0, nil }

// listener has an address, and accepts no connection.
type listener struct {
	addr   net.Addr
	closed bool
}

func (l *listener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (l *listener) Close() error              { l.closed = true; return nil }
func (l *listener) Addr() net.Addr            { return l.addr }

// TestServeCloses checks that Serve closes its listener, and forgets it.
func TestServeCloses(t *testing.T) {
	local, other := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
	for _, tt := range []struct {
		addr  net.Addr
		token string
		want  string
	}{{local, "", "closed"}, {other, "", "set a token"}, {other, "token", "closed"}} {
		s := &Server{Token: tt.token}
		l := &listener{addr: tt.addr}
		if err := s.Serve(l); err == nil || !strings.Contains(err.Error(), tt.want) || !l.closed || len(s.listeners) != 0 {
			t.Errorf("%v, token %q: %v, closed %v, %d listeners", tt.addr, tt.token, err, l.closed, len(s.listeners))
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		l = &listener{addr: local}
		if err := s.Serve(l); err != nil || !l.closed || !s.mu.TryLock() {
			t.Errorf("after Shutdown: %v, closed %v", err, l.closed)
		}
	}
}
