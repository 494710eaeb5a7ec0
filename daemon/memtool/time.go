package memtool

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ParseTime parses a day, a time or an age before now. A day is its beginning or, if
// end is set, its end. Without a text the result is the zero time.
func ParseTime(s string, end bool, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		if end {
			t = t.AddDate(0, 0, 1).Add(-1)
		}
		return t, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	if age, err := ParseAge(s); err == nil {
		return now.Add(-age), nil
	}
	return time.Time{}, fmt.Errorf("%q: want a day (2026-04-14), a time (2026-04-14T10:00:00Z), or an age (90d)", s)
}

// ParseAge reads a duration in years (365 days), weeks, days or what
// time.ParseDuration takes.
func ParseAge(s string) (time.Duration, error) {
	const day = 24 * time.Hour
	units := map[byte]time.Duration{'d': day, 'w': 7 * day, 'y': 365 * day}
	var d time.Duration
	var err error
	if unit := units[lastByte(s)]; unit != 0 {
		var n uint64
		n, err = strconv.ParseUint(s[:len(s)-1], 10, 64)
		if n > uint64(1<<63-1)/uint64(unit) || errors.Is(err, strconv.ErrRange) {
			return 0, fmt.Errorf("age %q is too long", s)
		}
		d = time.Duration(n) * unit
	} else {
		d, err = time.ParseDuration(s)
	}
	if err != nil || d < 0 {
		return 0, fmt.Errorf("age %q: want a number and a unit, such as 90d, 12w, 1y, or 36h", s)
	}
	return d, nil
}

func lastByte(s string) byte {
	if s == "" {
		return 0
	}
	return s[len(s)-1]
}
