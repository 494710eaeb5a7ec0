package bm25_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/fuzz/race"
)

// TestRemoveLastOfFullSegment builds one segment of 65536 documents, the most
// that a segment can contain, and removes and replaces the last document.
func TestRemoveLastOfFullSegment(t *testing.T) {
	race.Skip(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // Build makes a segment for each
	const n = 1 << 16
	x := bm25.New(analysis.Standard)
	if err := x.Build(context.Background(), n, func(i int) bm25.Doc {
		return bm25.Doc{ID: uint64(i + 1), Fields: []string{fmt.Sprint("word number", i+1)}}
	}); err != nil {
		t.Fatal(err)
	}
	if got := x.Stats().Segments; got != 1 {
		t.Fatalf("%d segments, want 1", got)
	}
	found := func(text string) bool {
		hits := x.Search(bm25.Query{Text: text, Limit: 1}).Hits
		return len(hits) == 1 && hits[0].ID == n
	}
	if !found("number65536") || !x.Remove(n) || found("number65536") || x.Len() != n-1 {
		t.Errorf("%d documents after the removal of the last one, want %d", x.Len(), n-1)
	}
	x.Add(bm25.Doc{ID: n, Fields: []string{"replaced"}})
	if !found("replaced") || x.Len() != n {
		t.Errorf("%d documents after the last one is added again, want %d", x.Len(), n)
	}
}
