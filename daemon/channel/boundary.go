package channel

import (
	"fmt"
	"strings"
	"time"
)

// Boundary determines when a conversation begins a session. The zero Boundary never does.
type Boundary struct {
	idle  time.Duration // without a message
	daily bool
	at    time.Duration // of the day, if daily is set
}

// Daily is the default: a session ends at 4 in the morning.
const Daily = "daily 04:00"

// ParseBoundary reads one of "one", "daily HH:MM", and "idle DURATION".
func ParseBoundary(text string) (b Boundary, err error) {
	kind, value, _ := strings.Cut(text, " ")
	switch kind {
	case "one":
		if text == kind {
			return b, nil
		}
	case "daily":
		if t, err := time.Parse("15:04", value); err == nil {
			return Boundary{daily: true, at: time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute}, nil
		}
	case "idle":
		if d, err := time.ParseDuration(value); err == nil && d >= time.Minute {
			return Boundary{idle: d}, nil
		}
	}
	return b, fmt.Errorf(`session = %q: want "one", "daily HH:MM", or "idle 8h" of at least a minute`, text)
}

// crossed reports whether a conversation whose newest turn was at a time begins a session.
func (b Boundary) crossed(active, now time.Time) bool {
	switch {
	case active.IsZero():
		return false
	case b.idle > 0:
		return now.Sub(active) >= b.idle
	case !b.daily:
		return false
	}
	at := b.on(now, 0)
	if at.After(now) {
		at = b.on(now, -1)
	}
	return active.Before(at)
}

// on returns the time of the boundary on the day of now, or some days later, in the zone of
// now. Days need not have 24 hours.
func (b Boundary) on(now time.Time, days int) time.Time {
	y, m, d := now.Date()
	return time.Date(y, m, d+days, int(b.at/time.Hour), int(b.at%time.Hour/time.Minute), 0, 0, now.Location())
}
