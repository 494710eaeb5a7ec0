package cron

import (
	"fmt"
	"time"
)

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
		end, err := time.Parse("15:04", c.QuietEnd)
		if err != nil {
			return time.Time{}, err
		}
		at := due.In(loc)
		until := time.Date(at.Year(), at.Month(), at.Day(), end.Hour(), end.Minute(), 0, 0, loc)
		if minuteOf(end) <= minuteOf(at) {
			until = time.Date(at.Year(), at.Month(), at.Day()+1, end.Hour(), end.Minute(), 0, 0, loc)
		}
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
