package timetext

import (
	"cmp"
	"strings"
	"testing"
	"time"
)

func TestParseAge(t *testing.T) {
	for s, want := range map[string]time.Duration{"90d": 90 * 24 * time.Hour, "2w": 14 * 24 * time.Hour, "1y": 365 * 24 * time.Hour, "36h": 36 * time.Hour, "0d": 0, "99999d": 99999 * 24 * time.Hour} {
		if got, err := ParseAge(s); err != nil || got != want {
			t.Errorf("ParseAge(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "d", "-1d", "-5h", "1.5d", "106752d", "99999999999999999999999d", "300y", "soon", "5"} {
		if got, err := ParseAge(s); err == nil {
			t.Errorf("ParseAge(%q) = %v, want an error", s, got)
		}
	}
}

func TestParse(t *testing.T) {
	zone := time.FixedZone("CET", 2*3600)
	now := time.Date(2026, 4, 14, 0, 30, 0, 0, zone) // still the 13th in UTC
	for s, want := range map[string][2]string{
		"today": {"2026-04-14T00:00:00+02:00", "2026-04-14T23:59:59.999999999+02:00"}, "Yesterday": {"2026-04-13T00:00:00+02:00", "2026-04-13T23:59:59.999999999+02:00"},
		"2026-04-12": {"2026-04-12T00:00:00+02:00", "2026-04-12T23:59:59.999999999+02:00"}, "2026-02": {"2026-02-01T00:00:00+02:00", "2026-02-28T23:59:59.999999999+02:00"},
		"2025": {"2025-01-01T00:00:00+02:00", "2025-12-31T23:59:59.999999999+02:00"}, "now": {"2026-04-14T00:30:00+02:00", ""}, "2d": {"2026-04-12T00:30:00+02:00", ""},
		" 90m ago": {"2026-04-13T23:00:00+02:00", ""}, "1w": {"2026-04-07T00:30:00+02:00", ""}, "2026-04-12T10:00:00Z": {"2026-04-12T10:00:00Z", ""},
		"2026-04-12 10:00": {"2026-04-12T10:00:00+02:00", ""}, "2026-04-12t10:00:05": {"2026-04-12T10:00:05+02:00", ""},
	} {
		for i, end := range []bool{false, true} {
			got, err := Parse(s, end, now)
			if w := cmp.Or(want[i], want[0]); err != nil || got.Format(time.RFC3339Nano) != w {
				t.Errorf("%q, end %v: %v, %v, want %s", s, end, got, err, w)
			}
		}
	}
	if got, err := Parse("", true, now); err != nil || !got.IsZero() {
		t.Errorf("no text: %v, %v", got, err)
	}
	for _, s := range []string{" ", "soon", "2026-13", "2026-04-31", "-2d", "26-04-14", "yesterday noon", "ago", "20260414"} {
		if got, err := Parse(s, false, now); err == nil || !strings.Contains(err.Error(), Forms) {
			t.Errorf("%q: %v, %v, want an error", s, got, err)
		}
	}
}
