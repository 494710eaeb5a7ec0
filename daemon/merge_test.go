package daemon

import (
	"fmt"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/recall"
)

// TestMergeSpaces merges lists by rank: no score of one space changes the order of
// the hits of another.
func TestMergeSpaces(t *testing.T) {
	found := func(space string, total int, names ...string) spaceAnswer {
		a := &recall.Answer{Query: "q", Total: total, Searched: 10 * total, Hits: []recall.Hit{}}
		for i, n := range names {
			a.Hits = append(a.Hits, recall.Hit{EntryInfo: crmem.EntryInfo{Name: n}, Score: float64(len(space)*100 - i)})
		}
		return spaceAnswer{space, a}
	}
	for _, c := range []struct {
		found []spaceAnswer
		limit int
		want  string
	}{
		{nil, 5, "0 of 0:"},
		{[]spaceAnswer{found("main", 7, "a", "b")}, 5, "7 of 70: a@main b@main"},
		{[]spaceAnswer{found("main", 3, "a", "b", "c"), found("longer", 1, "x")}, 5, "4 of 40: a@main x@longer b@main c@main"},
		{[]spaceAnswer{found("main", 3, "a", "b", "c"), found("longer", 2, "x", "y")}, 3, "5 of 50: a@main x@longer b@main"},
		{[]spaceAnswer{found("main", 0), found("team", 2, "x", "y")}, 3, "2 of 20: x@team y@team"},
	} {
		a, spaces := mergeSpaces(c.found, c.limit)
		var b strings.Builder
		fmt.Fprintf(&b, "%d of %d:", a.Total, a.Searched)
		for i, h := range a.Hits {
			fmt.Fprintf(&b, " %s@%s", h.Name, spaces[i])
		}
		if b.String() != c.want || a.Hits == nil {
			t.Errorf("%q, want %q", b.String(), c.want)
		}
	}
}
