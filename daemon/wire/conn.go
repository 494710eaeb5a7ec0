// Package wire sends the messages of package pb over a connection: a length of
// four bytes, big-endian, and then as many bytes of protobuf.
//
// The [Server] answers one request of a connection at a time. It allocates
// memory as bytes arrive, never because of a length field.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
)

// MaxFrame is the longest payload, inclusive.
const MaxFrame = 16 << 20

const (
	header     = 4
	smallFrame = 4 << 10  // buffer of an idle connection
	keepOut    = 64 << 10 // larger buffers are released after their message
	firstBig   = 16 << 10 // the first room for a frame that is not small
	chunk      = 64 << 10 // that must get through in one time-out
)

// Conn is a connection. One goroutine may read while another one writes.
type Conn struct {
	c   net.Conn
	in  []byte // in[r:w] was read and is not consumed
	r   int
	w   int
	out []byte
	max int     // largest accepted payload
	srv *served // nil: no limits of time and memory
	// held is how much of the server's budget the frame last read has.
	held int
}

// NewConn carries messages over c.
func NewConn(c net.Conn) *Conn { return newConn(c, 4*smallFrame) }

func newConn(c net.Conn, room int) *Conn {
	return &Conn{c: c, in: make([]byte, room), max: MaxFrame}
}

// Close closes the connection. Pending calls of Read and Write return.
func (c *Conn) Close() error { return c.c.Close() }

// SetDeadline sets the deadline of pending and future calls of Read and Write,
// as net.Conn's.
func (c *Conn) SetDeadline(t time.Time) error { return c.c.SetDeadline(t) }

// Read reads a message. Errors: ErrClosed, ErrTruncated, *TooLargeError,
// *CodecError, and the system's.
func (c *Conn) Read(m proto.Message) error {
	b, err := c.frame()
	if err == nil {
		if err = proto.Unmarshal(b, m); err != nil {
			err = &CodecError{err}
		}
	}
	c.releaseBuffer()
	return err
}

// frame reads a frame and returns its payload, which is good until the next
// call.
func (c *Conn) frame() ([]byte, error) {
	for c.w-c.r < header {
		if c.w > c.r {
			if err := c.srv.timeHeader(); err != nil {
				return nil, err
			}
		}
		if err := c.fill(); errors.Is(err, io.EOF) {
			return nil, ErrClosed
		} else if err != nil {
			return nil, ioError(err)
		}
	}
	size := binary.BigEndian.Uint32(c.in[c.r:])
	if size > uint32(c.max) {
		return nil, &TooLargeError{Size: int(min(size, math.MaxInt32)), Max: c.max}
	}
	n := int(size)
	if n > len(c.in)-header {
		return c.large(n)
	}
	for c.w-c.r < header+n {
		if err := c.srv.timeProgress(); err != nil {
			return nil, err
		}
		if err := c.fill(); err != nil {
			return nil, truncated(err)
		}
	}
	b := c.in[c.r+header : c.r+header+n]
	c.r += header + n
	return b, c.srv.untime()
}

