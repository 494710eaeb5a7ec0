package cron_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"crabmem/bench/gate"
	"crabmem/daemon/cron"
	"crabmem/fuzz/race"
)

func place(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestNext(t *testing.T) {
	for _, c := range []struct{ zone, schedule, after, want string }{
		{"UTC", "* * * * *", "2026-11-21T10:00:00Z", "2026-11-21T10:01:00Z 2026-11-21T10:02:00Z"},
		{"UTC", "* * * * *", "2026-11-21T10:00:59.999Z", "2026-11-21T10:01:00Z"},
		{"UTC", "0 9 * * 1-5", "2026-11-20T09:00:00Z", "2026-11-23T09:00:00Z 2026-11-24T09:00:00Z"},
		{"UTC", "0 9 * * MON-fri", "2026-11-20T09:00:00Z", "2026-11-23T09:00:00Z"},
		{"UTC", "0 0 * * 0", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"UTC", "0 0 * * 7", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"UTC", "0 0 * * SUN", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"UTC", "30 4 1,15 * 5", "2026-11-27T04:30:00Z", "2026-12-01T04:30:00Z 2026-12-04T04:30:00Z"},
		{"UTC", "0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"UTC", "0 0 31 * *", "2026-08-31T00:00:00Z", "2026-10-31T00:00:00Z"},
		{"UTC", "*/20 * * * * *", "2026-11-21T10:00:00Z", "2026-11-21T10:00:20Z 2026-11-21T10:00:40Z 2026-11-21T10:01:00Z"},
		{"UTC", "*/59 * * * *", "2026-11-21T10:00:00Z", "2026-11-21T10:59:00Z 2026-11-21T11:00:00Z"},
		{"UTC", "0 */23 * * *", "2026-11-21T10:00:00Z", "2026-11-21T23:00:00Z 2026-11-22T00:00:00Z"},
		{"UTC", "0 0 * */12 *", "2026-11-30T10:00:00Z", "2027-01-01T00:00:00Z"},
		{"UTC", "0 30 9 1 1 * 2099", "2026-11-21T10:00:00Z", "2099-01-01T09:30:00Z"},
		{"UTC", "@daily", "2026-11-21T10:00:00Z", "2026-11-22T00:00:00Z"},
		{"UTC", " @Hourly ", "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"},
		{"UTC", "0 0 L * *", "2026-11-21T10:00:00Z", "2026-11-30T00:00:00Z 2026-12-31T00:00:00Z"},
		{"UTC", "0 0 15W * *", "2026-08-01T10:00:00Z", "2026-08-14T00:00:00Z"},
		{"UTC", "0 0 * * 5#2", "2026-11-21T10:00:00Z", "2026-12-11T00:00:00Z"},
		{"UTC", "0 0 ? * 5L", "2026-11-21T10:00:00Z", "2026-11-27T00:00:00Z"},
		{"Asia/Kolkata", "0 9 * * *", "2026-11-21T10:00:00Z", "2026-11-22T09:00:00+05:30"},

		// Clocks go forward: 02:30 does not exist, and the job is due at 03:00.
		{"Europe/Berlin", "30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{"Europe/Berlin", "0 2,3 * * *", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00 2026-03-30T02:00:00+02:00"},
		{"Europe/Berlin", "0 3 * * *", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00 2026-03-30T03:00:00+02:00"},
		{"Europe/Berlin", "*/30 * * * *", "2026-03-29T00:15:00Z", "2026-03-29T01:30:00+01:00 2026-03-29T03:00:00+02:00 2026-03-29T03:30:00+02:00"},
		{"Europe/Berlin", "15 * * * *", "2026-03-29T00:15:00Z", "2026-03-29T03:15:00+02:00"},
		{"America/Sao_Paulo", "0 0 * * *", "2018-11-03T12:00:00Z", "2018-11-04T01:00:00-02:00 2018-11-05T00:00:00-02:00"},
		// Clocks go back: 02:30 occurs twice, and the job is due once.
		{"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
		{"Europe/Berlin", "30 2 * * *", "2026-10-25T01:15:00Z", "2026-10-26T02:30:00+01:00"},
		{"Europe/Berlin", "0 3 * * *", "2026-10-25T00:45:00Z", "2026-10-25T03:00:00+01:00"},
		{"Europe/Berlin", "*/30 * * * *", "2026-10-24T23:45:00Z", "2026-10-25T02:00:00+02:00 2026-10-25T02:30:00+02:00 2026-10-25T02:00:00+01:00 2026-10-25T02:30:00+01:00 2026-10-25T03:00:00+01:00"},
		{"America/New_York", "30 1 * * *", "2026-10-31T12:00:00Z", "2026-11-01T01:30:00-04:00 2026-11-02T01:30:00-05:00"},
		{"Australia/Lord_Howe", "45 1 * * *", "2026-04-03T20:00:00Z", "2026-04-05T01:45:00+11:00 2026-04-06T01:45:00+10:30"},
		{"Australia/Lord_Howe", "15 2 * * *", "2026-10-02T20:00:00Z", "2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00"},
	} {
		at, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		loc := place(t, c.zone)
		for _, want := range strings.Fields(c.want) {
			next, err := cron.Next(c.schedule, at, loc)
			if got := next.Format(time.RFC3339); err != nil || got != want {
				t.Errorf("%s in %s after %v: %s, %v, want %s", c.schedule, c.zone, at, got, err, want)
				break
			}
			at = next
		}
	}
}

// TestNextIsTheFirst compares with a clock that is looked at every minute.
func TestNextIsTheFirst(t *testing.T) {
	race.Skip(t)
	for _, c := range []struct {
		zone       string
		month, day int
	}{{"Europe/Berlin", 3, 29}, {"Europe/Berlin", 10, 25}, {"Australia/Lord_Howe", 4, 5}, {"Australia/Lord_Howe", 10, 4}} {
		at := time.Date(2026, time.Month(c.month), c.day-1, 0, 0, 0, 0, place(t, c.zone))
		end := at.AddDate(0, 0, 3)
		next, err := cron.Next("*/15 * * * *", at, at.Location())
		for m := at.Add(time.Minute); m.Before(end); m = m.Add(time.Minute) {
			if m.Minute()%15 != 0 {
				continue
			}
			if err != nil || !next.Equal(m) {
				t.Fatalf("%s: %v, %v, want %v", c.zone, next, err, m)
			}
			next, err = cron.Next("*/15 * * * *", m, at.Location())
		}
	}
}

func TestInvalidSchedules(t *testing.T) {
	for schedule, want := range map[string]string{
		"":                       "it has 0 fields and must have 5 (minute, hour, day, month, day of the week), or 6 with seconds first",
		"* * * *":                "it has 4 fields and must have 5 (minute, hour, day, month, day of the week), or 6 with seconds first",
		"* * * * * * * *":        "it has 8 fields and must have 5 (minute, hour, day, month, day of the week), or 6 with seconds first",
		"@fortnightly":           "unknown name: use @yearly, @monthly, @weekly, @daily, @hourly, or @every 90m",
		"60 * * * *":             "minute '60' is not between 0 and 59",
		"1,61 * * * *":           "minute '61' is not between 0 and 59",
		"* 24 * * *":             "hour '24' is not between 0 and 23",
		"* * 0 * *":              "day of the month '0' is not between 1 and 31",
		"* * * 13 *":             "month '13' is not between 1 and 12",
		"* * * * 8":              "day of the week '8' is not between 0 and 7",
		"61 * * * * *":           "second '61' is not between 0 and 59",
		"* * * * * * 1900":       "year '1900' is not between 1970 and 9999",
		"0 9 1 1 * 2027":         "its sixth field is not a day of the week; a year requires 7 fields: seconds first, year last",
		"5-1 * * * *":            "minute '5-1' ends before it begins",
		"1-2-3 * * * *":          "minute '1-2-3' is not a valid value",
		"*/0 * * * *":            "minute '*/0' has a step that is not between 1 and 59",
		"*/60 * * * *":           "minute '*/60' has a step that is not between 1 and 59",
		"*/ * * * *":             "minute '*/' is not a valid value",
		"1, * * * *":             "minute '' is not a valid value",
		"-1 * * * *":             "minute '-1' is not a valid value",
		"? * * * *":              "minute '?' is not a valid value",
		"x * * * *":              "minute 'x' is not a valid value",
		"* * * * monday":         "day of the week 'monday' is not a valid value",
		"* * 32W * *":            "day of the month '32W' is not between 1 and 31",
		"* * * * 1#6":            "day of the week '1#6' is not a valid value",
		"L * * * *":              "minute 'L' is not a valid value",
		"0 0 31 2 *":             "it is never due",
		"0 0 0 1 1 * 2020":       "it is never due",
		"* * * *\n*":             "it must be one line of at most 256 bytes",
		"TZ=UTC * * * * *":       "second 'TZ=UTC' is not a valid value",
		strings.Repeat("*", 257): "it must be one line of at most 256 bytes",
	} {
		_, err := cron.Next(schedule, time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), time.UTC)
		if _, ok := errors.AsType[*cron.InvalidError](err); !ok || !strings.HasPrefix(err.Error(), "invalid cron schedule '") || !strings.HasSuffix(err.Error(), "': "+want) {
			t.Errorf("%q: %v, want … %s", schedule, err, want)
		}
	}
}

func FuzzNext(f *testing.F) {
	for _, s := range []string{"*/5 * * * *", "0 9 * * MON-FRI", "@daily", "0 0 0 29 2 * 2028/4", "1,2-3,4/5 0-23/7 L,15W * 5L,6#3", "59 59 23 31 12 7-3 *"} {
		f.Add(s, int64(1795000000))
	}
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, schedule string, at int64) {
		after := time.Unix(at%(1<<34), 0)
		began := time.Now()
		next, err := cron.Next(schedule, after, loc)
		gate.Time(t, schedule, began, 2*time.Second)
		if err == nil && !next.After(after) {
			t.Fatalf("%q after %v: %v", schedule, after, next)
		}
	})
}
