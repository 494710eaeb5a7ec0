package daemon

import (
	"testing"
	"time"

	"crabmem/daemon/agent"
)

// TestEnvironment compares the place and the time in the requests of a turn. Only those
// of cron entries contain the time of day.
func TestEnvironment(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 5, 9, 0, time.FixedZone("CET", 3600))
	for _, c := range []struct {
		dir, sender string
		now         time.Time
		want        string
	}{
		{"", "", noon, "<environment>\ndate: 2026-11-23 (Monday)\ntime_zone: CET (UTC+01:00)\n</environment>"},
		{"/w", "me", noon, "<environment>\nworking_directory: /w\ndate: 2026-11-23 (Monday)\ntime_zone: CET (UTC+01:00)\n</environment>"},
		{"/w", "cron", noon, "<environment>\nworking_directory: /w\ndate: 2026-11-23 (Monday)\ntime: 12:05:09\ntime_zone: CET (UTC+01:00)\n</environment>"},
		{"", "cron", noon.Add(12 * time.Hour).UTC(), "<environment>\ndate: 2026-11-23 (Monday)\ntime: 23:05:09\ntime_zone: UTC (UTC+00:00)\n</environment>"},
		{"", "me", noon.Add(12 * time.Hour), "<environment>\ndate: 2026-11-24 (Tuesday)\ntime_zone: CET (UTC+01:00)\n</environment>"},
	} {
		if got := environment(c.now, &agent.Turn{Session: &agent.Session{Dir: c.dir}, Sender: c.sender}); got != c.want {
			t.Errorf("dir %q, sender %q:\n%s\nwant\n%s", c.dir, c.sender, got, c.want)
		}
	}
}
