package bm25

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"crabmem/bm25/analysis"
)

// TestCollectorSegment checks when a search reads the class of each document.
func TestCollectorSegment(t *testing.T) {
	for _, c := range []struct {
		classes uint8
		dead    int
		want    bool
	}{{0, 0, false}, {255, 0, false}, {0, 1, true}, {255, 1, true}, {254, 0, true}, {1, 0, true}} {
		s := &segment{docTable: docTable{ids: []uint64{7}, class: []uint8{3}, deadDocs: c.dead}}
		var got collector
		got.reset(Query{Classes: c.classes}, 1)
		got.segment(s, 1)
		if got.some != c.want || &got.ids[0] != &s.ids[0] || &got.class[0] != &s.class[0] {
			t.Errorf("classes %b, %d dead documents: some %v, want %v", c.classes, c.dead, got.some, c.want)
		}
	}
}

// TestCollector offers documents and compares the floor after each, the calls of the
// filter, and the result.
func TestCollector(t *testing.T) {
	const least = math.SmallestNonzeroFloat64
	odd := func(id uint64) bool { return id&1 == 1 }
	type floors []float64
	for name, c := range map[string]struct {
		q      Query
		floors floors
		want   string
	}{
		"all":               {Query{}, floors{least, least, least, least, least, least}, "[{7 5} {8 4} {1 3} {2 3} {3 3} {9 1}] 0 calls []"},
		"limit 1":           {Query{Limit: 1}, floors{3, 3, 3, 3, 4, 5}, "[{7 5}] 0 calls []"},
		"limit 3":           {Query{Limit: 3}, floors{least, least, 1, 3, 3, 3}, "[{7 5} {8 4} {1 3}] 0 calls []"},
		"limit 4":           {Query{Limit: 4}, floors{least, least, least, 1, 3, 3}, "[{7 5} {8 4} {1 3} {2 3}] 0 calls []"},
		"limit 6":           {Query{Limit: 6}, floors{least, least, least, least, least, 1}, "[{7 5} {8 4} {1 3} {2 3} {3 3} {9 1}] 0 calls []"},
		"filter":            {Query{Limit: 2, Filter: odd}, floors{least, least, 1, 3, 3, 3}, "[{7 5} {1 3}] 0 calls [2 3 9 1 8 7]"},
		"filter and count":  {Query{Limit: 2, Filter: odd, Count: true}, floors{least, least, least, least, least, least}, "[{7 5} {1 3}] 4 calls [2 3 9 1 8 7]"},
		"classes":           {Query{Limit: 2, Classes: 2}, floors{least, least, least, least, 3, 4}, "[{7 5} {8 4}] 0 calls []"},
		"count":             {Query{Limit: 1, Count: true}, floors{3, 3, 3, 3, 4, 5}, "[{7 5}] 42 calls []"},
		"filter, all count": {Query{Filter: odd, Count: true}, floors{least, least, least, least, least, least}, "[{7 5} {1 3} {3 3} {9 1}] 4 calls [2 3 9 1 8 7]"},
	} {
		var calls []uint64
		if f := c.q.Filter; f != nil {
			c.q.Filter = func(id uint64) bool { calls = append(calls, id); return f(id) }
		}
		var got collector
		got.reset(c.q, 1)
		got.segment(&segment{docTable: docTable{ids: []uint64{2, 3, 9, 1, 8, 7}, class: []uint8{0, 0, 8, 1, 1, 1}}}, 1)
		got.class = []uint8{0, 0, 0, 1, 1, 1}
		got.total = 42
		var after floors
		for d, score := range []float64{3, 3, 1, 3, 4, 5} {
			if score >= got.floor {
				got.offer(uint16(d), score)
			}
			after = append(after, got.floor)
		}
		r := got.result()
		if s := fmt.Sprintf("%v %d calls %v", r.Hits, r.Total, calls); s != c.want || !slices.Equal(after, c.floors) {
			t.Errorf("%s: %s, floors %v\nwant %s, %v", name, s, after, c.want, c.floors)
		}
		if got.query.Filter != nil || got.query.Limit != 0 || got.ids != nil || got.class != nil {
			t.Errorf("%s: the collector keeps the query", name)
		}
		got.reset(Query{}, 1)
		if r := got.result(); r.Hits != nil || r.Total != 0 {
			t.Errorf("%s: without documents: %+v", name, r)
		}
	}
	for _, c := range []struct {
		a, b Hit
		want bool
	}{{Hit{1, 2}, Hit{1, 2}, false}, {Hit{1, 2}, Hit{2, 2}, true}, {Hit{2, 2}, Hit{1, 2}, false}, {Hit{2, 3}, Hit{1, 2}, true}, {Hit{1, 2}, Hit{2, 3}, false}} {
		if got := new(Query).better(c.a, c.b); got != c.want || c.want && new(Query).byRank(c.a, c.b) != -1 || c.a == c.b && new(Query).byRank(c.a, c.b) != 0 {
			t.Errorf("%v is better than %v: %v", c.a, c.b, got)
		}
	}
}

// TestNamedLimit names more documents than are read. The first 16 are the best.
func TestNamedLimit(t *testing.T) {
	x := New(analysis.Standard)
	var named, want []uint64
	for i := range uint64(60) {
		text := "alpha"
		if i >= 40 {
			text = "alpha and other words of a long text"
		}
		x.Add(Doc{ID: i + 1, Fields: []string{text}})
	}
	for i := range uint64(17) {
		named = append(named, 60-i)
		want = append(want, 45+i)
	}
	want = want[:16]
	for i := range uint64(40) {
		want = append(want, i+1)
	}
	want = append(want, 41, 42, 43, 44)
	var got []uint64
	read := 0
	r := x.Search(Query{Text: "alpha", Named: named, Texts: func(id uint64) []string { read++; return []string{"alpha"} }})
	for _, h := range r.Hits {
		got = append(got, h.ID)
	}
	if !slices.Equal(got, want) || read != 16 {
		t.Errorf("%d documents read: %v\nwant %v", read, got, want)
	}
}
