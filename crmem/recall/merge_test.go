package recall

import (
	"fmt"
	"strings"
	"testing"

	"crabmem/crmem"
)

// TestMerge merges lists by rank: no score of one answer changes the order of the hits of
// another. The entries that links add follow all hits.
func TestMerge(t *testing.T) {
	found := func(space string, total int, names ...string) *Answer {
		a := &Answer{Query: "q", Total: total, Searched: 10 * total, Hits: []Hit{}}
		for i, n := range names {
			h := Hit{EntryInfo: &crmem.EntryInfo{Name: n}, Score: float64(len(space)*100 - i), Space: space}
			if strings.HasPrefix(n, "+") {
				h.Marks = &crmem.Marks{Linked: &crmem.Linked{}}
			}
			a.Hits = append(a.Hits, h)
		}
		return a
	}
	for _, c := range []struct {
		found []*Answer
		limit int
		want  string
	}{
		{nil, 5, "0 of 0:"},
		{[]*Answer{found("main", 7, "a", "b")}, 5, "7 of 70: a@main b@main"},
		{[]*Answer{found("main", 3, "a", "b", "c"), found("longer", 1, "x")}, 5, "4 of 40: a@main x@longer b@main c@main"},
		{[]*Answer{found("main", 3, "a", "b", "c"), found("longer", 2, "x", "y")}, 3, "5 of 50: a@main x@longer b@main"},
		{[]*Answer{found("main", 3, "a", "b"), found("longer", 2, "x", "y")}, 0, "5 of 50: a@main x@longer b@main y@longer"},
		{[]*Answer{found("main", 0), found("team", 2, "x", "y")}, 3, "2 of 20: x@team y@team"},
		{[]*Answer{found("main", 1, "a", "+l"), found("team", 2, "x", "y", "+m")}, 2, "3 of 30: a@main x@team +l@main +m@team"},
	} {
		a := Merge(c.found, c.limit)
		var b strings.Builder
		fmt.Fprintf(&b, "%d of %d:", a.Total, a.Searched)
		for _, h := range a.Hits {
			fmt.Fprintf(&b, " %s@%s", h.Name, h.Space)
		}
		if b.String() != c.want || a.Hits == nil {
			t.Errorf("%q, want %q", b.String(), c.want)
		}
	}
}
