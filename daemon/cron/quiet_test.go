package cron

import (
	"fmt"
	"testing"
	"time"
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
