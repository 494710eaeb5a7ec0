package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
)

func frameOf(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func sendMsg(content string) *pb.ClientMessage {
	return &pb.ClientMessage{Msg: &pb.ClientMessage_Send{Send: &pb.SendMsg{Content: content}}}
}

func response(content string) *pb.ServerMessage {
	return &pb.ServerMessage{Msg: &pb.ServerMessage_Response{Response: &pb.SendResponse{Content: content}}}
}

// wantEnd reads the end of the connection.
func wantEnd(t testing.TB, nc net.Conn) {
	t.Helper()
	if n, err := nc.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
		t.Fatalf("read %d bytes, %v; want the end", n, err)
	}
}

// TestLargestFrame is row 1 of the interop checklist.
func TestLargestFrame(t *testing.T) {
	a := serve(t, &Server{Handler: func(ctx context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		if m.GetSend() == nil {
			pinger(ctx, m, send)
			return
		}
		_ = send(response(strconv.Itoa(len(m.GetSend().GetContent()))))
	}})
	// Two lengths of four bytes, each after one byte, precede and follow it.
	content := strings.Repeat("x", MaxFrame-10)
	b := frameOf(t, sendMsg(content))
	if len(b) != 4+16777216 {
		t.Fatalf("the frame has %d bytes", len(b))
	}
	nc := dialRaw(t, a)
	c := NewConn(nc)
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
	if got := answer(t, c).GetResponse().GetContent(); got != "16777206" {
		t.Errorf("%s bytes came", got)
	}
	ping(t, c)
	if _, err := nc.Write([]byte{1, 0, 0, 1}); err != nil {
		t.Fatal(err)
	}
	wantError(t, answer(t, c), 400, "frame too large: 16777217 bytes (max 16777216)")
	wantEnd(t, nc)

	c = dial(t, a)
	var large *TooLargeError
	if err := c.Write(sendMsg(content + "y")); !errors.As(err, &large) || large.Error() != "frame too large: 16777217 bytes (max 16777216)" {
		t.Errorf("Write: %v", err)
	}
	ping(t, c)
}

// TestEmptyMessage is row 2 of the interop checklist. An unknown request looks
// the same to a server.
func TestEmptyMessage(t *testing.T) {
	nc := dialRaw(t, serve(t, &Server{Handler: pinger}))
	c := NewConn(nc)
	for name, b := range map[string]string{"no bytes": "00000000", "unknown request": "00000003 9A06 00", "unknown varint": "00000003 A80F 01"} {
		if _, err := nc.Write(unhex(t, b)); err != nil {
			t.Fatal(name, err)
		}
		wantError(t, answer(t, c), 400, "empty client message")
	}
	ping(t, c)
}

// TestBadMessages sends complete frames with invalid messages: the connection
// stays open.
func TestBadMessages(t *testing.T) {
	nc := dialRaw(t, serve(t, &Server{Handler: pinger}))
	c := NewConn(nc)
	deep := bytes.Repeat([]byte{0xC3, 0x3E}, 20000) // the beginning of group 1000, nested
	for name, b := range map[string][]byte{
		"cut field":     unhex(t, "0A05 01"),
		"invalid UTF-8": unhex(t, "0A04 1202 FFFE"),
		"field 0":       unhex(t, "0000"),
		"deep groups":   deep,
		"cut varint":    unhex(t, "FFFFFFFFFFFFFFFFFFFFFF"),
	} {
		if _, err := nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)); err != nil {
			t.Fatal(name, err)
		}
		if e := answer(t, c).GetError(); e.GetCode() != 400 || !strings.HasPrefix(e.GetMessage(), "codec error: ") {
			t.Errorf("%s: answer %v", name, e)
		}
	}
	ping(t, c)
}

