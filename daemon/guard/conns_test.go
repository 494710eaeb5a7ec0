package guard

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestGate accepts connections that are never closed by a client.
func TestGate(t *testing.T) {
	const maxUnverified, total = 4, 300
	l := make(pipes, total)
	evicted := 0
	g := NewGate(l, maxUnverified, 1, func() { evicted++ }).(*gate)
	var clients []net.Conn
	var accepted []*gated
	for i := range total {
		client, server := net.Pipe()
		clients = append(clients, client)
		l <- server
		c, err := g.Accept()
		if err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, c.(*gated))
		if i == 1 && !g.verify(accepted[1]) {
			t.Error("the first verified connection is not kept")
		}
	}
	if evicted != total-1-maxUnverified {
		t.Errorf("%d evicted of %d", evicted, total)
	}
	for i, client := range clients {
		_ = client.SetReadDeadline(time.Unix(1, 0))
		_, err := client.Read(make([]byte, 1))
		if open := !errors.Is(err, io.EOF); open != (i == 1 || i >= total-maxUnverified) {
			t.Errorf("connection %d: open %t", i, open)
		}
	}
	if g.verify(accepted[0]) || len(g.verified) != 1 {
		t.Errorf("an evicted connection counts: %d verified", len(g.verified))
	}
	if g.verify(accepted[total-1]) {
		t.Error("a second verified connection is kept")
	}
	for _, c := range accepted {
		c.Close()
	}
	if len(g.verified)+len(g.unverified) != 0 {
		t.Errorf("closed connections count: %d and %d", len(g.verified), len(g.unverified))
	}
}
