package bm25

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
)

// TestParse compares the terms of queries: the first eight bytes, the documents that
// contain the term, the weight, and the IDF. In a long query, the weight contains a root
// of the IDF.
func TestParse(t *testing.T) {
	x := newIndex("alpha beta the of", "alpha internationalizz getUserName", "internationalizzq the", "gone", "")
	x.Remove(4)
	s := new(searcher)
	for query, want := range map[string]string{
		"":                                    "",
		"gone":                                "",
		"beta alpha":                          "alpha 2 1, beta 1 1",
		"alpha the beta of":                   "alpha 2 1, beta 1 1",
		"the of":                              "of 1 1, the 2 1",
		"the qqqqq":                           "",
		"the alpha alpha":                     "alpha 2 1",
		"internationalizzq internationalizz ": "internat 1 1, internat 1 1",
		"getUserName":                         "get 1 0.5, getusern 1 1, name 1 0.5, user 1 0.5",
		"name getUserName":                    "get 1 0.5, getusern 1 1, name 1 1, user 1 0.5",
		"alpha beta" + strings.Repeat(" alpha", 6):                         "alpha 2 1, beta 1 1",
		"alpha beta" + strings.Repeat(" alpha", 7):                         "long: alpha 2 8, beta 1 1",
		"alpha beta" + strings.Repeat(" alpha", 6) + " the of 記憶 記憶":       "alpha 2 1, beta 1 1",
		"alpha beta" + strings.Repeat(" alpha", 198):                       "long: alpha 2 199, beta 1 1",
		"alpha beta" + strings.Repeat(" alpha", 199):                       "alpha 2 1, beta 1 1",
		"alpha unknown" + strings.Repeat(" beta", 5) + " getUserName Name": "long: alpha 2 1, beta 1 5, get 1 0.5, getusern 1 1, name 1 1.5, user 1 0.5",
	} {
		s.parse(x, Query{Text: query})
		var got []string
		var ids []string
		for _, term := range s.terms {
			var prefix []byte
			for shift := 56; shift >= 0; shift -= 8 {
				prefix = append(prefix, byte(term.prefix>>shift))
			}
			id := string(x.lexer.Dict().AppendTerm(nil, term.id))
			if ids = append(ids, id); !strings.HasPrefix(id, strings.TrimRight(string(prefix), "\x00")) || term.idf != float64(term.weight*idf(3, int(term.df))) {
				t.Errorf("%q: %+v", query, term)
			}
			weight := term.weight
			if s.long {
				weight = math.Round(1e9*weight/math.Pow(idf(3, int(term.df)), 0.25)) / 1e9
			}
			got = append(got, fmt.Sprintf("%s %d %v", strings.TrimRight(string(prefix), "\x00"), term.df, weight))
		}
		long := ""
		if s.long {
			long = "long: "
		}
		if got := long + strings.Join(got, ", "); got != want || !slices.IsSorted(ids) {
			t.Errorf("%q: %s of %q, want %s", query, got, ids, want)
		}
	}
}

// TestParseLetters compares the weights of single letters and of abbreviations, without the
// root of the IDF. In a query that is also long without them, abbreviations are no words.
func TestParseLetters(t *testing.T) {
	x := newIndex("vitamin c 7 e.g. ui i.e. other", "beta")
	s := new(searcher)
	long := strings.Repeat(" beta", 7)
	for query, want := range map[string]string{
		"vitamin c 7":                           "7 1, c 1, vitamin 1",
		"vitamin c 7" + long:                    "7 1, beta 7, c 0.5, vitamin 1",
		"c vitamin c" + long:                    "beta 7, c 1, vitamin 1",
		"e.g. i.e.":                             "e 1, eg 1, g 1, ie 1",
		"E.g. the (i.e.) of":                    "e 1, eg 1, g 1, ie 1",
		"vitamin e.g. ui":                       "e 1, eg 1, g 1, ui 1, vitamin 1",
		"vitamin e.g. c E.g.,I.e. (i.e." + long: "beta 7, c 0.5, vitamin 1",
		"vitamin ui.e. c" + long:                "beta 7, c 0.5, e 0.5, ui 1, vitamin 1",
		"vitamin e.g. " + long:                  "beta 7, e 0.5, eg 1, g 0.5, vitamin 1",
		strings.Repeat("e.g. ", 4):              "e 2, eg 4, g 2",
	} {
		s.parse(x, Query{Text: query})
		var got []string
		for _, term := range s.terms {
			weight := term.weight
			if s.long {
				weight = math.Round(1e9*weight/math.Pow(idf(2, int(term.df)), 0.25)) / 1e9
			}
			got = append(got, fmt.Sprintf("%s %v", x.lexer.Dict().AppendTerm(nil, term.id), weight))
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
}

// TestSegmentLists checks that a search reads only the lists of terms in a segment,
// and computes the norms only for a query with terms.
func TestSegmentLists(t *testing.T) {
	SetTailDocs(t, 2)
	x := newIndex("alpha beta", "beta", "gamma", "alpha")
	s := new(searcher)
	for query, want := range map[string][]int{"alpha": {1, 1}, "alpha beta": {2, 1}, "alpha beta gamma": {2, 2}, "gamma": {0, 1}} {
		s.parse(x, Query{Text: query})
		s.search(x, Query{Text: query})
		for i, seg := range x.segments {
			if s.segment(seg); len(s.lists) != want[i] {
				t.Errorf("%q: %d lists of segment %d, want %d", query, len(s.lists), i, want[i])
			}
		}
	}
	x = newIndex("alpha")
	if x.Search(Query{Text: "beta"}); x.norms.table != nil {
		t.Error("a search without terms computes the norms")
	}
	if x.Search(Query{Text: "alpha"}); x.norms.table == nil {
		t.Error("a search computes no norms")
	}
}

// TestExplainFilters checks that an explanation does not filter documents that cannot
// be candidates.
func TestExplainFilters(t *testing.T) {
	x := New(analysis.Standard)
	for i := range uint64(100) {
		x.Add(Doc{ID: 100 - i, Fields: []string{"word"}}) // searches read the last first
	}
	calls := 0
	e, ok := x.Explain(Query{
		Text: "word", Count: true, Filter: func(uint64) bool { calls++; return true },
		Texts: func(uint64) []string { return []string{"word"} },
	}, 7)
	if !ok || !e.Read || calls != RerankLimit {
		t.Errorf("%d calls of the filter, want %d: %+v", calls, RerankLimit, e)
	}
}