// TestGreetings connects with other protocols: their first bytes, read as a
// length, exceed the limit.
func TestGreetings(t *testing.T) {
	a := serve(t, &Server{Handler: pinger})
	ping(t, NewConn(dialRaw(t, a))) // the first message allocates the tables of the codec
	for _, g := range []string{
		"GET / HTTP/1.1\r\n\r\n", "POST /v1/chat HTTP/1.1\r\n", "OPTIONS * HTTP/1.1\r\n", "CONNECT a:1 HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00", "SSH-2.0-OpenSSH_9.6\r\n", "EHLO me\r\n", "*1\r\n$4\r\nPING\r\n", "\xff\xff\xff\xff", "\x01\x00\x00\x01",
	} {
		nc := dialRaw(t, a)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := io.WriteString(nc, g[:4]); err != nil { // and no byte more
			t.Fatal(err)
		}
		e := answer(t, NewConn(nc)).GetError()
		runtime.ReadMemStats(&after)
		if e.GetCode() != 400 || !strings.HasPrefix(e.GetMessage(), "frame too large: ") {
			t.Errorf("%q: answer %v", g, e)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 256<<10 {
			t.Errorf("%q: %d bytes were allocated", g, n)
		}
		wantEnd(t, nc)
	}
}

// TestLengthDoesNotAllocate announces 16 MiB on many connections and sends little.
func TestLengthDoesNotAllocate(t *testing.T) {
	inTime(t, pinger, func(t *testing.T, dial func() net.Conn) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range 100 {
			nc := dial()
			admitted(t, nc)
			// A write to a pipe returns when the server has read all of it.
			if _, err := nc.Write(append([]byte{1, 0, 0, 0}, make([]byte, 8<<10)...)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&after)
		if n := int64(after.HeapAlloc) - int64(before.HeapAlloc); n > 16<<20 {
			t.Errorf("the server holds %d bytes for 100 frames of which 8 KiB arrived", n)
		}
	})
}

// TestPieces sends frames in pieces. The server reads a pipe once per write.
func TestPieces(t *testing.T) {
	small, large := frameOf(t, sendMsg("in pieces")), frameOf(t, sendMsg(strings.Repeat("0123456789", 30<<10)))
	inTime(t, pinger, func(t *testing.T, dial func() net.Conn) {
		nc := dial()
		c := admitted(t, nc)
		for _, size := range []int{1, 2, 3, 5, 4096, 4100} {
			for _, b := range [][]byte{small, large} {
				if size < 100 && len(b) > 1000 {
					continue
				}
				for p := b; len(p) > 0; p = p[min(size, len(p)):] {
					if _, err := nc.Write(p[:min(size, len(p))]); err != nil {
						t.Fatal(err)
					}
				}
				if got := answer(t, c).GetResponse().GetContent(); len(got) < 9 || !bytes.Contains(b, []byte(got)) {
					t.Fatalf("in pieces of %d: response of %d bytes", size, len(got))
				}
			}
		}
	})
}

// TestPipelined sends requests without waiting. The server answers them one
// after another, in order, also those that arrive during a long request.
func TestPipelined(t *testing.T) {
	var at atomic.Int32
	inTime(t, func(ctx context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		if at.Add(1) != 1 {
			t.Error("two requests of a connection at once")
		}
		if strings.HasPrefix(m.GetSend().GetContent(), "long") {
			time.Sleep(4 * watchAfter) // the server watches the connection by then
			if ctx.Err() != nil {
				t.Error("the next request ended this one")
			}
		}
		for range 3 {
			_ = send(response(m.GetSend().GetContent()))
		}
		at.Add(-1)
	}, func(t *testing.T, dial func() net.Conn) {
		nc := dial()
		c := admitted(t, nc)
		for _, body := range []string{"", strings.Repeat("x", 3<<10), strings.Repeat("y", 9<<10)} { // 9 KiB exceed a watcher's buffer
			var all []byte
			want := []string{"long 1 " + body, "2" + body, "3" + body, "long 4" + body, "5"}
			for _, w := range want {
				all = append(all, frameOf(t, sendMsg(w))...)
			}
			go nc.Write(all) // blocks while the server does not read
			for _, w := range want {
				for range 3 {
					if got := answer(t, c).GetResponse().GetContent(); got != w {
						t.Fatalf("response %.20q, want %.20q", got, w)
					}
				}
			}
		}
	})
}

// TestHangUp ends a request by closing its connection, whatever came after it.
func TestHangUp(t *testing.T) {
	began, ended := make(chan bool, 1), make(chan error, 1)
	s := &Server{Handler: func(ctx context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		if m.GetPing() != nil {
			pinger(ctx, m, send)
			return
		}
		began <- true
		<-ctx.Done()
		ended <- send(pong())
	}}
	a := serve(t, s)
	for _, extra := range []string{"", "00000002 1A00", "0000"} {
		nc := dialRaw(t, a)
		if _, err := nc.Write(append(frameOf(t, sendMsg("x")), unhex(t, extra)...)); err != nil {
			t.Fatal(err)
		}
		<-began
		nc.Close()
		<-ended
	}
	// In the middle of a frame, and by a reset.
	nc := dialRaw(t, a)
	if _, err := nc.Write([]byte{0, 1, 0, 0, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	wantConns(t, s, 0)
}

func wantConns(t testing.TB, s *Server, n int) {
	t.Helper()
	gate.Until(t, fmt.Sprintf("%d connections", n), func() bool { return s.Conns() == n })
}

// TestReset resets a TCP connection inside a frame, and while it is answered.
func TestReset(t *testing.T) {
	began, ended := make(chan bool, 1), make(chan bool, 1)
	s := &Server{Handler: func(ctx context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		began <- true
		for send(response(strings.Repeat("x", 10<<10))) == nil {
		}
		ended <- true
	}}
	a := serveTCP(t, s)
	for _, b := range [][]byte{{0, 0}, {0, 1, 0, 0, 1}, frameOf(t, sendMsg("x"))} {
		nc := dialRaw(t, a)
		if _, err := nc.Write(b); err != nil {
			t.Fatal(err)
		}
		if len(b) > 5 {
			<-began
		}
		_ = nc.(*net.TCPConn).SetLinger(0)
		nc.Close()
		if len(b) > 5 {
			<-ended
		}
	}
	wantConns(t, s, 0)
}

// serveTCP serves on a loopback port. Where users are not known by it, the
// server has a token.
func serveTCP(t testing.TB, s *Server) Addr {
	t.Helper()
	l, err := ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := Addr{Network: "tcp", Address: l.Addr().String()}
	if runtime.GOOS != "linux" {
		s.Token, a.Token = "secret", "secret"
	}
	serveOn(t, s, l)
	return a
}

// TestOversizeReply gets an error in the place of an answer that has no room,
// and no more of that answer.
func TestOversizeReply(t *testing.T) {
	errs := make(chan error, 2)
	c := dial(t, serve(t, &Server{Handler: func(ctx context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		if m.GetSend() == nil {
			pinger(ctx, m, send)
			return
		}
		errs <- send(response(strings.Repeat("x", MaxFrame)))
		errs <- send(response("more"))
	}}))
	wantError(t, ask(t, c, sendMsg("x")), 500, "frame too large: 16777226 bytes (max 16777216)")
	var large *TooLargeError
	for range 2 {
		if err := <-errs; !errors.As(err, &large) {
			t.Errorf("send: %v", err)
		}
	}
	ping(t, c)
}

func TestReplyThatIsNotUTF8(t *testing.T) {
	list := &pb.ServerMessage{Msg: &pb.ServerMessage_Sessions{Sessions: &pb.SessionList{
		Sessions: []*pb.SessionInfo{{Agent: "a\xc3b", CreatedBy: "\xed\xa0\x80"}}}}}
	c := dial(t, serve(t, &Server{Handler: func(_ context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		if err := send(list); err != nil {
			t.Error(err)
		}
	}}))
	want := &pb.SessionList{Sessions: []*pb.SessionInfo{{Agent: "a\uFFFDb", CreatedBy: "\uFFFD"}}}
	if got := ask(t, c, sendMsg("x")).GetSessions(); !proto.Equal(got, want) {
		t.Errorf("answer %v, want %v", got, want)
	}
	if list.GetSessions().Sessions[0].Agent != "a\xc3b" {
		t.Error("the message of the handler was changed")
	}
	fields := (&pb.ServerMessage{}).ProtoReflect().Descriptor().ParentFile().Messages()
	for i := range fields.Len() {
		for j := range fields.Get(i).Fields().Len() {
			if f := fields.Get(i).Fields().Get(j); f.IsMap() {
				t.Errorf("mend ignores the map %s", f.FullName())
			}
		}
	}
}

func TestNoAnswer(t *testing.T) {
	c := dial(t, serve(t, &Server{Handler: func(context.Context, *pb.ClientMessage, func(*pb.ServerMessage) error) {}}))
	for range 2 {
		wantError(t, ask(t, c, sendMsg("x")), 500, "the handler sent no response")
	}
}

// TestManyDials opens more connections than there may be, each with half a
// header. A new client is answered at once. CRABMEM_TEST_DIALS says how many.
func TestManyDials(t *testing.T) {
	dials, most := 300, 100
	if n, err := strconv.Atoi(os.Getenv("CRABMEM_TEST_DIALS")); err == nil {
		dials, most = n, 1024
	}
	s := &Server{Handler: pinger, Limits: Limits{Conns: most}}
	a := serve(t, s)
	active := dial(t, a)
	ping(t, active)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var conns []net.Conn
	defer func() {
		for _, nc := range conns {
			nc.Close()
		}
	}()
	for i := range dials {
		nc, err := net.Dial(a.Network, a.Address)
		if err != nil {
			t.Fatalf("dial %d: %v", i, err)
		}
		// Those that were given up are of no more use here either.
		if conns = append(conns, nc); len(conns) > 2*most {
			conns[0].Close()
			conns = conns[1:]
		}
		if _, err := nc.Write([]byte{0, 0}); err != nil && !errors.Is(err, net.ErrClosed) && i < most/2 {
			t.Fatal(err)
		}
		if i%20 == 0 {
			c := dial(t, a)
			ping(t, c) // all before it were accepted
			c.Close()
			ping(t, active) // who asks, stays
		}
	}
	start := time.Now()
	ping(t, dial(t, a))
	gate.Time(t, "ping of a new client", start, time.Second)
	ping(t, active)
	if n := s.Conns(); n > most {
		t.Errorf("%d connections", n)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)
	if grown > 64<<20 {
		t.Errorf("%d bytes more than before", grown)
	}
	t.Logf("%d dials: %d KiB more than idle", dials, grown>>10)
}

// wantIdle waits until no connection has a request.
func wantIdle(t *testing.T, s *Server) {
	t.Helper()
	gate.Until(t, "all requests end", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			if c.state.Load() != idle {
				return false
			}
		}
		return true
	})
}

// TestEvicted checks that an evicted connection receives the reason.
func TestEvicted(t *testing.T) {
	s := &Server{Handler: pinger, Limits: Limits{Conns: 2}}
	a := serve(t, s)
	first, second := dial(t, a), dial(t, a)
	ping(t, first)
	ping(t, second)
	ping(t, first)
	wantIdle(t, s)
	third := dial(t, a)
	ping(t, third)
	wantError(t, answer(t, second), 503, "connection evicted: too many connections, and this one was idle longest: connect again")
	if err := second.Read(new(pb.ServerMessage)); !errors.Is(err, ErrClosed) {
		t.Errorf("then: %v", err)
	}
	ping(t, first)
	ping(t, third)
}

// TestWorking refuses requests over the limit of active requests, and no
// others.
func TestWorking(t *testing.T) {
	release := make(chan bool)
	began := make(chan bool, 2)
	a := serve(t, &Server{Limits: Limits{Working: 2}, Handler: func(ctx context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		if m.GetSend() != nil {
			began <- true
			<-release
		}
		_ = send(pong())
	}})
	var busy []*Conn
	for range 2 {
		c := dial(t, a)
		if err := c.Write(sendMsg("x")); err != nil {
			t.Fatal(err)
		}
		<-began
		busy = append(busy, c)
	}
	c := dial(t, a)
	start := time.Now()
	wantError(t, ask(t, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}}), 503, "too many concurrent requests: retry the request")
	gate.Time(t, "refusal", start, 2*workWait)
	close(release)
	for _, b := range busy {
		answer(t, b)
	}
	ping(t, c)
}

