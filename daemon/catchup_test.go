package daemon

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/cron"
	"crabmem/fuzz/race"
)

// TestCronOnce checks that a one-time entry runs once, whatever its schedule, how long
// the run takes, and whether the daemon restarts.
func TestCronOnce(t *testing.T) {
	for _, schedule := range []string{"* * * * * *", "*/2 * * * * *", "* * * * *", "@hourly"} {
		for _, takes := range []time.Duration{0, time.Second, 5 * time.Second, 3 * time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				fs := faultfs.NewMem()
				d, m := bubble(t, fs)
				m.takes = takes
				mustCreate(t, d, cron.Cron{Schedule: schedule, Skill: "once", Once: true, Timezone: "UTC"})
				d.firingFor(t, 61*time.Minute)
				d.firingFor(t, 61*time.Minute)
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				d, m2 := bubble(t, fs)
				defer d.Close()
				d.firingFor(t, 61*time.Minute)
				if n := len(m.heard()) + len(m2.heard()); n != 1 || len(d.crons.List()) != 0 {
					t.Errorf("%s, %v: it ran %d times; the table has %v", schedule, takes, n, d.crons.List())
				}
			})
		}
	}
}

// TestCronOnceNotRemoved checks that a one-time entry does not run if it cannot be
// removed from the file: after a restart, it would run a second time.
func TestCronOnceNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		var fails atomic.Bool
		fs.Hook = func(c faultfs.Call) error {
			if fails.Load() && c.Op == "rename" && strings.HasSuffix(c.Name, "crons.toml") {
				return errors.New("no")
			}
			return nil
		}
		d, m := bubble(t, fs)
		defer d.Close()
		mustCreate(t, d, cron.Cron{Schedule: "* * * * *", Skill: "once", Once: true, Timezone: "UTC"})
		fails.Store(true)
		d.firingFor(t, 5*time.Minute)
		if len(m.heard()) != 0 {
			t.Errorf("it ran %q and is in the file", m.heard())
		}
		fails.Store(false)
		d.firingFor(t, 5*time.Minute)
		if len(m.heard()) != 1 {
			t.Errorf("it ran %q", m.heard())
		}
	})
}

// TestCronCatchUp checks which missed runs start late: after the machine slept
// (the scheduler of the same daemon continues later), and after a restart.
func TestCronCatchUp(t *testing.T) {
	race.Skip(t)
	for _, c := range []struct {
		name   string
		entry  cron.Cron
		away   time.Duration
		config string
		want   string // runs in the half hour from then on
	}{
		{"hourly", cron.Cron{Schedule: "0 * * * *"}, 150 * time.Minute, "", "02:31"},
		{"nothing missed", cron.Cron{Schedule: "0 9 * * *"}, 150 * time.Minute, "", ""},
		{"once", cron.Cron{Schedule: "30 1 * * *", Once: true}, 150 * time.Minute, "", "02:31"},
		{"seconds", cron.Cron{Schedule: "0 59 23 * * *"}, 24 * time.Hour, "", "00:01"},
		{"12 hours ago", cron.Cron{Schedule: "0 1 * * *"}, 12*time.Hour + 50*time.Minute, "", "12:51"},
		{"more than 12 hours ago", cron.Cron{Schedule: "0 1 * * *"}, 13 * time.Hour, "", ""},
		{"the last of many", cron.Cron{Schedule: "0 1 * * *"}, 60 * time.Hour, "", "12:01"},
		{"a longer setting", cron.Cron{Schedule: "0 1 * * *"}, 20 * time.Hour, "24h", "20:01"},
		{"off", cron.Cron{Schedule: "0 * * * *"}, 150 * time.Minute, "0s", ""},
		{"due in quiet hours", cron.Cron{Schedule: "30 1 * * *", QuietStart: "01:00", QuietEnd: "02:00"}, 150 * time.Minute, "", ""},
		{"quiet hours now", cron.Cron{Schedule: "30 0 * * *", QuietStart: "01:00", QuietEnd: "02:45"}, 150 * time.Minute, "", "02:45"},
		{"quiet hours until too late", cron.Cron{Schedule: "30 0 * * *", QuietStart: "01:00", QuietEnd: "02:45"}, 150 * time.Minute, "2h", ""},
	} {
		for _, restart := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				fs := faultfs.NewMem()
				d, m := bubble(t, fs)
				entry := c.entry
				entry.Skill, entry.Timezone = "late", "UTC"
				mustCreate(t, d, entry)
				d.firingFor(t, time.Minute)
				time.Sleep(c.away)
				if restart {
					if err := d.Close(); err != nil {
						t.Fatal(err)
					}
					d, m = bubble(t, fs)
				}
				defer d.Close()
				if c.config != "" {
					d.setup().config.Cron.CatchUp, _ = time.ParseDuration(c.config)
				}
				d.firingFor(t, 27*time.Minute)
				d.firingFor(t, time.Minute)
				var got []string
				for _, line := range m.heard() {
					got = append(got, line[len("2000-01-01 "):len("2000-01-01 00:00")])
				}
				if strings.Join(got, " ") != c.want {
					t.Errorf("%s, restart %v: it ran at %v, want %s", c.name, restart, got, c.want)
				}
			})
		}
	}
}

// TestCronCatchUpInTurn checks that missed runs of several entries start one after the
// other, in the order of their times, and that a file of starts that is missing, corrupt,
// or of another entry makes up for no run.
func TestCronCatchUpInTurn(t *testing.T) {
	for _, text := range []string{"", "none", "{", `{"1":{"entry":"other","checked":"2000-01-01T00:00:00Z"}}`} {
		synctest.Test(t, func(t *testing.T) {
			fs := faultfs.NewMem()
			d, _ := bubble(t, fs)
			for i := range 4 {
				mustCreate(t, d, cron.Cron{Schedule: fmt.Sprintf("%d 1 * * *", 30-i), Skill: fmt.Sprint("late", i), SessionFile: cron.NewSession, Timezone: "UTC"})
			}
			d.firingFor(t, time.Minute)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			switch text {
			case "":
			case "none":
				if err := fs.Remove(d.cronStartsFile()); err != nil {
					t.Fatal(err)
				}
			default:
				if err := vfs.Replace(fs, d.cronStartsFile(), 0o600, writes(text)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(3 * time.Hour)
			d, m := bubble(t, fs)
			defer d.Close()
			m.takes = 10 * time.Minute
			d.firingFor(t, time.Hour)
			want := "2000-01-01 03:01:00 /late3|2000-01-01 03:11:00 /late2|2000-01-01 03:21:00 /late1|2000-01-01 03:31:00 /late0"
			if text != "" {
				want = ""
			}
			if got := strings.Join(m.heard(), "|"); got != want {
				t.Errorf("with the file %q it ran %s", text, got)
			}
		})
	}
}