// fill reads the available bytes, at least one.
func (c *Conn) fill() error {
	if c.w == len(c.in) || c.w-c.r < header {
		copy(c.in, c.in[c.r:c.w])
		c.r, c.w = 0, c.w-c.r
	}
	n, err := c.c.Read(c.in[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// large reads a payload that has no room in c.in. The room for it doubles as
// it fills.
func (c *Conn) large(n int) ([]byte, error) {
	b := append(make([]byte, 0, min(n, max(firstBig, c.w-c.r))), c.in[c.r+header:c.w]...)
	c.r, c.w = 0, 0
	for len(b) < n {
		if len(b) == cap(b) {
			if c.held == 0 && c.srv != nil {
				// Reserve all of it: frames that wait for each other's second
				// half would deadlock.
				if err := c.srv.reserve(n); err != nil {
					return nil, err
				}
				c.held = n
			}
			b = slices.Grow(b, min(cap(b), n-len(b)))
		}
		k, err := c.some(b[len(b):min(cap(b), n)])
		b = b[:len(b)+k]
		if err != nil {
			return nil, err
		}
	}
	return b, c.srv.untime()
}

// some reads into b. If other connections wait for memory, a frame must receive
// more than a byte in its time.
func (c *Conn) some(b []byte) (int, error) {
	if err := c.srv.timeProgress(); err != nil {
		return 0, err
	}
	if c.held > 0 {
		n, err := io.ReadFull(c.c, b[:min(len(b), chunk)])
		return n, truncated(err)
	}
	n, err := c.c.Read(b)
	if n > 0 {
		err = nil
	}
	return n, truncated(err)
}

// releaseBuffer returns the memory of the last frame to the server's budget.
func (c *Conn) releaseBuffer() {
	if c.held > 0 {
		c.srv.release(c.held)
		c.held = 0
	}
}

// Write writes a message in one piece. It replaces invalid UTF-8. If it returns
// a *TooLargeError, it has written nothing.
func (c *Conn) Write(m proto.Message) error {
	size := proto.Size(m)
	if size > MaxFrame {
		return &TooLargeError{Size: size, Max: MaxFrame}
	}
	if size > keepOut && c.srv != nil {
		if err := c.srv.reserve(size); err != nil {
			return err
		}
		defer c.srv.release(size)
	}
	b := append(c.out[:0], make([]byte, header)...)
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
	if err != nil {
		// Text that is not UTF-8 is all that protobuf refuses to write.
		m = validUTF8(m)
		b, err = proto.MarshalOptions{}.MarshalAppend(append(c.out[:0], make([]byte, header)...), m)
	}
	if err != nil {
		return &CodecError{err}
	}
	if len(b)-header > MaxFrame {
		return &TooLargeError{Size: len(b) - header, Max: MaxFrame}
	}
	if cap(b) <= keepOut {
		c.out = b
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-header))
	return c.send(b)
}

// send writes a frame, a long one in pieces. It waits for a peer that reads
// slowly, but not for one that does not read.
func (c *Conn) send(b []byte) error {
	for len(b) > 0 {
		piece := b
		if c.srv != nil {
			piece = b[:min(len(b), chunk)]
		}
		n, err := c.c.Write(piece)
		if err != nil && !c.srv.patient(n, err) {
			return ioError(err)
		}
		if err == nil {
			c.srv.wrote()
		}
		b = b[n:]
	}
	return nil
}

func truncated(err error) error {
	if err == nil || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return ioError(err)
	}
	return ErrTruncated
}

func ioError(err error) error {
	if err == nil || errors.Is(err, errStopped) {
		return err
	}
	return fmt.Errorf("io error: %w", err)
}

// Fresh reports whether a connection can take another request: no unexpected
// bytes arrived, and the peer has not closed it. It returns false if the system
// cannot tell.
func (c *Conn) Fresh() bool { return c.r == c.w && quiet(c.c) }

// Limits are the limits of a Server for its peers. Zero fields mean the
// defaults.
type Limits struct {
	// Header is the time from the first byte of a frame to the end of its
	// length, and that to authenticate. 10 s.
	Header time.Duration
	// Progress limits the wait for the next bytes of a frame, in either
	// direction. 30 s.
	Progress time.Duration
	// InFlight bounds the bytes of all long frames that are being read and
	// written. 64 MiB.
	InFlight int64
	// Request limits the bytes of a request in several messages. 2 GiB: a store is in
	// memory, and its snapshot has at most 1 GiB.
	Request int64
	// Working limits the connections with an active request, without
	// subscribers. 256.
	Working int
	// Conns bounds the connections, and of them those that subscribed to events.
	// The one longest without a request makes room for a new one. 1024.
	Conns int
}

func (l Limits) withDefaults() Limits {
	if l.Header <= 0 {
		l.Header = 10 * time.Second
	}
	if l.Progress <= 0 {
		l.Progress = 30 * time.Second
	}
	if l.InFlight <= 0 {
		l.InFlight = 64 << 20
	}
	l.InFlight = max(l.InFlight, MaxFrame) // a smaller limit would block one frame indefinitely
	if l.Request <= 0 {
		l.Request = 2 << 30
	}
	if l.Working <= 0 {
		l.Working = 256
	}
	if l.Conns <= 0 {
		l.Conns = 1024
	}
	return l
}

var (
	// ErrClosed is returned when the peer ended the connection where a frame
	// ends, or inside the four bytes of a header.
	ErrClosed = errors.New("connection closed")
	// ErrTruncated is returned when the connection ended inside a frame.
	ErrTruncated = errors.New("io error: the connection ended inside a frame")
	// ErrInUse is returned when another process listens on the address.
	ErrInUse = errors.New("address in use")
	// ErrNoListener is returned by Dial when the address has no listener.
	ErrNoListener = errors.New("no listener")
	// ErrRefused is returned by Dial when the server rejects the token.
	ErrRefused = errors.New("refused")

	// errStopped ends reads of a connection that the server closes.
	errStopped = errors.New("stopped")
)

// TooLargeError reports a frame over the limit. No byte of its payload was read
// or written.
type TooLargeError struct {
	Size, Max int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("frame too large: %d bytes (max %d)", e.Size, e.Max)
}

// CodecError reports a complete frame that is not a message. The next frame can
// be read.
type CodecError struct{ err error }

func (e *CodecError) Error() string { return "codec error: " + e.err.Error() }
func (e *CodecError) Unwrap() error { return e.err }

// fullError is returned when frames of other connections use all the memory for
// frames.
type fullError struct{}

func (*fullError) Error() string { return "too many bytes in flight: retry the request" }
