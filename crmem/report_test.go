package crmem

import (
	"errors"
	"testing"
)

// TestErrSkipsTornTails checks that Err returns the first problem that is not a
// torn tail.
func TestErrSkipsTornTails(t *testing.T) {
	rot, missing := errors.New("rot"), errors.New("missing")
	torn := Problem{Kind: "torn", Err: errors.New("torn")}
	for _, c := range []struct {
		problems []Problem
		want     error
	}{
		{nil, nil},
		{[]Problem{torn}, nil},
		{[]Problem{torn, {Kind: "rot", Err: rot}, {Kind: "missing", Err: missing}}, rot},
	} {
		if err := (&CheckReport{Problems: c.problems}).Err(); err != c.want {
			t.Errorf("%d problems: error %v, want %v", len(c.problems), err, c.want)
		}
	}
}
