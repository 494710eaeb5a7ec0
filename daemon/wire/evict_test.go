package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// fakeConn returns in from its first Read and records writes.
type fakeConn struct {
	net.Conn    // nil: the other methods are not called
	in, out     []byte
	deadlineErr error
}

func (c *fakeConn) Read(b []byte) (int, error) {
	if len(c.in) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *fakeConn) Write(b []byte) (int, error) {
	c.out = append(c.out, b...)
	return len(b), nil
}

func (c *fakeConn) SetReadDeadline(time.Time) error { return c.deadlineErr }

// evictedConn returns a trusted connection in state evicted.
func evictedConn(nc net.Conn) *served {
	c := &served{s: &Server{limits: Limits{}.withDefaults()}, trusted: true}
	c.Conn = Conn{c: nc, in: make([]byte, smallFrame), max: MaxFrame, srv: c}
	c.state.Store(evicted)
	return c
}

// TestWaiting checks that an evicted connection answers one more request only
// if the complete request has arrived.
func TestWaiting(t *testing.T) {
	frame := func(size uint32, payload int) []byte {
		return append(binary.BigEndian.AppendUint32(nil, size), make([]byte, payload)...)
	}
	for _, tt := range []struct {
		name string
		in   []byte
		want bool
	}{
		{"closed", nil, false},
		{"three bytes of a header", frame(0, 0)[:3], false},
		{"header without payload", frame(2, 0), false},
		{"one byte missing", frame(2, 1), false},
		{"largest length", frame(1<<32-1, 8), false},
		{"empty message", frame(0, 0), true},
		{"message", frame(2, 2), true},
		{"message and more", frame(2, 3), true},
	} {
		c := evictedConn(&fakeConn{in: tt.in})
		if got := c.waiting(); got != tt.want {
			t.Errorf("%s: waiting() = %v, want %v", tt.name, got, tt.want)
		}
	}

	request := frame(2, 2)
	untrusted := evictedConn(&fakeConn{in: request})
	untrusted.trusted = false
	if untrusted.waiting() {
		t.Error("an untrusted connection has a request")
	}
	if evictedConn(&fakeConn{in: request, deadlineErr: net.ErrClosed}).waiting() {
		t.Error("a connection without a deadline has a request")
	}
	// After a part of a frame the rest may never come.
	nc := &fakeConn{in: request[1:]}
	partial := evictedConn(nc)
	partial.w = copy(partial.in, request[:1])
	if partial.waiting() || len(nc.in) != 5 {
		t.Errorf("a partly read frame is a request; %d bytes are unread, want 5", len(nc.in))
	}
}

// TestWaitingEnds checks that an evicted connection waits lastLook for a
// request.
func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		start := time.Now()
		if evictedConn(there).waiting() {
			t.Error("a connection without input has a request")
		}
		if d := time.Since(start); d != lastLook {
			t.Errorf("waited %v, want %v", d, lastLook)
		}
	})
}

// TestNextAfterEviction checks that next reads the request that arrived before
// the eviction, and only that.
func TestNextAfterEviction(t *testing.T) {
	want := sendMsg("arrived before the eviction")
	c := evictedConn(&fakeConn{in: frameOf(t, want)})
	got := new(pb.ClientMessage)
	if err := c.next(got); err != nil || !proto.Equal(got, want) {
		t.Errorf("next: %v, %v, want %v", got, err, want)
	}
	if err := c.next(got); !errors.Is(err, errStopped) {
		t.Errorf("next without a request: %v", err)
	}
	var bad *CodecError
	if err := evictedConn(&fakeConn{in: unhex(t, "00000001 0A")}).next(got); !errors.As(err, &bad) {
		t.Errorf("next of an invalid message: %v", err)
	}
}

// TestWriteUnencodable checks that Write sends no part of a message that
// protobuf refuses.
func TestWriteUnencodable(t *testing.T) {
	nc := &fakeConn{}
	c := NewConn(nc)
	var bad *CodecError
	if err := c.Write(&descriptorpb.UninterpretedOption_NamePart{}); !errors.As(err, &bad) || len(nc.out) != 0 {
		t.Errorf("Write without a required field: %v, % X sent", err, nc.out)
	}
	if err := c.Write(pong()); err != nil || !slices.Equal(nc.out, frameOf(t, pong())) {
		t.Errorf("Write: %v, % X sent", err, nc.out)
	}
}
