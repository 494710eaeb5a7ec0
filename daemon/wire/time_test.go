package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
)

// pipes is a listener of connections in memory, for which time is a test's.
type pipes struct {
	conns chan net.Conn
	end   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.end:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.end:
	default:
		close(p.end)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// inTime runs f in a bubble with a server of pipes.
func inTime(t *testing.T, h Handler, f func(t *testing.T, dial func() net.Conn)) {
	inTimeOf(t, &Server{Handler: h, Token: "secret"}, f)
}

// inTimeOf is inTime with a given server.
func inTimeOf(t *testing.T, s *Server, f func(t *testing.T, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{make(chan net.Conn), make(chan struct{})}
		done := make(chan error, 1)
		go func() { done <- s.Serve(p) }()
		f(t, func() net.Conn {
			here, there := net.Pipe()
			p.conns <- there
			t.Cleanup(func() { here.Close() })
			return here
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = s.Shutdown(ctx)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func auth(token string) *pb.ClientMessage {
	return &pb.ClientMessage{Msg: &pb.ClientMessage_Auth{Auth: &pb.AuthMsg{Token: token}}}
}

// admitted returns a connection with its token shown.
func admitted(t *testing.T, nc net.Conn) *Conn {
	t.Helper()
	c := NewConn(nc)
	if m := ask(t, c, auth("secret")); m.GetPong() == nil {
		t.Fatalf("answer %v", m)
	}
	return c
}

func TestIdleHasNoTimeLimit(t *testing.T) {
	inTime(t, pinger, func(t *testing.T, dial func() net.Conn) {
		c := admitted(t, dial())
		for range 3 {
			time.Sleep(24 * time.Hour)
			ping(t, c)
		}
	})
}

// TestSlowHeader sends a header in four pieces: within 10 s of the first byte it
// is taken, and not later.
func TestSlowHeader(t *testing.T) {
	inTime(t, pinger, func(t *testing.T, dial func() net.Conn) {
		nc := dial()
		c := admitted(t, nc)
		pieces := func(gap time.Duration) (err error) {
			for _, b := range []byte{0, 0, 0, 2} {
				if _, err = nc.Write([]byte{b}); err != nil {
					return err
				}
				time.Sleep(gap)
			}
			_, err = nc.Write([]byte{0x1a, 0})
			return err
		}
		time.Sleep(time.Hour)
		for range 2 {
			if err := pieces(3 * time.Second); err != nil {
				t.Fatal(err)
			}
			if m := answer(t, c); m.GetPong() == nil {
				t.Fatalf("answer %v", m)
			}
		}
		start := time.Now()
		for range 2 { // the second byte makes it no better
			if _, err := nc.Write([]byte{0}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * time.Second)
		}
		wantError(t, answer(t, c), 408, "read frame: timed out")
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("after %v", d)
		}
		wantEnd(t, nc)
	})
}

// TestSlowPayload sends a payload a byte at a time.
func TestSlowPayload(t *testing.T) {
	inTime(t, pinger, func(t *testing.T, dial func() net.Conn) {
		for _, gap := range []time.Duration{time.Second, 29 * time.Second, 31 * time.Second} {
			nc := dial()
			c := admitted(t, nc)
			b := frameOf(t, sendMsg("a byte at a time"))
			if _, err := nc.Write(b[:5]); err != nil {
				t.Fatal(err)
			}
			go func() {
				for _, x := range b[5:] {
					time.Sleep(gap)
					if _, err := nc.Write([]byte{x}); err != nil {
						return
					}
				}
			}()
			if gap < 30*time.Second {
				if m := answer(t, c); m.GetResponse().GetContent() != "a byte at a time" {
					t.Fatalf("answer %v", m)
				}
				continue
			}
			wantError(t, answer(t, c), 408, "read frame: timed out")
			nc.Close()
			time.Sleep(time.Minute) // the writer has noticed
		}
	})
}

// TestSlowLongPayload holds memory that others want: a byte now and then does
// not keep it.
func TestSlowLongPayload(t *testing.T) {
	inTime(t, pinger, func(t *testing.T, dial func() net.Conn) {
		nc := dial()
		c := admitted(t, nc)
		if _, err := nc.Write(append([]byte{0, 0x10, 0, 0}, make([]byte, 100<<10)...)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		go func() {
			for {
				time.Sleep(5 * time.Second)
				if _, err := nc.Write([]byte{1}); err != nil {
					return
				}
			}
		}()
		wantError(t, answer(t, c), 408, "read frame: timed out")
		if d := time.Since(start); d != 30*time.Second {
			t.Errorf("after %v", d)
		}
		nc.Close()
		time.Sleep(time.Minute) // the writer has noticed
	})
}

// TestSteadyLongPayload is slow and does not stop.
func TestSteadyLongPayload(t *testing.T) {
	inTime(t, pinger, func(t *testing.T, dial func() net.Conn) {
		nc := dial()
		c := admitted(t, nc)
		want := strings.Repeat("x", 1<<20)
		b := frameOf(t, sendMsg(want))
		go func() {
			for ; len(b) > 0; b = b[min(len(b), 32<<10):] {
				if _, err := nc.Write(b[:min(len(b), 32<<10)]); err != nil {
					return
				}
				time.Sleep(9 * time.Second)
			}
		}()
		if got := answer(t, c).GetResponse().GetContent(); got != want {
			t.Errorf("answer of %d bytes", len(got))
		}
		time.Sleep(time.Minute) // the writer has ended
	})
}

// TestNeverReads subscribes and does not read.
func TestNeverReads(t *testing.T) {
	var took atomic.Int64
	inTime(t, func(ctx context.Context, _ *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		if err := send(response("first")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour) // no limit applies
		if err := send(response("second")); err != nil {
			t.Error(err)
		}
		start := time.Now()
		err := send(response("third"))
		if err == nil || ctx.Err() == nil {
			t.Errorf("send: %v, ctx %v", err, ctx.Err())
		}
		took.Store(int64(time.Since(start)))
	}, func(t *testing.T, dial func() net.Conn) {
		c := admitted(t, dial())
		if err := c.Write(sendMsg("x")); err != nil {
			t.Fatal(err)
		}
		answer(t, c)
		answer(t, c)
		time.Sleep(2 * time.Hour)
		if d := time.Duration(took.Load()); d < 15*time.Second || d > 30*time.Second {
			t.Errorf("the server waited %v", d)
		}
	})
}

// TestSlowReader takes a long answer bit by bit: as long as it does, it is
// waited for.
func TestSlowReader(t *testing.T) {
	inTime(t, func(_ context.Context, _ *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		if err := send(response(strings.Repeat("x", 1<<20))); err != nil {
			t.Error(err)
		}
	}, func(t *testing.T, dial func() net.Conn) {
		nc := dial()
		c := admitted(t, nc)
		if err := c.Write(sendMsg("x")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 16<<10)
		for n, all := 0, len(frameOf(t, response(strings.Repeat("x", 1<<20)))); n < all; {
			k, err := nc.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			n += k
			time.Sleep(5 * time.Second) // six minutes in all
		}
	})
}

// TestHangUpIsNoticed says how soon.
func TestHangUpIsNoticed(t *testing.T) {
	var ended atomic.Int64
	inTime(t, func(ctx context.Context, _ *pb.ClientMessage, _ func(*pb.ServerMessage) error) {
		sub, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		<-sub.Done()
		ended.Store(time.Now().UnixNano())
	}, func(t *testing.T, dial func() net.Conn) {
		for _, after := range []time.Duration{0, time.Minute} {
			nc := dial()
			c := admitted(t, nc)
			if err := c.Write(sendMsg("x")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(after)
			start := time.Now()
			nc.Close()
			time.Sleep(time.Second)
			if d := time.Duration(ended.Load() - start.UnixNano()); d < 0 || d > 2*watchAfter {
				t.Errorf("noticed after %v", d)
			}
		}
	})
}

func TestToken(t *testing.T) {
	inTime(t, pinger, func(t *testing.T, dial func() net.Conn) {
		nc := dial()
		c := NewConn(nc)
		wantError(t, ask(t, c, auth("secrets")), 401, "invalid token: use the token of the daemon's token_file")
		wantError(t, ask(t, c, sendMsg("x")), 401, "the first message must be the token")
		if m := ask(t, c, auth("secret")); m.GetPong() == nil {
			t.Fatalf("answer %v", m)
		}
		ping(t, c)
		if m := ask(t, c, auth("anything")); m.GetPong() == nil {
			t.Fatalf("a second token: %v", m)
		}

		nc = dial()
		c = NewConn(nc)
		for range 3 {
			wantError(t, ask(t, c, auth("")), 401, "invalid token: use the token of the daemon's token_file")
		}
		wantEnd(t, nc)

		nc = dial() // a long frame before the token
		go nc.Write(append([]byte{0, 0, 0x20, 0}, make([]byte, 1<<13)...))
		wantError(t, answer(t, NewConn(nc)), 401, "the first message must be the token")
		nc.Close()

		nc = dial() // a token that does not come
		start := time.Now()
		wantError(t, answer(t, NewConn(nc)), 401, "token timeout: send the token first")
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("after %v", d)
		}
		wantEnd(t, nc)
	})
}

// TestTokenDeadline sends bytes that never become a token. Neither a late first
// byte, nor a payload that keeps coming, nor a wrong token moves the deadline.
func TestTokenDeadline(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(net.Conn) error
	}{
		{"header", func(nc net.Conn) error {
			time.Sleep(9 * time.Second)
			_, err := nc.Write([]byte{0})
			return err
		}},
		{"payload", func(nc net.Conn) error {
			_, err := nc.Write([]byte{0, 0, 1, 0})
			for range 16 {
				time.Sleep(time.Second)
				_, _ = nc.Write([]byte{1}) // fails once the server closes
			}
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTime(t, pinger, func(t *testing.T, dial func() net.Conn) {
				nc := dial()
				start := time.Now()
				conn := NewConn(nc)
				wantError(t, ask(t, conn, auth("wrong")), 401, "invalid token: use the token of the daemon's token_file")
				wrote := make(chan error, 1)
				go func() { wrote <- c.write(nc) }()
				wantError(t, answer(t, conn), 401, "token timeout: send the token first")
				if d := time.Since(start); d != 10*time.Second {
					t.Errorf("the connection ended after %v, want 10s", d)
				}
				nc.Close()
				if err := <-wrote; err != nil {
					t.Errorf("write: %v", err)
				}
			})
		})
	}
}

// TestShortProgressBeforeToken gives a payload less time than the token has.
func TestShortProgressBeforeToken(t *testing.T) {
	s := &Server{Handler: pinger, Token: "secret", Limits: Limits{Progress: 2 * time.Second}}
	inTimeOf(t, s, func(t *testing.T, dial func() net.Conn) {
		nc := dial()
		start := time.Now()
		if _, err := nc.Write([]byte{0, 0, 1, 0}); err != nil {
			t.Fatal(err)
		}
		wantError(t, answer(t, NewConn(nc)), 401, "token timeout: send the token first")
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("the connection ended after %v, want 2s", d)
		}
		wantEnd(t, nc)
	})
}

// TestResponsesShareMemory lets a slow reader hold the memory of all long
// frames. A response of more than keepOut bytes is refused until the memory is
// free again; a shorter one needs none of it.
func TestResponsesShareMemory(t *testing.T) {
	overhead := proto.Size(response(strings.Repeat("x", keepOut))) - keepOut
	sized := func(n int) *pb.ServerMessage { // a frame of n bytes
		m := response(strings.Repeat("x", n-overhead))
		if got := proto.Size(m); got != n {
			t.Fatalf("a response of %d bytes, want %d", got, n)
		}
		return m
	}
	responses := map[string]*pb.ServerMessage{"long": response(strings.Repeat("x", MaxFrame-keepOut)), "short": sized(keepOut), "medium": sized(keepOut + 1)}
	s := &Server{Token: "secret", Limits: Limits{InFlight: MaxFrame}, Handler: func(_ context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		_ = send(responses[m.GetSend().GetContent()])
	}}
	inTimeOf(t, s, func(t *testing.T, dial func() net.Conn) {
		slow := dial()
		if err := admitted(t, slow).Write(sendMsg("long")); err != nil {
			t.Fatal(err)
		}
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			b := make([]byte, 16<<10)
			for {
				if _, err := slow.Read(b); err != nil {
					return
				}
				select {
				case <-stop:
					slow.Close()
					return
				case <-time.After(2 * time.Second):
				}
			}
		}()
		synctest.Wait()
		c := admitted(t, dial())
		if n := len(ask(t, c, sendMsg("short")).GetResponse().GetContent()); n != keepOut-overhead {
			t.Errorf("a short response of %d bytes", n)
		}
		start := time.Now()
		if m := ask(t, c, sendMsg("medium")); m.GetError().GetKind() != "busy" {
			t.Errorf("a response of %d bytes, and error %v, want busy", len(m.GetResponse().GetContent()), m.GetError())
		}
		if d := time.Since(start); d != 30*time.Second {
			t.Errorf("refused after %v, want 30s", d)
		}
		close(stop)
		<-done
		if n := len(ask(t, c, sendMsg("medium")).GetResponse().GetContent()); n != keepOut+1-overhead {
			t.Errorf("a response of %d bytes after the memory is free", n)
		}
	})
}

// TestClosedInside tells the ends of a connection apart.
func TestClosedInside(t *testing.T) {
	for s, want := range map[string]error{"": ErrClosed, "00": ErrClosed, "000000": ErrClosed, "00000001": ErrTruncated, "00000002 0A": ErrTruncated,
		"00010000 0A": ErrTruncated} {
		here, there := net.Pipe()
		b := unhex(t, s)
		go func() {
			if len(b) > 0 {
				_, _ = there.Write(b)
			}
			there.Close()
		}()
		if err := NewConn(here).Read(new(pb.ClientMessage)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", s, err, want)
		}
		here.Close()
	}
	here, there := net.Pipe()
	there.Close()
	if err := NewConn(here).Write(sendMsg("x")); !errors.Is(err, io.ErrClosedPipe) || !strings.HasPrefix(err.Error(), "io error: ") {
		t.Errorf("Write: %v", err)
	}
	here.Close()
}

// TestWatchRestsWhileIdle has no request for long enough that the watch stops
// its timer. A request after that is watched.
func TestWatchRestsWhileIdle(t *testing.T) {
	ended := make(chan struct{})
	s := &Server{Token: "secret", Handler: func(ctx context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		<-ctx.Done()
		close(ended)
	}}
	inTimeOf(t, s, func(t *testing.T, dial func() net.Conn) {
		nc := dial()
		c := admitted(t, nc)
		time.Sleep(2 * restAfter * watchAfter)
		synctest.Wait()
		if !s.watch.resting.Load() {
			t.Error("the watch does not rest on an idle server")
		}
		if err := c.Write(sendMsg("wait")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * watchAfter)
		synctest.Wait()
		if s.watch.resting.Load() {
			t.Error("the watch rests during a request")
		}
		nc.Close()
		<-ended
	})
}
