package wire

import "time"

// Limits are what a Server grants its peers. Zero fields have the defaults.
type Limits struct {
	// Header is the time from the first byte of a frame to the end of its
	// length, and that to authenticate. 10 s.
	Header time.Duration
	// Progress is the time in which the next bytes of a frame must come, or be
	// taken. 30 s.
	Progress time.Duration
	// InFlight bounds the bytes of all long frames that are being read and
	// written. 64 MiB.
	InFlight int64
	// Working bounds the connections whose request is being answered, without
	// those that subscribed to events. 256.
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
	l.InFlight = max(l.InFlight, MaxFrame) // or one frame would wait for ever
	if l.Working <= 0 {
		l.Working = 256
	}
	if l.Conns <= 0 {
		l.Conns = 1024
	}
	return l
}
