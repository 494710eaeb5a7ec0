package cron

import "time"

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

// minuteOf is what a clock shows, in minutes of the day.
func minuteOf(t time.Time) int { return t.Hour()*60 + t.Minute() }
