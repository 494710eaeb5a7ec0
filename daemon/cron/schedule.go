package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"crabmem/daemon/lazyregexp"

	"github.com/adhocore/gronx"
)

// fields are the seven of a schedule, seconds first.
var fields = []struct {
	name      string
	low, high int
}{
	{"second", 0, 59}, {"minute", 0, 59}, {"hour", 0, 23}, {"day of the month", 1, 31}, {"month", 1, 12}, {"day of the week", 0, 7}, {"year", 1970, 9999},
}

var (
	year = lazyregexp.New(`\d{4}`)
	item = lazyregexp.New(`^(?:\*|\?|(\d{1,4})(?:-(\d{1,4}))?)(?:/(\d{1,4}))?$`)
	day  = lazyregexp.New(`^(?:L|(\d{1,2})W)$`)    // the last, the weekday nearest to
	week = lazyregexp.New(`^([0-7])(?:L|#[1-5])$`) // the last of a month, the n-th
)

// interval returns the time between the runs of a schedule @every DURATION, or 0 for other
// schedules.
func interval(schedule string) (time.Duration, error) {
	every, ok := strings.CutPrefix(schedule, "@every ")
	if !ok {
		return 0, nil
	}
	d, err := time.ParseDuration(strings.TrimSpace(every))
	if err != nil || d < time.Minute || d > 366*24*time.Hour || d%time.Second != 0 {
		return 0, invalid("invalid cron schedule %s: @every needs a duration from 1m to 8784h, such as 90m", quote(schedule))
	}
	return d, nil
}

// segments splits a schedule into its fields, seconds first, and validates them.
// The year is optional. gronx accepts errors that only some times reveal.
func segments(schedule string) ([]string, error) {
	wrong := func(format string, args ...any) error {
		return invalid("invalid cron schedule %s: %s", quote(schedule), fmt.Sprintf(format, args...))
	}
	if len(schedule) > 256 || strings.ContainsAny(schedule, "\r\n\x00") {
		return nil, wrong("it must be one line of at most 256 bytes")
	}
	given := strings.Fields(schedule)
	if n := len(given); n == 1 && given[0][0] == '@' {
		if _, err := gronx.Segments(given[0]); err != nil {
			return nil, wrong("unknown name: use @yearly, @monthly, @weekly, @daily, @hourly, or @every 90m")
		}
	} else if n < 5 || n > 7 {
		return nil, wrong("it has %d fields and must have 5 (minute, hour, day, month, day of the week), or 6 with seconds first", n)
	} else if n == 6 && year().MatchString(given[5]) {
		return nil, wrong("its sixth field is not a day of the week; a year requires 7 fields: seconds first, year last")
	}
	segs, err := gronx.Segments(strings.Join(given, " "))
	if err != nil {
		return nil, wrong("%s", err)
	}
	for i, seg := range segs {
		for j, part := range strings.Split(seg, ",") {
			if why := badItem(i, part); why != "" {
				if k := i - (len(segs) - len(given)); k >= 0 { // in the user's spelling, not with numbers for names
					part = strings.Split(given[k], ",")[j]
				}
				return nil, wrong("%s %s %s", fields[i].name, quote(part), why)
			}
		}
	}
	return segs, nil
}

// badItem returns why one of the values of a field is invalid, or "".
func badItem(field int, part string) string {
	f := fields[field]
	in := func(n string) bool {
		v, err := strconv.Atoi(n)
		return err == nil && v >= f.low && v <= f.high
	}
	if m := day().FindStringSubmatch(part); m != nil && field == 3 {
		if m[1] != "" && !in(m[1]) {
			return fmt.Sprintf("is not between %d and %d", f.low, f.high)
		}
		return ""
	}
	if week().MatchString(part) && field == 5 {
		return ""
	}
	m := item().FindStringSubmatch(part)
	if m == nil || part[0] == '?' && (len(part) > 1 || field != 3 && field != 5) {
		return "is not a valid value"
	}
	from, to, step := m[1], m[2], m[3]
	if from != "" && !in(from) || to != "" && !in(to) {
		return fmt.Sprintf("is not between %d and %d", f.low, f.high)
	}
	a, _ := strconv.Atoi(from)
	b, _ := strconv.Atoi(to)
	if to != "" && b < a && !(field == 5 && a == 7) {
		return "ends before it begins"
	}
	if n, _ := strconv.Atoi(step); step != "" && (n < 1 || n > f.high) {
		return fmt.Sprintf("has a step that is not between 1 and %d", f.high)
	}
	return ""
}

// Location is where the clock is that the schedule goes by.
func (c *Cron) Location() (*time.Location, error) {
	if c.Timezone == "" {
		return time.Local, nil
	}
	loc, err := time.LoadLocation(c.Timezone)
	if err != nil || len(c.Timezone) > 64 {
		return nil, invalid("invalid timezone %s: it must be one like Europe/Berlin", quote(c.Timezone))
	}
	return loc, nil
}

