package crmem

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// UnixTime is a time in seconds since 1970. In JSON it is a text: RFC 3339 in UTC or,
// from the year 10000 on, "@" and the number.
type UnixTime uint64

// MaxDate is the last UnixTime that RFC 3339 can express, in the year 9999.
const MaxDate UnixTime = 253402300799

// Time returns t in UTC. It is not exact for times that are 30,000 years away.
func (t UnixTime) Time() time.Time { return time.Unix(int64(min(t, 1<<40)), 0).UTC() }

func (t UnixTime) String() string {
	if t > MaxDate {
		return "@" + strconv.FormatUint(uint64(t), 10)
	}
	return t.Time().Format(time.RFC3339)
}

// Day returns the date of t in a time zone.
func (t UnixTime) Day(zone *time.Location) string {
	if t > MaxDate {
		return t.String()
	}
	return t.Time().In(zone).Format(time.DateOnly)
}

// MarshalText returns the text of t.
func (t UnixTime) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalJSON sets t from its text, or from a number of seconds, as exports have it.
func (t *UnixTime) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	if n, err := strconv.ParseUint(strings.TrimPrefix(text, "@"), 10, 64); err == nil {
		*t = UnixTime(n)
		return nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err == nil && at.Unix() < 0 {
		err = fmt.Errorf("time %s: want a time from 1970 on", text)
	}
	*t = UnixTime(max(at.Unix(), 0))
	return err
}
