package bm25_test

import (
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
