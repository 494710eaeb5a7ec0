package mcpserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/guard"
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

// TestHalfOpenConnections holds 300 connections with half a header, for
// longer than the test takes, and wants a new client to be served.
func TestHalfOpenConnections(t *testing.T) {
	limits := defaultHTTPLimits()
	limits.header = 10 * gate.Hang
	address := listenWith(t, t.TempDir(), "127.0.0.1", limits)
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

// TestVerifiedConnections keeps as many connections of clients as the limit
// allows, and serves the others one request each.
func TestVerifiedConnections(t *testing.T) {
	limits := defaultHTTPLimits()
	limits.conns = 2
	address := listenWith(t, t.TempDir(), "127.0.0.1", limits)
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

// TestHalfSentBody: a client that stops in its body does not keep its
// connection.
func TestHalfSentBody(t *testing.T) {
	limits := defaultHTTPLimits()
	limits.body = 50 * time.Millisecond
	address := listenWith(t, t.TempDir(), "127.0.0.1", limits)
	conn := dial(t, address)
	sendPing(t, conn, testToken, 5)
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("the connection stays open: %v", err)
	}
}

type noListener struct{ net.Listener }

// TestTimeouts wants all time-outs of the default limits in the server.
func TestTimeouts(t *testing.T) {
	s := newTestServer(t, t.TempDir())
	server, _ := s.httpServer(noListener{}, newBearer(testToken), guard.Hosts{}, defaultHTTPLimits())
	got := []time.Duration{server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout, server.IdleTimeout}
	if want := []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 2 * time.Minute}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("time-outs %v, want %v", got, want)
	}
}
