package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/bench/gate"
)

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(gate.Hang))
	return conn
}

// sendPing writes a ping, without its last missing bytes.
func sendPing(t *testing.T, conn net.Conn, token string, missing int) {
	t.Helper()
	request := fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", conn.RemoteAddr(), token, len(pingBody), pingBody)
	if _, err := io.WriteString(conn, request[:len(request)-missing]); err != nil {
		t.Fatal(err)
	}
}

// pingStatus returns the status of a ping over a connection, 0 if the server
// closed it.
func pingStatus(t *testing.T, conn net.Conn, token string) int {
	t.Helper()
	sendPing(t, conn, token, 0)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// TestMCPHalfOpenConnections holds 300 connections with half a header, for
// longer than the test takes, and wants a new client to be served.
func TestMCPHalfOpenConnections(t *testing.T) {
	limits := defaultHTTPLimits()
	limits.header = 10 * gate.Hang
	address := listenWith(t, "127.0.0.1", limits)
	kept := dial(t, address)
	if got := pingStatus(t, kept, testToken); got != 200 {
		t.Fatalf("status %d before the others came", got)
	}
	for range 300 {
		if _, err := io.WriteString(dial(t, address), "POST /mcp HTTP/1.1\r\nHo"); err != nil {
			t.Fatal(err)
		}
	}
	if got := pingStatus(t, dial(t, address), testToken); got != 200 {
		t.Errorf("a new client: status %d", got)
	}
	if got := pingStatus(t, kept, testToken); got != 200 {
		t.Errorf("a client that was there before: status %d", got)
	}
}

// TestMCPVerifiedConnections keeps as many connections of clients as the limit
// allows, and serves the others one request each.
func TestMCPVerifiedConnections(t *testing.T) {
	limits := defaultHTTPLimits()
	limits.conns = 2
	address := listenWith(t, "127.0.0.1", limits)
	var conns []net.Conn
	for range 3 {
		conns = append(conns, dial(t, address))
		if got := pingStatus(t, conns[len(conns)-1], testToken); got != 200 {
			t.Fatalf("client %d: status %d", len(conns), got)
		}
	}
	if _, err := conns[2].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the third connection stays open: %v", err)
	}
	for i, conn := range conns[:2] {
		if got := pingStatus(t, conn, testToken); got != 200 {
			t.Errorf("client %d again: status %d", i+1, got)
		}
	}
}

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

// TestConnGate accepts connections that are never closed by a client.
func TestConnGate(t *testing.T) {
	const maxUnverified, total = 4, 300
	l := make(pipes, total)
	evicted := 0
	g := newConnGate(l, maxUnverified, 1, func() { evicted++ })
	var clients []net.Conn
	var accepted []*gatedConn
	for i := range total {
		client, server := net.Pipe()
		clients = append(clients, client)
		l <- server
		c, err := g.Accept()
		if err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, c.(*gatedConn))
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

// TestMCPHalfSentBody: a client that stops in its body does not keep its
// connection.
func TestMCPHalfSentBody(t *testing.T) {
	limits := defaultHTTPLimits()
	limits.body = 50 * time.Millisecond
	address := listenWith(t, "127.0.0.1", limits)
	conn := dial(t, address)
	sendPing(t, conn, testToken, 5)
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("the connection stays open: %v", err)
	}
}

// TestMCPTimeouts wants all time-outs of the default limits in the server.
func TestMCPTimeouts(t *testing.T) {
	s := &mcpServer{log: slog.New(slog.DiscardHandler), refusals: &refusalLog{}}
	server, _ := s.httpServer(make(pipes), newBearer(testToken), hosts{}, defaultHTTPLimits())
	got := []time.Duration{server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout, server.IdleTimeout}
	if want := []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 2 * time.Minute}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("time-outs %v, want %v", got, want)
	}
}

func TestRefusalLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &lockedBuffer{}
		r := &refusalLog{log: slog.New(slog.NewTextHandler(out, nil))}
		count := func(part string) int { return strings.Count(out.String(), part) }
		for i := range 1000 {
			r.refuse(401, "no token", fmt.Sprintf("client %d", i))
			r.evict()
		}
		if got := count("refused a request"); got != 10 || count("\n") != 10 {
			t.Errorf("%d refusals logged, want 10:\n%s", got, out)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if count("\n") != 11 || count("requests=990 connections=1000 within=1m0s") != 1 {
			t.Errorf("after the window:\n%s", out)
		}
		// The next window logs again, and one without a count has no summary.
		r.refuse(403, "host", "client 1001")
		time.Sleep(time.Hour)
		synctest.Wait()
		if count("status=403") != 1 || count("\n") != 12 {
			t.Errorf("in the next window:\n%s", out)
		}
		r.evict()
		r.flush()
		r.flush()
		if count("requests=0 connections=1 ") != 1 || count("\n") != 13 {
			t.Errorf("after flush:\n%s", out)
		}
	})
}
