package bm25

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"crabmem/bm25/analysis"
)

// TestLookUp looks documents up in the tail and in a segment.
func TestLookUp(t *testing.T) {
	s := &segment{docTable: docTable{ids: []uint64{20, 30, 40, 50, 60}, class: []uint8{0, 8, 2, 3, 1}}}
	x := newIndex("alpha", "beta")
	x.segments = []*segment{s}
	s.maxID = 60
	for id, want := range map[uint64]match{1: {tail: &x.tail}, 2: {tail: &x.tail, doc: 1}, 20: {seg: s}, 60: {seg: s, doc: 4}} {
		if got, ok := x.match(id); !ok || got != want {
			t.Errorf("%d: %+v, %v, want %+v", id, got, ok, want)
		}
	}
	if m, ok := x.match(30); ok || m != (match{}) {
		t.Errorf("a removed document: %+v, %v", m, ok)
	}
	if s, d, ok := x.locate(70); s != nil || d != 0 || ok {
		t.Errorf("an unknown document: %v, %d, %v", s, d, ok)
	}
}

// TestMatch compares what a match returns of documents in the tail and in a segment.
func TestMatch(t *testing.T) {
	long := "beta " + strings.Repeat("alpha ", 20)
	for _, tailDocs := range []int{100, 3} {
		SetTailDocs(t, tailDocs)
		x := New(analysis.Plain)
		x.Add(Doc{ID: 1, Class: 3, Fields: []string{"gamma gamma alpha"}})
		x.Add(Doc{ID: 2, Class: 5, Fields: []string{long}})
		x.Add(Doc{ID: 3, Class: 15, Fields: []string{"gamma"}})
		var got []string
		for id := uint64(1); id <= 3; id++ {
			m, ok := x.match(id)
			if !ok || m.seg == nil != (tailDocs == 100) {
				t.Fatalf("document %d: %+v, %v", id, m, ok)
			}
			line := fmt.Sprintf("class %d, %d terms:", m.class(), m.len())
			for _, term := range []string{"alpha", "beta", "gamma"} {
				n, _ := x.lexer.Dict().Find([]byte(term))
				c, at := m.code(n)
				if c == 0 && at != 0 {
					t.Errorf("document %d lacks %s at %d", id, term, at)
				}
				line += fmt.Sprintf(" %#x %d", c, m.frequency(n))
			}
			got = append(got, line)
		}
		want := []string{"class 3, 3 terms: 0x1003 1 0x0 0 0x2003 2", "class 5, 21 terms: 0xffff 20 0x1015 1 0x0 0", "class 7, 1 terms: 0x0 0 0x0 0 0x1001 1"}
		if !slices.Equal(got, want) {
			t.Errorf("tails of %d: %q\nwant %q", tailDocs, got, want)
		}
	}
}

// TestRemoveCounts compares the counts of an index after removals from the tail and
// from a segment.
func TestRemoveCounts(t *testing.T) {
	for _, tailDocs := range []int{100, 4} {
		SetTailDocs(t, tailDocs)
		x := newIndex("alpha beta beta", "", "gamma", "beta gamma alpha")
		for _, c := range []struct {
			id   uint64
			want string // its terms; documents, those with terms, length, removed postings
		}{{9, "0; 4 3 7 0"}, {1, "2; 3 2 4 2"}, {1, "0; 3 2 4 2"}, {2, "0; 2 2 4 2"}, {4, "3; 1 1 1 5"}, {3, "1; 0 0 0 6"}} {
			x.unsettled = false
			n := x.remove(c.id)
			if got := fmt.Sprintf("%d; %d %d %d %d", n, x.live, x.lengths.counted, x.lengths.length, x.removed); got != c.want {
				t.Errorf("tails of %d, remove %d: %s, want %s", tailDocs, c.id, got, c.want)
			}
			if want := tailDocs == 4 && x.live == 0; x.unsettled != want {
				t.Errorf("tails of %d, remove %d: unsettled %v, want %v", tailDocs, c.id, x.unsettled, want)
			}
			for _, s := range x.segments {
				if s.deadDocs != 4-x.live || s.deadPost != x.removed {
					t.Errorf("remove %d: %d dead documents with %d postings", c.id, s.deadDocs, s.deadPost)
				}
			}
		}
		if slices.Max(x.df) != 0 {
			t.Errorf("tails of %d: documents per term: %v", tailDocs, x.df)
		}
	}
}