// TestSubscribersDoNotWork opens as many subscribers as places, and as
// connections: requests are still answered, and one more subscriber is refused.
// A place is free after a subscriber disconnects.
func TestSubscribersDoNotWork(t *testing.T) {
	began, ended := make(chan bool, 4), make(chan bool, 4)
	subscribes := func(m *pb.ClientMessage) bool { return m.GetSubscribeEvents() != nil }
	a := serve(t, &Server{Limits: Limits{Working: 2, Conns: 3}, Waits: subscribes, Handler: func(ctx context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		if !subscribes(m) {
			_ = send(pong())
			return
		}
		began <- true
		<-ctx.Done()
		ended <- true
	}})
	subscribe := &pb.ClientMessage{Msg: &pb.ClientMessage_SubscribeEvents{SubscribeEvents: &pb.SubscribeEvents{}}}
	var waiting []*Conn
	for range 3 {
		c := dial(t, a)
		if err := c.Write(subscribe); err != nil {
			t.Fatal(err)
		}
		<-began
		waiting = append(waiting, c)
	}
	c := dial(t, a)
	ping(t, c)
	wantError(t, ask(t, c, subscribe), 503, "too many concurrent subscribers: retry the request")
	ping(t, c)
	waiting[0].Close()
	<-ended
	if err := c.Write(subscribe); err != nil {
		t.Fatal(err)
	}
	<-began
	ping(t, dial(t, a))
}

