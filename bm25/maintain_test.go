package bm25

import (
	"fmt"
	"slices"
	"testing"

	"crabmem/bm25/analysis"
)

// TestSparse checks when a segment is rewritten: more than 64 documents and more
// than a quarter are dead, or all are.
func TestSparse(t *testing.T) {
	for _, c := range []struct {
		docs, dead int
		want       bool
	}{
		{0, 0, true}, {1, 0, false}, {1, 1, true}, {3, 2, false}, {3, 3, true}, {64, 64, true}, {65, 64, false},
		{66, 65, true}, {259, 65, true}, {260, 65, false}, {300, 65, false}, {263, 66, true}, {264, 66, false}, {500, 124, false}, {500, 126, true},
	} {
		s := &segment{docTable: docTable{ids: make([]uint64, c.docs), deadDocs: c.dead}}
		if got := s.sparse(); got != c.want {
			t.Errorf("%d of %d documents are dead: sparse: %v, want %v", c.dead, c.docs, got, c.want)
		}
	}
}

// TestDue checks which segments are merged. A segment is its number of live
// documents, or its numbers of documents, of dead documents, and of postings.
func TestDue(t *testing.T) {
	SetTailDocs(t, 10)
	setMaxPostings(t, 100)
	type sizes [][3]int
	live := func(docs ...int) (list sizes) {
		for _, n := range docs {
			list = append(list, [3]int{n, 0, 0})
		}
		return list
	}
	for _, c := range []struct {
		segments sizes
		want     []int // positions
	}{
		{nil, nil},
		{live(1, 1, 1), nil},
		{live(1, 1, 1, 1), []int{0, 1, 2, 3}},
		{live(1, 1, 1, 1, 1, 1, 1, 1), []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{live(1, 1, 1, 1, 1, 1, 1, 1, 1), []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{live(1, 100, 100, 100, 100, 100, 100, 100, 100), []int{1, 2, 3, 4, 5, 6, 7, 8}},
		{live(1, 100, 100, 100, 100, 100, 100, 100, 100, 100), []int{1, 2, 3, 4, 5, 6, 7, 8}},
		{live(50, 10, 50, 50), []int{1, 0, 2, 3}}, // 4 times as large and a tail
		{live(51, 10, 51, 51), nil},
		{live(51, 10, 51, 51, 51), []int{0, 2, 3, 4}},
		{live(50, 10, 51, 50, 50), []int{1, 0, 3, 4}},
		{live(7, 3, 5, 1), []int{3, 1, 2, 0}},
		{live(1, 100, 100), nil},
		{live(1, 60_000), nil},
		{live(1, 100, 60_000), nil},
		// Two segments are merged if the result is large.
		{live(24_576, 24_576), nil},
		{live(24_576, 24_577), []int{0, 1}},
		{live(24_577, 24_576), []int{1, 0}},
		{live(20_000, 20_000), nil},
		{live(20_000, 20_000, 9_152), nil},
		{live(20_000, 20_000, 9_153), []int{2, 0, 1}},
		{live(1, 24_576, 24_577), []int{1, 2}},
		// A result has at most 65536 documents.
		{live(32_768, 32_768), []int{0, 1}},
		{live(32_768, 32_769), nil},
		{live(16_384, 16_384, 16_384, 16_384), []int{0, 1, 2, 3}},
		{live(16_384, 16_384, 16_384, 16_385), []int{0, 1, 2}},
		{live(1, 65_535), nil},
		{live(15_000, 50_537, 1), nil},
		// Sizes are of live documents.
		{sizes{{100, 20, 0}, {80, 0, 0}, {90, 10, 0}, {80, 0, 0}}, []int{0, 1, 2, 3}},
		{sizes{{81, 0, 0}, {100, 20, 0}, {90, 11, 0}, {80, 0, 0}}, []int{2, 1, 3, 0}},
		// A sparse segment is rewritten first.
		{sizes{{1, 0, 0}, {2, 2, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {3, 3, 0}}, []int{1}},
		{sizes{{100, 66, 0}}, []int{0}},
		// A result has at most maxPostings.
		{sizes{{1, 0, 25}, {1, 0, 25}, {1, 0, 25}, {1, 0, 25}}, []int{0, 1, 2, 3}},
		{sizes{{1, 0, 25}, {1, 0, 25}, {1, 0, 26}, {1, 0, 25}}, nil},
		{sizes{{1, 0, 25}, {1, 0, 25}, {1, 0, 25}, {1, 0, 25}, {1, 0, 1}}, []int{0, 1, 2, 3}},
		{sizes{{1, 0, 90}, {1, 0, 11}, {1, 0, 25}, {1, 0, 25}, {1, 0, 25}}, []int{1, 2, 3, 4}},
	} {
		x := New(analysis.Plain)
		for _, n := range c.segments {
			x.segments = append(x.segments, &segment{docTable: docTable{ids: make([]uint64, n[0]), deadDocs: n[1]}, postings: make([]uint32, n[2])})
		}
		before := slices.Clone(x.segments)
		var got []int
		for _, s := range x.due() {
			got = append(got, slices.Index(before, s))
		}
		if !slices.Equal(got, c.want) || !slices.Equal(x.segments, before) {
			t.Errorf("segments of %v: %v are due, want %v", c.segments, got, c.want)
		}
	}
}

// TestMaintain checks the budget of a merge and when the index looks for segments to
// merge.
func TestMaintain(t *testing.T) {
	for postings, want := range map[int]int{0: 256, 1: 264, 3: 280, 100: 1056} {
		x := New(analysis.Plain)
		x.merge = &merge{out: &segment{}, union: make([]uint64, 5000)} // each word costs 1
		x.removed, x.unsettled = fewTerms, true
		x.maintain(postings)
		if x.merge == nil || x.merge.word != want {
			t.Errorf("a change of %d postings copies %d words, want %d", postings, x.merge.word, want)
		}
		if x.removed == 0 {
			t.Error("the vocabulary shrinks during a merge")
		}
	}
	SetTailDocs(t, 1)
	x := New(analysis.Plain)
	state := func() string { return fmt.Sprint(len(x.segments), x.merge != nil, x.unsettled) }
	steps := []string{state()}
	for i := range 5 {
		x.Add(Doc{ID: uint64(i), Fields: []string{"word other"}})
		steps = append(steps, state())
	}
	x.unsettled = false // segments are due, but the index does not look
	other := New(analysis.Plain)
	for i := range 3 {
		other.Add(Doc{ID: uint64(10 + i), Fields: []string{"word"}})
	}
	x.segments = append(x.segments, other.segments...)
	x.maintain(1)
	steps = append(steps, state())
	x.unsettled = true
	x.maintain(0)
	steps = append(steps, state())
	want := []string{"0 false false", "1 false false", "2 false false", "3 false false", "1 false true", "2 false false", "5 false false", "1 false true"}
	if !slices.Equal(steps, want) {
		t.Errorf("segments, merging, unsettled: %q\nwant %q", steps, want)
	}
}

// TestFreezeDeadTail freezes a tail without live documents, and one with a single
// live document.
func TestFreezeDeadTail(t *testing.T) {
	SetTailDocs(t, 4)
	m := newMirror(t, analysis.Plain)
	for i := range uint64(3) {
		m.add(Doc{ID: i, Fields: []string{"some words"}})
		m.remove(i)
	}
	m.add(Doc{ID: 9, Fields: []string{"one word"}})
	m.check()
	if len(m.x.segments) != 1 || len(m.x.tail.ids) != 0 {
		t.Errorf("%d segments with a document", len(m.x.segments))
	}
	m.remove(9)
	m.check()
	if len(m.x.segments) != 0 {
		t.Errorf("%d segments without documents", len(m.x.segments))
	}
	x := New(analysis.Plain)
	for i := range uint64(4) {
		x.tail.add(Doc{ID: i}, nil, 0, 0, nil)
		x.tail.kill(uint16(i))
	}
	x.freeze()
	if len(x.segments) != 0 || len(x.tail.ids) != 0 || x.unsettled {
		t.Errorf("a dead tail leaves %d segments, %d documents, unsettled %v", len(x.segments), len(x.tail.ids), x.unsettled)
	}
}

// TestSparseSegmentIsRewritten removes documents of a settled segment until it is
// sparse.
func TestSparseSegmentIsRewritten(t *testing.T) {
	SetTailDocs(t, 300)
	m := newMirror(t, analysis.Plain)
	for i := range 300 {
		m.add(Doc{ID: uint64(i), Class: uint8(i), Fields: []string{fmt.Sprint("word common other", i)}})
	}
	for i := range 75 {
		m.remove(uint64(4 * i))
	}
	if s := m.x.segments[0]; m.x.unsettled || m.x.merge != nil || s.deadDocs != 75 || len(s.ids) != 300 {
		t.Fatalf("75 removals: unsettled %v, %d dead documents", m.x.unsettled, s.deadDocs)
	}
	m.remove(1)
	for i := 0; m.x.merge != nil; i++ {
		m.remove(uint64(5 + 4*i)) // during the merge
	}
	late := 224 - len(m.docs)
	if s := m.x.segments[0]; len(s.ids) != 224 || s.deadDocs != late || late < 2 || cap(s.ids) != 224 || cap(s.class) != 224 || cap(s.termsAt) != 225 || cap(s.terms) != len(s.terms) || cap(s.postings) != len(s.postings) || cap(s.start) < len(s.start) {
		t.Errorf("rewritten segment: %d documents, %d dead, capacities %d, %d, %d, %d of %d, %d of %d", len(s.ids), s.deadDocs, cap(s.ids), cap(s.class), cap(s.termsAt), cap(s.terms), len(s.terms), cap(s.postings), len(s.postings))
	}
	m.check()
	for _, d := range m.docs {
		m.remove(d.ID)
	}
	for range 3 {
		m.remove(1000)
	}
	if m.check(); len(m.x.segments) != 0 {
		t.Errorf("%d segments of no documents", len(m.x.segments))
	}
}

// TestRemoveAllDuringMerge removes all documents of a merge before its end.
func TestRemoveAllDuringMerge(t *testing.T) {
	SetTailDocs(t, 60)
	m := newMirror(t, analysis.Plain)
	for i := range 240 {
		m.add(Doc{ID: uint64(i), Fields: []string{fmt.Sprintf("word common other%d and%d this%d", i, i%7, i%31)}})
	}
	if m.x.merge == nil {
		t.Fatal("no merge")
	}
	due := m.x.merge
	m.x.merge = &merge{union: make([]uint64, 1<<20), out: &segment{}} // it does not end
	for i := range uint64(240) {
		m.remove(i)
	}
	m.x.merge = due
	m.x.maintain(1 << 20)
	if m.x.merge != nil || len(m.x.segments) != 0 {
		t.Errorf("%d segments of no documents", len(m.x.segments))
	}
	m.check()
}