// checkFires refuses a day that never comes.
func (c *Cron) checkFires() error {
	loc, err := c.Location()
	if err != nil {
		return err
	}
	_, err = Next(c.Schedule, time.Now(), loc)
	return err
}

// Next returns the first time after the given one at which a schedule is due in
// a time zone. A schedule has five fields (minute, hour, day of the month,
// month, day of the week: 0 or 7 is Sunday), six with seconds first, or seven
// with a year last; or it is a name such as @daily. @every 90m is due at each
// multiple of 90 minutes since 1970-01-01 UTC. If both a day of the month and a
// day of the week are given, one match is enough. The reference counts the days
// of the week from 1: there, 1 is Sunday.
//
// If clocks are set forward, a time in the missing hour is due at the end of
// that hour. If clocks are set back, a time in the repeated hour is due once,
// the first time. A schedule for every hour is due in each hour that elapses.
func Next(schedule string, after time.Time, loc *time.Location) (time.Time, error) {
	if d, err := interval(schedule); err != nil {
		return time.Time{}, err
	} else if secs := int64(d / time.Second); secs > 0 {
		return time.Unix((after.Unix()/secs+1)*secs, 0).In(loc), nil
	}
	segs, err := segments(schedule)
	if err != nil {
		return time.Time{}, err
	}
	hourly := segs[2] == "*" || segs[2] == "*/1"
	expr := strings.Join(segs, " ")
	from, including := after, false
	for range 100 {
		t := from.In(loc)
		_, offset := t.Zone()
		start, end := t.ZoneBounds()
		// Within these bounds the clock is an even one.
		due, err := gronx.NextTickAfter(expr, t.In(time.FixedZone("", offset)), including)
		if err != nil {
			return time.Time{}, invalid("invalid cron schedule %s: it is never due", quote(schedule))
		}
		if end.IsZero() || due.Before(end) {
			if !hourly && !start.IsZero() {
				_, before := start.Add(-1).Zone()
				if due.Sub(start) < time.Duration(before-offset)*time.Second {
					from, including = due, false // the clock showed this time before
					continue
				}
			}
			return due.In(loc), nil
		}
		_, later := end.Zone()
		if !hourly && due.Sub(end) < time.Duration(later-offset)*time.Second {
			return end.In(loc), nil
		}
		from, including = end, true
		if far := due.Add(-48 * time.Hour); far.After(end) {
			from = far // no day before it was due by any clock
		}
	}
	return time.Time{}, invalid("invalid cron schedule %s: it is never due", quote(schedule))
}

// Quiet reports whether an entry must not run at a time: in its time zone the
// time is at or after quiet_start and before quiet_end, which may be on the
// next day. An entry has no quiet hours if either is empty or both are equal.
func (c *Cron) Quiet(at time.Time) bool {
	start, err := time.Parse("15:04", c.QuietStart)
	if err != nil {
		return false
	}
	end, err := time.Parse("15:04", c.QuietEnd)
	if err != nil {
		return false
	}
	loc, err := c.Location()
	if err != nil {
		return false
	}
	at = at.In(loc)
	now, from, to := minuteOf(at), minuteOf(start), minuteOf(end)
	if from <= to {
		return from <= now && now < to
	}
	return now >= from || now < to
}

// manyQuiet is the number of consecutive quiet times after which Next gives up:
// more than the days of a year.
const manyQuiet = 400

// Next returns the first time after the given one at which an entry runs: its
// schedule is due, and the time is not quiet.
func (c *Cron) Next(after time.Time) (time.Time, error) {
	loc, err := c.Location()
	if err != nil {
		return time.Time{}, err
	}
	for range manyQuiet {
		due, err := Next(c.Schedule, after, loc)
		if err != nil || !c.Quiet(due) {
			return due, err
		}
		// Times before the end of the quiet hours, and in the same minute, are
		// quiet.
		end, _ := time.Parse("15:04", c.QuietEnd) // valid: the time is quiet
		at := due.In(loc)
		day := at.Day()
		if minuteOf(end) <= minuteOf(at) {
			day++
		}
		until := time.Date(at.Year(), at.Month(), day, end.Hour(), end.Minute(), 0, 0, loc)
		after = at.Truncate(time.Minute).Add(time.Minute - time.Second)
		// A clock that is set back shows the end of them twice.
		if first := until.Add(-time.Hour - time.Second); first.After(after) {
			after = first
		}
	}
	return time.Time{}, fmt.Errorf("schedule %s is never due outside the quiet hours", quote(c.Schedule))
}

// minuteOf returns the minute of the day.
func minuteOf(t time.Time) int { return t.Hour()*60 + t.Minute() }
