package cron

import (
	"fmt"
	"testing"
	"time"

	"crabmem/fuzz/race"
)

// TestQuiet holds every minute of a day against a table of windows.
func TestQuiet(t *testing.T) {
	for _, c := range []struct {
		start, end string
		quiet      int // minutes of the day
		in, out    string
	}{
		{"23:00", "07:00", 480, "23:00 06:59", "07:00 22:59"},
		{"07:00", "23:00", 960, "07:00 22:59", "23:00 06:59"},
		{"12:00", "12:00", 0, "", "12:00"},
		{"00:00", "00:01", 1, "00:00", "00:01 23:59"},
		{"12:00", "", 0, "", "12:00"},
		{"", "12:00", 0, "", "11:00"},
	} {
		e := Cron{QuietStart: c.start, QuietEnd: c.end, Timezone: "UTC"}
		n := 0
		for m := range 24 * 60 {
			if e.Quiet(time.Date(2026, 4, 14, m/60, m%60, 30, 0, time.UTC)) {
				n++
			}
		}
		if n != c.quiet {
			t.Errorf("%s to %s: %d minutes are quiet, want %d", c.start, c.end, n, c.quiet)
		}
		for text, want := range map[string]bool{c.in: true, c.out: false} {
			for text != "" {
				var hour, minute int
				if _, err := fmt.Sscanf(text, "%d:%d", &hour, &minute); err != nil {
					t.Fatal(err)
				}
				if e.Quiet(time.Date(2026, 4, 14, hour, minute, 0, 0, time.UTC)) != want {
					t.Errorf("%s to %s: at %02d:%02d quiet is %v", c.start, c.end, hour, minute, !want)
				}
				text = text[min(len(text), 6):]
			}
		}
	}
	berlin := Cron{QuietStart: "22:00", QuietEnd: "23:00", Timezone: "Europe/Berlin"}
	if !berlin.Quiet(time.Date(2026, 7, 1, 20, 30, 0, 0, time.UTC)) || berlin.Quiet(time.Date(2026, 7, 1, 21, 30, 0, 0, time.UTC)) {
		t.Error("the hours are not those of the entry's zone")
	}
}

// TestNextIsNotQuiet compares with a clock that is looked at every minute, over
// the days when it is set forward and back.
func TestNextIsNotQuiet(t *testing.T) {
	race.Skip(t)
	for _, c := range []Cron{
		{Schedule: "0 9 * * *", QuietStart: "23:00", QuietEnd: "07:00"},
		{Schedule: "0 9,22 * * *", QuietStart: "08:00", QuietEnd: "21:00"},
		{Schedule: "*/30 * * * *", QuietStart: "23:00", QuietEnd: "07:00"},
		{Schedule: "* * * * *", QuietStart: "00:00", QuietEnd: "23:59"},
		{Schedule: "*/20 * * * *", QuietStart: "22:00", QuietEnd: "02:30"},
	} {
		c.Timezone = "Europe/Berlin"
		for _, from := range []time.Time{
			time.Date(2026, 3, 28, 20, 10, 0, 0, time.UTC),
			time.Date(2026, 10, 24, 20, 10, 0, 0, time.UTC),
			time.Date(2026, 7, 1, 23, 10, 0, 0, time.UTC),
		} {
			loc, err := c.Location()
			if err != nil {
				t.Fatal(err)
			}
			want := from
			for {
				if want, err = Next(c.Schedule, want, loc); err != nil {
					t.Fatal(err)
				}
				if !c.Quiet(want) {
					break
				}
			}
			if got, err := c.Next(from); err != nil || !got.Equal(want) {
				t.Errorf("%s, quiet from %s to %s, after %v: %v, %v; want %v", c.Schedule, c.QuietStart, c.QuietEnd, from, got, err, want)
			}
		}
	}
	never := Cron{Schedule: "0 9 * * *", QuietStart: "08:00", QuietEnd: "10:00"}
	if at, err := never.Next(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)); err == nil {
		t.Errorf("it is due at %v, in its quiet hours", at)
	}
	often := Cron{Schedule: "* * * * * *", QuietStart: "00:00", QuietEnd: "23:59", Timezone: "UTC"}
	if at, err := often.Next(time.Date(2026, 7, 1, 3, 0, 0, 0, time.UTC)); err != nil || at.Format("15:04:05") != "23:59:00" {
		t.Errorf("%v, %v", at, err)
	}
}

// TestNextGivesUp searches past the greatest number of quiet times, and one more.
// The first time that is not quiet is the end of an hour that clocks skip.
func TestNextGivesUp(t *testing.T) {
	race.Skip(t)
	c := Cron{Schedule: "* 2 * * *", QuietStart: "02:00", QuietEnd: "03:00", Timezone: "Europe/Berlin"}
	from := time.Date(2026, 3, 22, 1, 20, 0, 0, time.UTC) // 02:20; 39 times follow on this day, and 60 on each of 6 days
	want := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
	if at, err := c.Next(from); err != nil || !at.Equal(want) {
		t.Errorf("after 399 quiet times: %v, %v, want %v", at, err, want)
	}
	if at, err := c.Next(from.Add(-time.Minute)); err == nil {
		t.Errorf("after 400 quiet times: %v, want an error", at)
	}
}
