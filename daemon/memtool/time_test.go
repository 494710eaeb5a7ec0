package memtool

import (
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
