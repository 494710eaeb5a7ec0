package wire

import "time"

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
	if l.Working <= 0 {
		l.Working = 256
	}
	if l.Conns <= 0 {
		l.Conns = 1024
	}
	return l
}
