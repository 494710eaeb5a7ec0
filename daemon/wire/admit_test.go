package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/wire/pb"
)

// TestTrust requires a token from each peer that Trust rejects.
func TestTrust(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		var peer atomic.Pointer[Peer]
		s := &Server{Handler: pinger, Token: "secret", Trust: func(p Peer) bool { peer.Store(&p); return trusted }}
		a := serve(t, s)
		c := dial(t, a)
		m := ask(t, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}})
		if peer.Load().UID < 0 {
			t.Skip("SKIPPED: the system does not report the user")
		}
		if p := peer.Load(); p.Network != "unix" || p.UID != ownUID() {
			t.Errorf("peer %+v", p)
		}
		if trusted {
			if m.GetPong() == nil {
				t.Errorf("trusted: %v", m)
			}
			continue
		}
		wantError(t, m, 401, "the first message must be the token")
		if m := ask(t, c, auth("secret")); m.GetPong() == nil {
			t.Errorf("after the token: %v", m)
		}
		ping(t, c)
	}
}

// TestAdmit admits connections of unknown users, who need a token.
func TestAdmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Token: "secret", Handler: pinger, Limits: Limits{Conns: 1}}
		s.start.Do(s.init)
		var list []*scriptConn
		for _, wait := range []time.Duration{3 * time.Second, 0} {
			nc := &scriptConn{start: time.Now(), in: []scriptStep{{bytes: frameOf(t, auth("secret")), do: func() { time.Sleep(wait) }}, {bytes: frameOf(t, auth("other")), do: func() { time.Sleep(time.Second) }}}}
			s.admit(nc)
			synctest.Wait() // the first one reads, the second one has its token
			list = append(list, nc)
			if s.Conns() != 1 {
				t.Errorf("%d connections", s.Conns())
			}
		}
		time.Sleep(5 * time.Second)
		if s.Conns() != 0 {
			t.Errorf("%d connections after the end", s.Conns())
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		want := "write deadline 15s\nread deadline 10s\nread 4096: 15\nread deadline 10s\nread deadline none\nwrite 6\n  pong\n" +
			"read 4096: 14\nwrite 6\n  pong\nread 4096: end\nwrite deadline 2s\nclose\n"
		if got := list[1].trace.String(); got != want {
			t.Errorf("the second connection:\n%s\nwant\n%s", got, want)
		}
		// The first is evicted before its token arrives, which is not accepted.
		if got := list[0].trace.String(); !strings.Contains(got, "error 503 evicted: ") || !strings.HasSuffix(got, "close\n") {
			t.Errorf("the first connection:\n%s", got)
		}
	})
}

// brokenListener returns errors, then connections, then blocks until Close.
type brokenListener struct {
	*pipes
	errs  []error
	times []time.Time
}

func (l *brokenListener) Accept() (net.Conn, error) {
	l.times = append(l.times, time.Now())
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		if err != nil {
			return nil, err
		}
		return &scriptConn{start: time.Now()}, nil
	}
	return l.pipes.Accept()
}

// TestAcceptErrors checks the pauses after errors of Accept, which connections it
// evicts, and the log.
func TestAcceptErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &Server{Token: "secret", Handler: pinger, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))}
		l := &brokenListener{pipes: &pipes{make(chan net.Conn), make(chan struct{})}}
		for range 9 {
			l.errs = append(l.errs, syscall.ECONNABORTED)
		}
		l.errs = append(l.errs, syscall.ECONNABORTED, nil, syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE)
		s.start.Do(s.init)
		var conns []*served
		for i := range 4 {
			c := servedConn(s, &deadlineConn{})
			c.seq.Store(uint64(i))
			s.mu.Lock()
			s.conns[c] = true
			s.mu.Unlock()
			conns = append(conns, c)
		}
		began := time.Now()
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		time.Sleep(time.Minute)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		var at []time.Duration
		for _, x := range l.times {
			at = append(at, x.Sub(began))
		}
		if want := "[0s 5ms 15ms 35ms 75ms 155ms 315ms 635ms 1.275s 2.275s 3.275s 3.275s 3.28s 3.29s 3.31s]"; fmt.Sprint(at) != want {
			t.Errorf("accepts at %v, want %s", at, want)
		}
		for i, c := range conns {
			if got, want := c.state.Load(), []uint32{evicted, evicted, stopped, stopped}[i]; got != want {
				t.Errorf("connection %d is in state %d, want %d", i, got, want)
			}
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if want := `level=WARN msg="cannot accept connections" address=memory error="` + syscall.ECONNABORTED.Error() + `" again_in=5ms`; lines[0] != want || len(lines) != 13 {
			t.Errorf("%d lines, the first %s\nwant %s", len(lines), lines[0], want)
		}
	})
}

