package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
)

// pieceConn returns its bytes in pieces of a size and then an error. It takes as
// many bytes as room has, and then fails.
type pieceConn struct {
	net.Conn
	in     []byte
	piece  int
	err    error
	reads  []int // room of each read
	room   int
	out    []byte
	writes []int
}

func (c *pieceConn) Read(b []byte) (int, error) {
	c.reads = append(c.reads, len(b))
	if len(c.in) == 0 {
		return 0, c.err
	}
	n := copy(b[:min(len(b), c.piece)], c.in)
	c.in = c.in[n:]
	if len(c.in) == 0 && c.piece%2 == 0 {
		return n, c.err // with the last bytes
	}
	return n, nil
}

func (c *pieceConn) Write(b []byte) (int, error) {
	c.writes = append(c.writes, len(b))
	n := min(len(b), c.room)
	c.room -= n
	c.out = append(c.out, b[:n]...)
	if n < len(b) {
		return n, syscall.EPIPE
	}
	return n, nil
}

func payload(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 % 251)
	}
	return b
}

// TestWrites writes messages around each limit to a connection that takes them or
// only a part.
func TestWrites(t *testing.T) {
	message := func(size int) proto.Message {
		m := &pb.ClientMessage{Msg: &pb.ClientMessage_Auth{Auth: &pb.AuthMsg{Token: ""}}}
		for n := max(0, size-20); ; n++ {
			m.GetAuth().Token = strings.Repeat("x", n)
			if got := proto.Size(m); got >= size {
				return m
			}
		}
	}
	for _, size := range []int{10, keepOut - header - 1, keepOut - header, keepOut - header + 1, keepOut, keepOut + 1, 3 * keepOut, MaxFrame, MaxFrame + 1} {
		m := message(size)
		size = proto.Size(m)
		want, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		want = append(binary.BigEndian.AppendUint32(nil, uint32(size)), want...)
		nc := &pieceConn{room: 1 << 30}
		c := NewConn(nc)
		err = c.Write(m)
		if size > MaxFrame {
			if large, ok := errors.AsType[*TooLargeError](err); !ok || *large != (TooLargeError{size, MaxFrame}) || len(nc.out) != 0 {
				t.Errorf("%d bytes: %v, %d written", size, err, len(nc.out))
			}
			continue
		}
		if err != nil || !bytes.Equal(nc.out, want) || len(nc.writes) != 1 {
			t.Errorf("%d bytes: %v, %d of %d bytes written in %v", size, err, len(nc.out), len(want), nc.writes)
		}
		if kept := cap(c.out) > 0; kept != (size < keepOut-header-8) && size < keepOut-2*header {
			t.Errorf("%d bytes: the buffer is kept: %v", size, kept)
		}
		for _, room := range []int{0, 1, len(want) - 1} {
			nc := &pieceConn{room: room}
			if err := NewConn(nc).Write(m); !errors.Is(err, syscall.EPIPE) || !bytes.Equal(nc.out, want[:room]) || len(nc.writes) != 1 {
				t.Errorf("%d bytes, %d taken: %v, %d written in %v", size, room, err, len(nc.out), nc.writes)
			}
		}
	}
	// The replacement of invalid text makes a message as long as the limit.
	limit := message(MaxFrame).(*pb.ClientMessage)
	limit.GetAuth().Token = "\xff" + limit.GetAuth().Token[3:]
	nc := &pieceConn{room: 1 << 30}
	if err := NewConn(nc).Write(limit); err != nil || len(nc.out) != header+MaxFrame {
		t.Errorf("invalid text within the limit: %v, %d written", err, len(nc.out))
	}
	// And longer than it.
	m := &pb.ClientMessage{Msg: &pb.ClientMessage_Auth{Auth: &pb.AuthMsg{Token: strings.Repeat("a\xff", MaxFrame/3)}}}
	nc = &pieceConn{room: 1 << 30}
	err := NewConn(nc).Write(m)
	if large, ok := errors.AsType[*TooLargeError](err); !ok || large.Size != proto.Size(validUTF8(m)) || large.Max != MaxFrame || len(nc.out) != 0 {
		t.Errorf("invalid text: %v, %d written", err, len(nc.out))
	}
}

// TestValidUTF8 replaces invalid text in each kind of field, and changes no
// message that is valid.
func TestValidUTF8(t *testing.T) {
	bad, good := "a\xffb", "a\uFFFDb"
	build := func(s string) *pb.ServerMessage {
		return &pb.ServerMessage{Msg: &pb.ServerMessage_Sessions{Sessions: &pb.SessionList{
			Sessions: []*pb.SessionInfo{{Id: 3, Agent: s}, {Agent: "z"}}}}}
	}
	m := build(bad)
	if got := validUTF8(m); !proto.Equal(got, build(good)) || !proto.Equal(m, build(bad)) {
		t.Errorf("%v", got)
	}
	if got := validUTF8(build(good)); !proto.Equal(got, build(good)) {
		t.Errorf("%v", got)
	}
	result := func(s string) *pb.ServerMessage {
		return &pb.ServerMessage{Msg: &pb.ServerMessage_Result{Result: &pb.Result{Warnings: []string{s, "z"}}}}
	}
	if got := validUTF8(result(bad)); !proto.Equal(got, result(good)) {
		t.Errorf("%v", got)
	}
}

