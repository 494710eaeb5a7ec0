package bm25

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
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
		if got := better(c.a, c.b); got != c.want || c.want && byRank(c.a, c.b) != -1 || c.a == c.b && byRank(c.a, c.b) != 0 {
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

// TestRankIgnoresTexts checks that the first step of a ranking is BM25 alone.
func TestRankIgnoresTexts(t *testing.T) {
	x := newIndex("alpha beta", "beta gamma", "delta")
	q := Query{Text: "alpha beta", Count: true}
	want := x.Search(q)
	q.Named = []uint64{2}
	q.Texts = func(id uint64) []string {
		t.Errorf("document %d is read", id)
		return []string{"alpha beta"}
	}
	r := x.Rank(q)
	if !slices.Equal(r.Hits, want.Hits) || r.Total != 2 {
		t.Errorf("%+v, want %+v", r.Result, want)
	}
	idf := map[string]float64{}
	for _, term := range r.terms {
		idf[string(x.lexer.Dict().AppendTerm(nil, term.id))] = term.idf
	}
	for id, terms := range map[uint64][]string{1: {"alpha", "beta"}, 2: {"beta"}, 3: nil, 4: nil} {
		want := map[string]float64{}
		for _, term := range terms {
			want[term] = idf[term]
		}
		if got := r.Weights(id); got == nil || !maps.Equal(got, want) {
			t.Errorf("document %d: weights %v, want %v", id, got, want)
		}
	}
}

// TestBoostLimits boosts the first 100 hits, by the 16 rarest terms, and reads the
// first 16.
func TestBoostLimits(t *testing.T) {
	x := New(analysis.Plain)
	for i := range uint64(BoostLimit + 5) {
		x.Add(Doc{ID: i + 1, Fields: []string{"alpha"}})
	}
	x.Add(Doc{ID: 1000, Fields: []string{"alpha beta"}})
	r := x.Rank(Query{Text: "alpha beta"})
	x.Remove(2)
	before := slices.Clone(r.Hits)
	var asked []uint64
	r.BoostByNeighbors(func(list []Neighbor, id uint64) []Neighbor {
		asked = append(asked, id)
		return append(list, Neighbor{ID: 999}, Neighbor{ID: 1000, Weight: 0.5})
	})
	var want []uint64
	for _, h := range before[1:BoostLimit] {
		if h.ID != 2 {
			want = append(want, h.ID)
		}
	}
	if !slices.Equal(asked, want) {
		t.Errorf("the neighbors of %v, want %v", asked, want)
	}
	for i, h := range r.Hits {
		own := before[slices.IndexFunc(before, func(b Hit) bool { return b.ID == h.ID })].Score
		if boosted := h.ID != 2 && h.ID != 1000 && i < BoostLimit; h.Score > own != boosted {
			t.Errorf("hit %d, document %d: score %v of %v", i, h.ID, h.Score, own)
		}
	}
	texts := make([][]string, RerankLimit+1)
	for i := range texts {
		texts[i] = []string{"alpha beta"}
	}
	for _, n := range []int{RerankLimit - 1, RerankLimit, RerankLimit + 1} {
		r := x.Rank(Query{Text: "alpha beta"})
		before := slices.Clone(r.Hits)
		r.Read(texts[:n])
		for i, h := range before {
			score := r.Hits[slices.IndexFunc(r.Hits, func(b Hit) bool { return b.ID == h.ID })].Score
			if want := i < min(n, RerankLimit); score > h.Score != want {
				t.Errorf("%d texts: hit %d scores %v after %v", n, i, score, h.Score)
			}
		}
	}
}

// TestBoostTerms compares boosts by up to 17 terms: the rarest 16, in the order of
// the terms if there are at most 16.
func TestBoostTerms(t *testing.T) {
	for n := 15; n <= 18; n++ {
		x := New(analysis.Plain)
		var words []string
		for i := range n {
			words = append(words, fmt.Sprintf("w%cq", 'a'+i))
			for d := range 1 + (7*i)%n {
				x.Add(Doc{ID: uint64(1000*i + d + 10), Fields: []string{words[i]}})
			}
		}
		x.Add(Doc{ID: 1, Fields: []string{"own"}})
		x.Add(Doc{ID: 2, Fields: []string{strings.Join(words, " ")}})
		e, _ := x.Explain(Query{Text: strings.Join(words, " ")}, 2)
		lines := slices.Clone(e.Terms)
		if n+1 > maxBoostTerms {
			slices.SortFunc(lines, func(a, b Term) int { return a.DF - b.DF })
			lines = lines[:maxBoostTerms-1] // own is the rarest term
		}
		for _, weight := range []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9} {
			r := x.Rank(Query{Text: "own " + strings.Join(words, " ")})
			terms := slices.Clone(r.terms)
			score := func() float64 {
				return r.Hits[slices.IndexFunc(r.Hits, func(h Hit) bool { return h.ID == 1 })].Score
			}
			want := score()
			r.BoostByNeighbors(func(list []Neighbor, id uint64) []Neighbor {
				if id == 1 {
					list = append(list, Neighbor{ID: 2, Weight: weight})
				}
				return list
			})
			for _, line := range lines {
				want += float64(weight * line.Contribution)
			}
			if got := score(); math.Abs(got-want) > 1e-9 || n < maxBoostTerms && got != want {
				t.Errorf("%d terms: score %v, want %v", n+1, got, want)
			}
			if !slices.Equal(r.terms, terms) {
				t.Errorf("%d terms: the terms of the ranking changed", n+1)
			}
		}
	}
}
