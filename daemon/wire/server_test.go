package wire

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/wire/pb"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pinger answers pings, and says whatever it was sent.
func pinger(_ context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
	switch x := m.Msg.(type) {
	case *pb.ClientMessage_Ping:
		_ = send(&pb.ServerMessage{Msg: &pb.ServerMessage_Pong{Pong: &pb.Pong{}}})
	case *pb.ClientMessage_Send:
		_ = send(&pb.ServerMessage{Msg: &pb.ServerMessage_Response{Response: &pb.SendResponse{Content: x.Send.Content}}})
	}
}

// socket is a path in a directory that is the user's alone.
func socket(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "wire")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "daemon.sock")
}

// serve runs a server on a socket until the test ends.
func serve(t testing.TB, s *Server) Addr {
	t.Helper()
	path := socket(t)
	l, err := ListenUnix(vfs.OS{}, path)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, s, l)
	return Addr{Network: "unix", Address: path}
}

func serveOn(t testing.TB, s *Server, l net.Listener) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func dial(t testing.TB, a Addr) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(gate.Hang))
	return c
}

func ask(t testing.TB, c *Conn, m *pb.ClientMessage) *pb.ServerMessage {
	t.Helper()
	if err := c.Write(m); err != nil {
		t.Fatal(err)
	}
	return answer(t, c)
}

func answer(t testing.TB, c *Conn) *pb.ServerMessage {
	t.Helper()
	m := new(pb.ServerMessage)
	if err := c.Read(m); err != nil {
		t.Fatal(err)
	}
	return m
}

func ping(t testing.TB, c *Conn) {
	t.Helper()
	m := ask(t, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}})
	if m.GetPong() == nil {
		t.Fatalf("answer %v, want pong", m)
	}
}

func wantError(t testing.TB, m *pb.ServerMessage, code uint32, text string) {
	t.Helper()
	if e := m.GetError(); e.GetCode() != code || e.GetMessage() != text {
		t.Fatalf("answer %v, want error %d %s", m, code, text)
	}
}

func TestPing(t *testing.T) {
	c := dial(t, serve(t, &Server{Handler: pinger}))
	for range 3 {
		ping(t, c)
	}
}

func BenchmarkPing(b *testing.B) {
	c := dial(b, serve(b, &Server{Handler: pinger}))
	m := &pb.ClientMessage{Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}}
	b.ReportAllocs()
	for b.Loop() {
		ask(b, c, m)
	}
}
