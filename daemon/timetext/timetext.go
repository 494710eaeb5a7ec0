// Package timetext parses times as people write them.
package timetext

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Forms lists the forms that [Parse] reads, for help texts and errors.
const Forms = "a day (2026-04-14, today, yesterday), a month (2026-04), a time (2026-04-14T10:00:00Z), or an age (2d, 12h)"

// periods are the layouts of periods, with their lengths.
var periods = []struct {
	layout              string
	years, months, days int
}{{time.DateOnly, 0, 0, 1}, {"2006-01", 0, 1, 0}, {"2006", 1, 0, 0}}

// Parse parses a day, month, year, or time in the zone of now, or an age before
// now. For a day, month, or year it returns the beginning or, if end is set, the
// end. For an empty text it returns the zero time.
func Parse(s string, end bool, now time.Time) (time.Time, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	switch text {
	case "":
		if s == "" {
			return time.Time{}, nil
		}
	case "now":
		return now, nil
	case "today":
		text = now.Format(time.DateOnly)
	case "yesterday":
		text = now.AddDate(0, 0, -1).Format(time.DateOnly)
	}
	for _, p := range periods {
		if t, err := time.ParseInLocation(p.layout, text, now.Location()); err == nil {
			if end {
				t = t.AddDate(p.years, p.months, p.days).Add(-1)
			}
			return t, nil
		}
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(layout, strings.ToUpper(text), now.Location()); err == nil {
			return t, nil
		}
	}
	if age, err := ParseAge(strings.TrimSpace(strings.TrimSuffix(text, " ago"))); err == nil {
		return now.Add(-age), nil
	}
	return time.Time{}, fmt.Errorf("%q: want %s", s, Forms)
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
