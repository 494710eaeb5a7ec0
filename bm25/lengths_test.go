package bm25

import (
	"math"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
)

// TestPivot compares pivots and dampings with values computed by hand.
func TestPivot(t *testing.T) {
	for _, c := range []struct {
		lens           []int
		length, uneven float64
	}{
		{[]int{7}, 7, 0},
		{[]int{0, 12, 12, 0}, 12, 0},
		{[]int{1, 3}, 2 / (1 + 0.0625*7.0/9), 0.0625}, // harmonic mean 3/2, so u = 3/4
		{[]int{10, 10, 970}, 330 / (1 + e(t, 10, 10, 970)), u(10, 10, 970)},
	} {
		var l lengths
		for _, n := range c.lens {
			l.add(lengthsOf(n))
		}
		p := l.pivot()
		if math.Abs(p.length-c.length) > 1e-6 || math.Abs(p.uneven-c.uneven) > 1e-6 {
			t.Errorf("lengths %v: %+v, want %v and %v", c.lens, p, c.length, c.uneven)
		}
		if short := p.damping(0); short != 1 {
			t.Errorf("lengths %v: the damping of an empty document is %v", c.lens, short)
		}
		long := int(3 * p.length)
		once := 2.2 / (1 + 1.2*(0.25+0.75*float64(long)/p.length))
		if got, want := p.damping(long), 1/(1+p.uneven*(1/once-1)); math.Abs(got-want) > 1e-12 || (got < 1) != (p.uneven > 0) {
			t.Errorf("lengths %v: the damping of %d terms is %v, want %v", c.lens, long, got, want)
		}
		for _, n := range c.lens {
			l.subtract(lengthsOf(n))
		}
		if l != (lengths{}) {
			t.Errorf("lengths %v: %+v are left", c.lens, l)
		}
	}
}

// u returns the unevenness of lengths.
func u(lens ...float64) float64 {
	sum, inverse, n := 0.0, 0.0, float64(len(lens))
	for _, l := range lens {
		sum += l
		inverse += 1 / l
	}
	r := n / inverse / (sum / n)
	return (1 - r) * (1 - r)
}

// e returns the summand of the pivot's divisor.
func e(t *testing.T, lens ...float64) float64 {
	t.Helper()
	r := 1 - math.Sqrt(u(lens...))
	return u(lens...) * (1/(r*r) - 1)
}

// TestStatementBeforeAdvice checks that in uneven lengths a short statement ranks
// before a long text that repeats the words of the query, and that the plain formula
// ranks it after.
func TestStatementBeforeAdvice(t *testing.T) {
	advice := "A budget helps. " + strings.Repeat("Write each cost of the kitchen down, compare offers, and keep a reserve in the budget. ", 12) + "Ask about the kitchen budget."
	statement := "my kitchen budget is 4000"
	for a, want := range map[analysis.Analyzer]uint64{analysis.Standard: 2, analysis.Plain: 1} {
		x := New(a)
		x.Add(Doc{ID: 1, Fields: []string{advice}})
		x.Add(Doc{ID: 2, Fields: []string{statement}})
		for i := range uint64(10) {
			x.Add(Doc{ID: 10 + i, Fields: []string{"hello there"}})
			x.Add(Doc{ID: 30 + i, Fields: []string{strings.Repeat("other advice on gardens and trees ", 30)}})
		}
		texts := map[uint64][]string{1: {advice}, 2: {statement}}
		r := x.Search(Query{Text: "kitchen budget", Limit: 1, Texts: func(id uint64) []string { return texts[id] }})
		if r.Hits[0].ID != want {
			t.Errorf("%v: document %d is first, want %d", a, r.Hits[0].ID, want)
		}
	}
}

// TestLongQuery checks that a long query has no bonus for early words, and a shorter
// one has.
func TestLongQuery(t *testing.T) {
	x := newIndex("alpha beta gamma", "delta")
	for query, want := range map[string]bool{"alpha beta": true, "alpha beta gamma one two three four five six seven": false} {
		e, _ := x.Explain(Query{Text: query, Texts: func(uint64) []string { return []string{"alpha beta gamma"} }}, 1)
		if !e.Read || e.Terms[0].Place != 1 || e.Terms[0].Early > 0 != want {
			t.Errorf("%q: %+v", query, e)
		}
	}
}
