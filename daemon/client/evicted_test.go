package client

import (
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// TestEvicted closes connections while a request is written. The client sends the
// request again, a limited number of times.
func TestEvicted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var requests, give atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			c := wire.NewConn(nc)
			// Only who is evicted finds the connection closed.
			for c.Read(new(pb.ClientMessage)) == nil {
				requests.Add(1)
				if give.Add(-1) >= 0 {
					_ = c.Write(&pb.ServerMessage{Msg: &pb.ServerMessage_Error{Error: &pb.ErrorMsg{Code: 503, Kind: wire.Evicted}}})
					break
				}
				_ = c.Write(&pb.ServerMessage{Msg: &pb.ServerMessage_Pong{Pong: &pb.Pong{}}})
			}
			c.Close()
		}
	}()
	c := &Client{Addr: wire.Addr{Network: "unix", Address: path}}
	give.Store(evictions - 1)
	if err := c.Ping(t.Context()); err != nil || requests.Load() != evictions {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
	give.Store(1000)
	if err := c.Ping(t.Context()); err == nil || requests.Load() != 2*evictions {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
	c.Close()
	l.Close()
	<-done
}
