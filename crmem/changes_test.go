package crmem

import (
	"testing"
	"time"
)

// TestPoint describes points by number and by time.
func TestPoint(t *testing.T) {
	at := time.Unix(1_800_000_000, 0).UTC()
	for want, p := range map[string]Point{
		"change 1":             {Seq: 1},
		"change 12":            {Seq: 12, Time: at},
		"2027-01-15T08:00:00Z": {Time: at},
	} {
		if got := p.String(); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}
