package cron

import (
	"fmt"
	"time"
)

// Quiet reports whether an entry must not run at a time: the clock of its zone
// is at or after quiet_start, and before quiet_end, which may be on the next
// day. It takes both to have quiet hours; when they are the same there are none.
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

// manyQuiet is how many times in a row may be quiet before it is taken for
// always: more than the days of a year.
const manyQuiet = 400

// Next returns the first moment after a given one when an entry runs: its
// schedule is due, and it is not quiet.
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
		// What is due before the quiet hours end, or in the same minute, is quiet.
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

// minuteOf is what a clock shows, in minutes of the day.
func minuteOf(t time.Time) int { return t.Hour()*60 + t.Minute() }
