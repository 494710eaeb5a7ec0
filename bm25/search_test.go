package bm25_test

import (
	"fmt"
	"math"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
)

// TestStopWords checks that stop words match under Standard only in a query without
// other words, and never under Plain.
func TestStopWords(t *testing.T) {
	for _, c := range []struct {
		analyzer analysis.Analyzer
		query    string
		want     int
	}{
		{analysis.Standard, "to be or not to be", 1},
		{analysis.Standard, "to be or whatever", 0},
		{analysis.Standard, "that question", 1},
		{analysis.Plain, "to be or not to be", 0},
		{analysis.Plain, "that question", 1},
	} {
		x := bm25.New(c.analyzer)
		x.Add(bm25.Doc{ID: 1, Fields: []string{"To be, or not to be, that is the question"}})
		if got := len(x.Search(bm25.Query{Text: c.query}).Hits); got != c.want {
			t.Errorf("%v: %q finds %d documents, want %d", c.analyzer, c.query, got, c.want)
		}
	}
}

// TestFilterCalls checks that a search with a limit does not filter documents that
// cannot be hits.
func TestFilterCalls(t *testing.T) {
	x := bm25.New(analysis.Plain)
	for i := range 1000 {
		x.Add(bm25.Doc{ID: uint64(1000 - i), Fields: []string{"word"}}) // searches read the last first
	}
	for _, count := range []bool{false, true} {
		calls := 0
		res := x.Search(bm25.Query{Text: "word", Limit: 5, Count: count, Filter: func(id uint64) bool { calls++; return true }})
		if want := map[bool]int{false: 5, true: 1000}[count]; calls != want || len(res.Hits) != 5 || res.Hits[4].ID != 5 {
			t.Errorf("count %v: %d calls of the filter, want %d; hits %v", count, calls, want, res.Hits)
		}
	}
}

// TestBytesOfCorrection checks that the size of an index includes the lists that
// spelling correction makes.
func TestBytesOfCorrection(t *testing.T) {
	x := bm25.New(analysis.Standard)
	for i := range 500 {
		x.Add(bm25.Doc{ID: uint64(i + 1), Fields: []string{fmt.Sprintf("configuration%c%c", 'a'+i%26, 'a'+i/26)}})
	}
	before := x.Stats().Bytes
	r := x.Search(bm25.Query{Text: "comfigurationab", Limit: 3, Correct: true})
	if after := x.Stats().Bytes; len(r.Corrections) != 1 || after < before+8*500 {
		t.Errorf("%d bytes, %d after %+v", before, after, r.Corrections)
	}
}

// TestRarity checks that each word counts once, also an unknown one, and that stop words do
// not count.
func TestRarity(t *testing.T) {
	x := bm25.New(analysis.Standard)
	for i, text := range []string{"red fox", "red car", "red sea"} {
		x.Add(bm25.Doc{ID: uint64(i + 1), Fields: []string{text}})
	}
	idf := func(df float64) float64 { return math.Log((3-df+0.5)/(df+0.5) + 1) }
	for text, want := range map[string]float64{
		"": 0, "the": 0, "東京都": 0, "red": idf(3), "the fox": idf(1), "zebra": idf(0), "red fox zebra fox": idf(3) + idf(1) + idf(0),
	} {
		if got := x.Rarity(text); math.Abs(got-want) > 1e-12 {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
