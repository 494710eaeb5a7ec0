package bm25

import (
	"fmt"
	"testing"

	"crabmem/bm25/analysis"
)

// TestMergeSteps counts the steps of a merge of live and of partly dead segments. A
// step stops as soon as it copied its budget of postings, and always advances.
func TestMergeSteps(t *testing.T) {
	SetTailDocs(t, 50)
	x := New(analysis.Standard)
	for i := range 150 {
		x.Add(Doc{ID: uint64(i + 1), Fields: []string{fmt.Sprintf("same word%d other%d third%d", i, i%7, i%90)}})
	}
	for i := range 20 {
		x.Remove(uint64(3*i + 1))
	}
	if len(x.segments) != 3 || x.segments[0].deadDocs != 17 || x.segments[2].deadDocs != 0 {
		t.Fatalf("%d segments", len(x.segments))
	}
	steps := func(budget int) (n int, m *merge) {
		m = newMerge(append([]*segment(nil), x.segments...))
		for n = 1; !m.step(budget); n++ {
			if n == 10_000 {
				t.Fatalf("a merge with a budget of %d does not end", budget)
			}
		}
		return n, m
	}
	_, m := steps(1 << 30)
	words := len(m.union)
	for budget, want := range map[int]int{1: 3 + words, 49: 3 + words, 50: 3 + words, 51: 10, 120: 9, 201: 8, 400: 5, 1 << 20: 1} {
		if n, _ := steps(budget); n != want {
			t.Errorf("a merge of 3 segments and %d words takes %d steps of %d, want %d", words, n, budget, want)
		}
	}
	idle := newMerge(append([]*segment(nil), x.segments...))
	if idle.step(0) || idle.doc != 0 {
		t.Errorf("a step without a budget copied %d segments", idle.doc)
	}
	for m.doc = 3; idle.doc < 3; {
		idle.step(1)
	}
	if idle.step(0) || idle.word != 0 {
		t.Errorf("a step without a budget copied %d words", idle.word)
	}
}

// TestTailFull checks the limits of documents and of postings of a tail.
func TestTailFull(t *testing.T) {
	SetTailDocs(t, 3)
	for _, c := range []struct {
		docs, nodes int
		want        bool
	}{{0, 0, false}, {2, 0, false}, {3, 0, true}, {4, 0, true}, {0, tailNodes - 1, false}, {0, tailNodes, true}, {0, tailNodes + 1, true}} {
		tail := &tail{ids: make([]uint64, c.docs), nodes: make([]node, c.nodes)}
		if got := tail.full(); got != c.want {
			t.Errorf("%d documents, %d postings: %v, want %v", c.docs, c.nodes, got, c.want)
		}
	}
}

// TestMergeStepsOfFewTerms merges segments without most terms of the index. Words
// without terms use up the budget, too.
func TestMergeStepsOfFewTerms(t *testing.T) {
	SetTailDocs(t, 50)
	x := New(analysis.Plain)
	for i := range 150 {
		text := "new"
		for j := range 128 * max(0, 50-i) / max(1, 50-i) {
			text += fmt.Sprintf(" w%dx%d", i, j)
		}
		x.Add(Doc{ID: uint64(i + 1), Fields: []string{text}})
	}
	m := newMerge(append([]*segment(nil), x.segments[1:]...))
	m.doc = len(m.sources)
	words, n := len(m.union), 1
	for !m.step(10) {
		n++
	}
	if words < 100 || n < words/10 || n > words/10+2 {
		t.Errorf("a merge of %d words takes %d steps of 10", words, n)
	}
}

// TestTailDocs checks that a tail takes 2048 documents.
func TestTailDocs(t *testing.T) {
	x := New(analysis.Plain)
	for i := range 2049 {
		if want := 1; i == 2047 && (len(x.segments) != 0 || x.Stats().Segments != want) {
			t.Errorf("%d documents are in %d segments", i, len(x.segments))
		}
		x.Add(Doc{ID: uint64(i + 1), Fields: []string{"word"}})
	}
	if len(x.segments) != 1 || len(x.segments[0].ids) != 2048 {
		t.Errorf("%d segments", len(x.segments))
	}
}
