package wire

import (
	"errors"
	"fmt"
)

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

func (*fullError) Error() string { return "too much is being sent and received at once: try again" }
