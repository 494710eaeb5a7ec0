package mcp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/process"
)

// TestBusyRequests checks that at most maxBusy requests wait for a response.
func TestBusyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := httpClient(t.Context(), "http://127.0.0.1/", "", time.Hour, func(context.Context, string, string) (net.Conn, error) {
			here, _ := net.Pipe()
			return here, nil
		})
		results := make(chan error, maxBusy+1)
		do := func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/", nil)
			if err == nil {
				_, err = client.Do(request) //nolint:bodyclose // there is no response
			}
			results <- err
		}
		for range maxBusy {
			go do()
		}
		synctest.Wait()
		if len(results) != 0 {
			t.Errorf("a request failed: %v", <-results)
		}
		if do(); len(results) != 1 {
			t.Fatalf("%d results", len(results))
		}
		if err := <-results; err == nil || !strings.HasSuffix(err.Error(), ": 100 requests pending") {
			t.Errorf("one request more: %v", err)
		}
		cancel()
		synctest.Wait()
		if b := client.Transport.(*bearer); b.busy.Load() != 0 {
			t.Errorf("%d requests after the end", b.busy.Load())
		}
	})
}

// TestBodyEndsWithDone checks that a paced stream ends when its request does.
func TestBodyEndsWithDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		ended := 0
		text := struct {
			io.Reader
			io.Closer
		}{strings.NewReader(strings.Repeat("\n", 9000)), &stdin{closeErr: io.ErrClosedPipe}}
		b := &boundedBody{ReadCloser: text, end: func() { ended++ }, done: done, Shape: process.Shape{Events: true}}
		time.AfterFunc(time.Second, func() { close(done) })
		began := time.Now()
		n, err := b.Read(make([]byte, 9000))
		if n != 0 || !errors.Is(err, context.Canceled) || time.Since(began) != time.Second {
			t.Errorf("%d, %v after %v", n, err, time.Since(began))
		}
		if err := b.Close(); err != io.ErrClosedPipe || ended != 1 {
			t.Errorf("close: %v, ended %d times", err, ended)
		}
	})
}

// TestDialComponent checks that a connection to another user's port is closed.
func TestDialComponent(t *testing.T) {
	for name, c := range map[string]struct {
		address         string
		dialErr, owner  error
		want, wantOwner string
	}{
		"own":         {address: "127.0.0.1:7", wantOwner: "127.0.0.1:7"},
		"refused":     {address: "127.0.0.1:7", dialErr: errors.New("refused"), want: "refused"},
		"other":       {address: "127.0.0.1:7", owner: errors.New("stale"), want: "stale", wantOwner: "127.0.0.1:7"},
		"not a port":  {address: "pipe", want: `not an ip:port`},
		"mapped port": {address: "[::1]:7", wantOwner: "[::1]:7"},
	} {
		m := New(Options{})
		here, there := net.Pipe()
		asked := ""
		m.dial = func(context.Context, string, string) (net.Conn, error) {
			if c.dialErr != nil {
				return nil, c.dialErr
			}
			return addressed{here, textAddr(c.address)}, nil
		}
		m.checkOwner = func(a netip.AddrPort) error { asked = a.String(); return c.owner }
		conn, err := m.dialComponent(t.Context(), "tcp", "x")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || (conn == nil) != (err != nil) || asked != c.wantOwner {
			t.Errorf("%s: %v, %v, checked %q", name, conn, err, asked)
		}
		there.SetReadDeadline(time.Now().Add(-time.Second))
		if _, err := there.Read(make([]byte, 1)); c.dialErr == nil && (err == io.EOF) != (c.want != "") {
			t.Errorf("%s: the other end reads %v", name, err)
		}
		here.Close()
		there.Close()
		m.Close()
	}
}

type textAddr string

func (a textAddr) Network() string { return "tcp" }
func (a textAddr) String() string  { return string(a) }