// TestInFlight has more bytes on their way than may be: all arrive.
func TestInFlight(t *testing.T) {
	a := serve(t, &Server{Handler: func(_ context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		_ = send(response(m.GetSend().GetContent()))
	}, Limits: Limits{InFlight: MaxFrame}})
	body := strings.Repeat("x", 6<<20)
	errs := make(chan error, 8)
	for range cap(errs) {
		c := dial(t, a)
		go func() {
			err := c.Write(sendMsg(body))
			m := new(pb.ServerMessage)
			if err == nil {
				err = c.Read(m)
			}
			if err == nil && len(m.GetResponse().GetContent()) != len(body) {
				err = errors.New("another answer")
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestShutdown waits for who is being answered, and ends who is not.
func TestShutdown(t *testing.T) {
	for _, hard := range []bool{false, true} {
		t.Run(map[bool]string{false: "drained", true: "cut"}[hard], func(t *testing.T) {
			began, release, ended := make(chan bool), make(chan bool), make(chan error, 1)
			s := &Server{Handler: func(ctx context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
				if m.GetSend() == nil {
					pinger(ctx, m, send)
					return
				}
				began <- true
				select {
				case <-release:
				case <-ctx.Done():
				}
				ended <- send(pong())
			}}
			a := serve(t, s)
			idle, half, busy := dial(t, a), dialRaw(t, a), dial(t, a)
			ping(t, idle)
			if _, err := half.Write([]byte{0, 0}); err != nil {
				t.Fatal(err)
			}
			if err := busy.Write(sendMsg("x")); err != nil {
				t.Fatal(err)
			}
			<-began
			ctx, cancel := context.WithTimeout(t.Context(), gate.Hang)
			if hard {
				ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
			}
			defer cancel()
			down := make(chan error, 1)
			go func() { down <- s.Shutdown(ctx) }()
			if err := idle.Read(new(pb.ServerMessage)); !errors.Is(err, ErrClosed) {
				t.Errorf("idle: %v", err)
			}
			wantEnd(t, half)
			if _, err := net.Dial(a.Network, a.Address); err == nil {
				t.Error("it still listens")
			}
			if hard {
				if err := <-down; !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Shutdown: %v", err)
				}
				if err := <-ended; err == nil {
					t.Error("an answer could be sent")
				}
				return
			}
			close(release)
			if m := answer(t, busy); m.GetPong() == nil {
				t.Errorf("answer %v", m)
			}
			if err := <-down; err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			if err := busy.Read(new(pb.ServerMessage)); !errors.Is(err, ErrClosed) {
				t.Errorf("busy: %v", err)
			}
		})
	}
}