// TestFirstRead checks the size of the buffer of a new connection: it takes a
// message of 16 KiB with one read, and no more.
func TestFirstRead(t *testing.T) {
	nc := &pieceConn{piece: 1, err: io.EOF}
	if _, err := NewConn(nc).frame(); !errors.Is(err, ErrClosed) || len(nc.reads) != 1 || nc.reads[0] != 16<<10 {
		t.Errorf("reads %v, %v", nc.reads, err)
	}
}

// TestErrorTexts checks the texts of errors, and what they wrap.
func TestErrorTexts(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		err  error
		text string
		is   error
	}{
		{&TooLargeError{5, 4}, "frame too large: 5 bytes (max 4)", nil}, {&CodecError{io.EOF}, "codec error: EOF", io.EOF},
		{checkPath(long), "at most 10", syscall.ENAMETOOLONG}, {&fullError{}, "retry the request", nil}, {truncated(io.EOF), "", ErrTruncated},
		{truncated(syscall.EIO), "io error: ", syscall.EIO}, {ioError(errStopped), "stopped", errStopped}, {truncated(errStopped), "stopped", errStopped},
	} {
		if !strings.Contains(c.err.Error(), c.text) || c.is != nil && !errors.Is(c.err, c.is) || errors.Is(c.err, syscall.ENOENT) {
			t.Errorf("%v: want %q of %v", c.err, c.text, c.is)
		}
	}
	if truncated(nil) != nil || ioError(nil) != nil {
		t.Error("no error is one")
	}
	for n, ok := range map[int]bool{1: true, 103: true, 200: false, 108: false} {
		if err := checkPath(long[:n]); (err == nil) != ok {
			t.Errorf("a path of %d bytes: %v", n, err)
		}
	}
}

// TestBuffer checks the room for a client's first read.
func TestBuffer(t *testing.T) {
	nc := &pieceConn{err: io.EOF}
	if err := NewConn(nc).Read(pong()); err != ErrClosed || len(nc.reads) != 1 || nc.reads[0] != 16<<10 {
		t.Errorf("%v after reads of %v", err, nc.reads)
	}
}

func TestLimits(t *testing.T) {
	want := Limits{Header: 10 * time.Second, Progress: 30 * time.Second, InFlight: 64 << 20, Request: 2 << 30, Working: 256, Conns: 1024}
	for _, l := range []Limits{{}, {Header: -1, Progress: -1, InFlight: -1, Request: -1, Working: -1, Conns: -1}} {
		if got := l.withDefaults(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	set := Limits{Header: 1, Progress: 1, InFlight: MaxFrame + 1, Request: 1, Working: 1, Conns: 1}
	if got := set.withDefaults(); got != set {
		t.Errorf("%+v, want %+v", got, set)
	}
	if got := (Limits{InFlight: 1}).withDefaults().InFlight; got != MaxFrame {
		t.Errorf("%d bytes in flight", got)
	}
}

// TestRequestContext checks the values, the deadline, and the end of a request's
// context, before and after its first use.
func TestRequestContext(t *testing.T) {
	type key struct{}
	for _, late := range []bool{false, true} {
		parent, cancel := context.WithDeadline(context.WithValue(t.Context(), key{}, "value"), time.Now().Add(time.Hour))
		r := &request{conn: parent}
		if late {
			r.end()
		} else if r.Err() != nil {
			t.Errorf("err %v", r.Err())
		}
		at, ok := r.Deadline()
		if want, _ := parent.Deadline(); !ok || at != want || r.Value(key{}) != "value" {
			t.Errorf("deadline %v, %v; value %v", at, ok, r.Value(key{}))
		}
		r.end()
		<-r.Done()
		if r.Err() != context.Canceled || parent.Err() != nil {
			t.Errorf("ended: %v, %v", r.Err(), parent.Err())
		}
		cancel()
	}
}

// failingConn fails to close and to set a deadline.
type failingConn struct{ net.Conn }

func (failingConn) Close() error                { return syscall.EIO }
func (failingConn) SetDeadline(time.Time) error { return syscall.EBADF }

// TestConnErrors checks that a connection returns the errors of the system.
func TestConnErrors(t *testing.T) {
	c := NewConn(failingConn{})
	if err := c.Close(); err != syscall.EIO {
		t.Errorf("Close: %v", err)
	}
	if err := c.SetDeadline(time.Now()); err != syscall.EBADF {
		t.Errorf("SetDeadline: %v", err)
	}
}
