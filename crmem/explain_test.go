package crmem_test

import (
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
)

// TestExplained compares explanations with search results, for the queries of
// the recall cases and every entry.
func TestExplained(t *testing.T) {
	entries := caseEntries(t, casesDir)
	s := caseStore(t, entries)
	cases, reads, enough := recallCases(t, casesDir, entries), 1000, 100_000
	if testing.Short() {
		cases, reads, enough = cases[:len(cases)/8], 125, 12_500
	}
	pairs, checked, read := 0, 0, 0
	for _, c := range cases {
		for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
			q := crmem.Query{Text: c.query, Analyzer: a}
			r, err := s.Search(t.Context(), q)
			ok(t, err)
			found := map[uint64]float64{}
			for _, h := range r.Hits {
				found[h.ID] = h.Score
			}
			for id := range uint64(len(entries)) {
				if pairs++; pairs%3 != 0 && found[id+1] == 0 { // of those that do not match a third is enough
					continue
				}
				x, there, err := s.Explain(t.Context(), q, id+1)
				ok(t, err)
				sum := 0.0
				for _, l := range x.Terms {
					sum += l.Contribution
				}
				for _, l := range x.Near {
					sum += l.Contribution
				}
				for _, l := range x.Terms {
					sum += l.Early
				}
				for _, l := range x.Terms {
					sum += l.Exact
				}
				sum += x.Named
				if !there || x.Score != sum || x.Score != found[id+1] {
					t.Fatalf("%v query %.80q: entry %d has score %v, explained as %v, lines sum to %v", a, c.query, id+1, found[id+1], x.Score, sum)
				}
				checked++
				if x.Read {
					read++
				}
			}
		}
	}
	if read < reads || checked < enough {
		t.Errorf("%d pairs, %d texts were read", checked, read)
	}
	t.Logf("explained to the bit: %d pairs of query and entry, %d of them read", checked, read)
}
