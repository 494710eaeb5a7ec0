package client

import "testing"

func TestRepeatsRunsThatMayPass(t *testing.T) {
	for _, c := range []struct {
		status, tries int
		kind          string
		want          bool
	}{{503, 0, "", true}, {429, 9, "", true}, {409, 9, "busy", true}, {409, 0, "request", false}, {409, 0, "continued", false}, {502, 1, "", true}, {502, 7, "", true}, {502, 8, "", false},
		{500, 1, "", false}, {404, 0, "", false}, {400, 0, "", false}} {
		r := Retry{unanswered: c.tries}
		if c.status == 502 {
			r.unanswered-- // this run is one of them
		}
		if got := r.Again(c.status, c.kind); got != c.want {
			t.Errorf("status %d %s after %d runs: %v, want %v", c.status, c.kind, c.tries, got, c.want)
		}
	}
}
