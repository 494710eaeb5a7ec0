package client

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// TestHelloOnEachConnection checks that streams and subscriptions are on
// connections with Hello, also if several are active.
func TestHelloOnEachConnection(t *testing.T) {
	serve(t, func(_ context.Context, p wire.Peer, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		switch {
		case isHello(m):
			_ = send(hello())
		case m.GetPing() != nil:
			_ = send(&pb.ServerMessage{Msg: &pb.ServerMessage_Pong{Pong: &pb.Pong{}}})
		case !p.Calls:
			_ = send(fail(500, "no hello"))
		case m.GetStream() != nil:
			if send(chunk("a")) == nil {
				_ = send(end(""))
			}
		default:
			_ = send(&pb.ServerMessage{Msg: &pb.ServerMessage_AgentEvent{AgentEvent: &pb.AgentEventMsg{}}})
		}
	})
	c := newClient(t)
	if err := c.Ping(t.Context()); err != nil { // leaves a connection without Hello
		t.Fatal(err)
	}
	for range 2 {
		for range c.Stream(t.Context(), Message{}) {
			for _, err := range c.Events(t.Context(), EventFilter{}) {
				if err != nil {
					t.Fatalf("events: %v", err)
				}
				break
			}
			if text, err := collect(t, c); text != "a" || err != nil {
				t.Fatalf("stream: %q, %v", text, err)
			}
		}
	}
}

// TestHelloWithoutRoundTrip checks that a client sends a request together with
// Hello once it knows the daemon.
func TestHelloWithoutRoundTrip(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	hungUp := make(chan struct{})
	go func() {
		served <- func() error {
			first, err := l.Accept()
			if err != nil {
				return err
			}
			defer first.Close()
			c := wire.NewConn(first)
			if err := c.Read(new(pb.ClientMessage)); err != nil {
				return err
			}
			if err := c.Write(hello()); err != nil {
				return err
			}
			first.Close()
			close(hungUp)
			second, err := l.Accept()
			if err != nil {
				return err
			}
			defer second.Close()
			c = wire.NewConn(second)
			if err := c.SetDeadline(time.Now().Add(gate.Hang)); err != nil {
				return err
			}
			for range 2 { // no response before both requests
				if err := c.Read(new(pb.ClientMessage)); err != nil {
					return err
				}
			}
			for _, m := range []*pb.ServerMessage{hello(), chunk("a"), end("")} {
				if err := c.Write(m); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	c := &Client{Addr: wire.Addr{Network: "unix", Address: l.Addr().String()}}
	defer c.Close()
	if _, err := c.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-hungUp // or else the client may use the first connection again
	if text, err := collect(t, c); text != "a" || err != nil {
		t.Errorf("stream: %q, %v", text, err)
	}
	l.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestStreamWithoutHello streams from a daemon that does not know Hello.
func TestStreamWithoutHello(t *testing.T) {
	serve(t, func(_ context.Context, _ wire.Peer, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		if isHello(m) {
			_ = send(&pb.ServerMessage{Msg: &pb.ServerMessage_Error{Error: &pb.ErrorMsg{Code: 400, Message: "empty client message"}}})
			return
		}
		if send(chunk("a")) == nil {
			_ = send(end("it broke"))
		}
	})
	c := newClient(t)
	for range 2 {
		if text, err := collect(t, c); text != "a" || err == nil || err.Error() != "server error (500): it broke" {
			t.Errorf("stream: %q, %v", text, err)
		}
	}
}