// TestShutdownWaits checks that Shutdown returns only after its goroutines, and
// that the end of its context ends requests immediately.
func TestShutdownWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		s.start.Do(s.init)
		s.watch.end.Add(1)
		s.all.Add(1)
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(t.Context()) }()
		synctest.Wait()
		if len(done) > 0 || s.base.Err() != nil {
			t.Errorf("Shutdown does not wait for connections: %v", s.base.Err())
		}
		s.all.Done()
		synctest.Wait()
		if len(done) > 0 || s.base.Err() == nil {
			t.Errorf("Shutdown does not wait for the watcher: %v", s.base.Err())
		}
		s.watch.end.Done()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	// The watcher would notice the closed connection only later.
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 1)
		began := time.Now()
		s := &Server{Token: "secret", Handler: func(ctx context.Context, _ *pb.ClientMessage, _ func(*pb.ServerMessage) error) {
			<-ctx.Done()
			ended <- time.Since(began)
		}}
		s.start.Do(s.init)
		here, there := net.Pipe()
		defer here.Close()
		s.admit(there)
		c := admitted(t, here)
		if err := c.Write(sendMsg("wait")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(syscall.EINTR)
		if err := s.Shutdown(ctx); err != syscall.EINTR {
			t.Errorf("%v", err)
		}
		if d := <-ended; d != 0 {
			t.Errorf("the request ended after %v", d)
		}
	})
}

// TestShutdownEndsFollowers checks that a request that waits for others, such as one for
// events, ends with the last of them, and does not hold up Shutdown.
func TestShutdownEndsFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const run = time.Minute
		ended := make(chan time.Duration, 1)
		began := time.Now()
		s := &Server{Token: "secret", Waits: func(m *pb.ClientMessage) bool { return m.GetSubscribeEvents() != nil }}
		s.Handler = func(ctx context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
			if !s.Waits(m) {
				time.Sleep(run)
				_ = send(pong())
				return
			}
			<-ctx.Done()
			ended <- time.Since(began)
		}
		s.start.Do(s.init)
		for _, m := range []*pb.ClientMessage{{Msg: &pb.ClientMessage_SubscribeEvents{SubscribeEvents: &pb.SubscribeEvents{}}}, sendMsg("run")} {
			here, there := net.Pipe()
			defer here.Close()
			s.admit(there)
			if err := admitted(t, here).Write(m); err != nil {
				t.Fatal(err)
			}
			go io.Copy(io.Discard, here)
		}
		synctest.Wait()
		if err := s.Shutdown(t.Context()); err != nil || time.Since(began) != run {
			t.Errorf("stopped after %v, %v", time.Since(began), err)
		}
		if d := <-ended; d != run {
			t.Errorf("the follower ended after %v", d)
		}
	})
}

// TestEvictAdmitted evicts a connection with an old request before one without
// a request that was admitted later.
func TestEvictAdmitted(t *testing.T) {
	s := &Server{Token: "secret", Handler: pinger}
	inTimeOf(t, s, func(t *testing.T, dial func() net.Conn) {
		old := admitted(t, dial())
		synctest.Wait() // the server numbers a request after its response
		recent := dial()
		synctest.Wait()
		s.mu.Lock()
		s.evict()
		s.mu.Unlock()
		wantError(t, answer(t, old), 503, "connection evicted: too many connections, and this one was idle longest: connect again")
		ping(t, admitted(t, recent))
	})
}
