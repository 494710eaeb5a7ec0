package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/wire/pb"
)

// TestRetryBacklog dials a socket with a full backlog, and compares the times of
// the calls.
func TestRetryBacklog(t *testing.T) {
	full := &net.OpError{Op: "dial", Err: syscall.EAGAIN}
	for _, tt := range []struct {
		network string
		fails   int // calls with a full backlog
		then    error
		calls   int
		after   time.Duration
	}{
		{"unix", 0, nil, 1, 0}, {"unix", 1, nil, 2, time.Millisecond}, {"unix", 2, nil, 3, 3 * time.Millisecond},
		{"unix", 7, nil, 8, 113 * time.Millisecond}, {"unix", 8, nil, 9, 163 * time.Millisecond}, {"unix", 3, syscall.ECONNREFUSED, 4, 7 * time.Millisecond},
		{"unix", 1000, nil, 106, 5013 * time.Millisecond}, {"tcp", 1, nil, 1, 0}, {"tcp", 0, syscall.ECONNREFUSED, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, calls := time.Now(), 0
			nc := &deadlineConn{}
			got, err := retryBacklog(t.Context(), tt.network, func() (net.Conn, error) {
				if calls++; calls <= tt.fails {
					return nil, full
				}
				return nc, tt.then
			})
			want := tt.then
			if tt.calls <= tt.fails {
				want = full
			}
			if !errors.Is(err, want) || (want == nil && got != nc) || calls != tt.calls || time.Since(began) != tt.after {
				t.Errorf("%s, %d fail: %v, %v after %d calls in %v", tt.network, tt.fails, got, err, calls, time.Since(began))
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		nc, err := retryBacklog(ctx, "unix", func() (net.Conn, error) {
			calls++
			cancel(io.ErrClosedPipe)
			return nil, full
		})
		if nc != nil || err != io.ErrClosedPipe || calls != 1 {
			t.Errorf("canceled: %v, %v after %d calls", nc, err, calls)
		}
	})
}

// TestAuthenticate sends a token to servers that answer in different ways.
func TestAuthenticate(t *testing.T) {
	refusal := &pb.ServerMessage{Msg: &pb.ServerMessage_Error{Error: &pb.ErrorMsg{Code: 401, Message: "no such token"}}}
	for _, tt := range []struct {
		name   string
		answer []byte
		is     error
		text   string
	}{
		{"pong", frameOf(t, pong()), nil, "<nil>"},
		{"error", frameOf(t, refusal), ErrRefused, "refused: no such token"},
		{"another message", frameOf(t, response("hello")), nil, "unexpected response"},
		{"empty message", make([]byte, header), nil, "unexpected response"},
		{"invalid message", []byte{0, 0, 0, 1, 0x0a}, nil, "codec error: "},
		{"half a message", []byte{0, 0, 0, 9, 1}, ErrTruncated, ErrTruncated.Error()},
		{"nothing", nil, ErrClosed, ErrClosed.Error()},
	} {
		here, there := net.Pipe()
		sent := make(chan string, 1)
		go func() {
			defer there.Close()
			m := new(pb.ClientMessage)
			err := NewConn(there).Read(m)
			sent <- fmt.Sprint(m.GetAuth().GetToken(), " ", err)
			if len(tt.answer) > 0 {
				_, _ = there.Write(tt.answer)
			}
		}()
		err := NewConn(here).authenticate(t.Context(), "my token")
		if got := <-sent; got != "my token <nil>" || !strings.HasPrefix(fmt.Sprint(err), tt.text) || tt.is != nil && !errors.Is(err, tt.is) || errors.Is(err, ErrRefused) != (tt.is == ErrRefused) {
			t.Errorf("%s: %v, sent %q", tt.name, err, got)
		}
		here.Close()
	}
	here, there := net.Pipe()
	there.Close()
	if err := NewConn(here).authenticate(t.Context(), "my token"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("closed: %v", err)
	}
	here.Close()
}

// TestAuthenticateCanceled cancels while the server does not answer.
func TestAuthenticateCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- NewConn(here).authenticate(ctx, "my token") }()
		if err := NewConn(there).Read(new(pb.ClientMessage)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel(io.ErrNoProgress)
		if err := <-done; err != io.ErrNoProgress {
			t.Errorf("%v", err)
		}
	})
}

// TestDialAuthenticates dials servers that accept and refuse the token. Dial
// closes a refused connection.
func TestDialAuthenticates(t *testing.T) {
	l, err := ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := Addr{Network: "tcp", Address: l.Addr().String(), Token: "good"}
	for _, token := range []string{"good", "bad"} {
		end := make(chan error, 1)
		go func() {
			nc, err := l.Accept()
			if err != nil {
				end <- err
				return
			}
			defer nc.Close()
			c, m := NewConn(nc), new(pb.ClientMessage)
			_ = c.Read(m)
			if m.GetAuth().GetToken() == "good" {
				_ = c.Write(pong())
			} else {
				_ = c.Write(&pb.ServerMessage{Msg: &pb.ServerMessage_Error{Error: &pb.ErrorMsg{Message: "wrong"}}})
			}
			end <- c.Read(m)
		}()
		a.Token = token
		c, err := Dial(t.Context(), a)
		if token == "good" {
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
		} else if want := "authenticate at tcp:" + a.Address + ": refused: wrong"; c != nil || !errors.Is(err, ErrRefused) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if err := <-end; !errors.Is(err, ErrClosed) {
			t.Errorf("token %s: the server reads %v", token, err)
		}
	}
}
