package history

import (
	"slices"
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

// TestFields lists the fields in the order of their tags.
func TestFields(t *testing.T) {
	a := Actor{Agent: "agent", Session: "session", Call: "call", Client: "client", Origin: "origin", Op: "op"}
	var got []string
	for _, f := range a.Fields() {
		got = append(got, *f)
	}
	if want := []string{"agent", "session", "call", "client", "origin", "op"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if MaxField != 1024 {
		t.Errorf("MaxField is %d; FORMAT.md has 1,024", MaxField)
	}
}