// TestLocks checks that each method unlocks the index.
func TestLocks(t *testing.T) {
	x := newIndex("alpha beta", "beta gamma")
	texts := func(id uint64) []string { return []string{"alpha beta"} }
	context := &Context{Message: func(id uint64) (Message, bool) { return Message{Next: id ^ 3, HasNext: true}, true }, Weights: DefaultWeights}
	for name, f := range map[string]func(){
		"Add": func() { x.Add(Doc{ID: 3, Fields: []string{"alpha"}}) }, "Remove": func() { x.Remove(3) }, "Len": func() { x.Len() }, "Stats": func() { x.Stats() },
		"Search": func() { x.Search(Query{Text: "alpha", Texts: texts, Explain: true}) }, "Explain": func() { x.Explain(Query{Text: "alpha"}, 1) },
		"Explain of no document": func() { x.Explain(Query{Text: "alpha"}, 9) }, "Build": func() { _ = x.Build(t.Context(), 0, nil) },
		"Search in a context": func() { x.Search(Query{Text: "alpha", Texts: texts, Context: context}) },
		"Correct":             func() { x.Search(Query{Text: "alphb", Correct: true}) },
	} {
		f()
		for lock, try := range map[string]func() bool{"index": x.mu.TryLock, "norms": x.norms.mu.TryLock, "initials": x.initials.mu.TryLock} {
			if !try() {
				t.Fatalf("%s does not unlock the %s", name, lock)
			}
		}
		x.mu.Unlock()
		x.norms.mu.Unlock()
		x.initials.mu.Unlock()
	}
}

// TestSearchersAreReused checks that a method returns its searcher to the pool. With
// the race detector, the pool drops some.
func TestSearchersAreReused(t *testing.T) {
	const calls = 100
	x := newIndex("alpha beta", "beta gamma")
	normal := searchers.New
	defer func() { searchers = sync.Pool{New: normal} }()
	for name, f := range map[string]func(){
		"Search": func() { x.Search(Query{Text: "alpha"}) }, "Explain": func() { x.Explain(Query{Text: "alpha"}, 1) },
	} {
		n := 0
		searchers = sync.Pool{New: func() any { n++; return new(searcher) }}
		for range calls {
			f()
		}
		if n < 1 || n == calls {
			t.Errorf("%d calls of %s allocate %d searchers", calls, name, n)
		}
	}
}

// TestExplainAverage checks the mean length of no document, of one, and of two.
func TestExplainAverage(t *testing.T) {
	x := newIndex("")
	for i, want := range []float64{0, 3, 2.5} {
		if e, ok := x.Explain(Query{Text: "alpha"}, 1); !ok || e.AvgLen != want || e.Docs != i {
			t.Errorf("%d documents with terms: %+v, %v, want a mean length of %v", i, e, ok, want)
		}
		x.Add(Doc{ID: uint64(i + 2), Fields: []string{strings.Repeat("alpha ", 3-i)}})
	}
	if e, ok := x.Explain(Query{Text: "alpha"}, 9); ok || e.ID != 0 || math.IsNaN(e.AvgLen) {
		t.Errorf("unknown document: %+v, %v", e, ok)
	}
}

// TestExplanationWeights compares the weights with the IDF of each term.
func TestExplanationWeights(t *testing.T) {
	for _, terms := range [][]Term{nil, {{Term: "alpha", IDF: 1.5, Weight: 0.5}}, {{Term: "alpha", IDF: 1.5}, {Term: "beta", IDF: 2.5, TF: 3}}} {
		want := map[string]float64{}
		for _, term := range terms {
			want[term.Term] = term.IDF
		}
		if got := (&Explanation{Terms: terms}).Weights(); got == nil || !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
