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
	// ErrInUse is returned when somebody else listens on the address.
	ErrInUse = errors.New("address in use")
	// ErrNobody is returned by Dial when nobody listens on the address.
	ErrNobody = errors.New("nobody listens")
	// ErrRefused is returned by Dial when the server does not take the token.
	ErrRefused = errors.New("refused")

	// errStopped ends the reading of a connection that the server gives up.
	errStopped = errors.New("stopped")
)

// TooLargeError is a frame over the limit. Nothing of it was read, or written.
type TooLargeError struct {
	Size, Max int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("frame too large: %d bytes (max %d)", e.Size, e.Max)
}

// CodecError is a whole frame that is no message. The next frame can be read.
type CodecError struct{ err error }

func (e *CodecError) Error() string { return "codec error: " + e.err.Error() }
func (e *CodecError) Unwrap() error { return e.err }

// fullError is returned when the frames of other connections have all the
// memory that frames may have.
type fullError struct{}

func (*fullError) Error() string { return "too much is being sent and received at once: try again" }
