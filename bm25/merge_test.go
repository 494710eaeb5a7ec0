package bm25_test

import (
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/fuzz/race"
)

// TestMergeFillsSegment merges two segments if the result has at most 65536
// documents: a posting has 16 bits for the document.
func TestMergeFillsSegment(t *testing.T) {
	race.Skip(t)
	const half, later = 1 << 15, 1000
	for second, want := range map[int]int{half: 1, half + 1: 2, half/2 + 1: 1, half / 2: 2, 3 * half / 8: 2} {
		x := bm25.New(analysis.Standard)
		next := uint64(1)
		add := func(n int) {
			bm25.SetTailDocs(t, n)
			for range n {
				x.Add(bm25.Doc{ID: next, Fields: []string{"word"}})
				next++
			}
		}
		add(half)
		add(second)
		bm25.SetTailDocs(t, 2*later)
		for range later { // each pays for a part of the merge
			x.Add(bm25.Doc{ID: next, Fields: []string{"other"}})
			next++
		}
		if got := x.Stats().Segments - 1; got != want { // the tail counts as one
			t.Errorf("segments of %d and %d documents are %d segments after merging, want %d", half, second, got, want)
		}
		for _, id := range []uint64{1, half, half + 1, uint64(half + second)} {
			if !x.Remove(id) {
				t.Errorf("segments of %d and %d documents: document %d is missing", half, second, id)
			}
		}
		if got, want := x.Len(), half+second+later-4; got != want {
			t.Errorf("%d documents, want %d", got, want)
		}
	}
}

// TestTailsTakeEqualMemory fills three tails with the same number of documents. Each
// becomes a segment of the same size.
func TestTailsTakeEqualMemory(t *testing.T) {
	const n = 64
	bm25.SetTailDocs(t, n)
	x := bm25.New(analysis.Standard)
	var bytes []int64
	for i := range 3 * n {
		x.Add(bm25.Doc{ID: uint64(i + 1), Fields: []string{"word"}})
		if (i+1)%n == 0 {
			bytes = append(bytes, x.Stats().Bytes)
		}
	}
	if x.Stats().Segments != 3 || bytes[2]-bytes[1] != bytes[1]-bytes[0] {
		t.Errorf("%d segments, and after each the index has %d bytes", x.Stats().Segments, bytes)
	}
}
