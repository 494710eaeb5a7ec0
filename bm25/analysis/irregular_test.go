package analysis_test

import (
	"strings"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
)

// TestIrregular checks that a query with a word or one of its irregular forms finds
// and re-ranks the others.
func TestIrregular(t *testing.T) {
	if len(analysis.Regular) < 190 {
		t.Fatalf("%d irregular forms", len(analysis.Regular))
	}
	for form, word := range analysis.Regular {
		if form == word {
			continue
		}
		if analysis.Regular[word] != "" {
			t.Errorf("%s is a form of %s, which is a form, too", form, word)
		}
		for _, pair := range [][2]string{{form, word}, {word, form}, {strings.ToUpper(form), form}} {
			texts := []string{pair[0] + " green", "green and other words"}
			x := bm25.New(analysis.Standard)
			for i := range texts {
				x.Add(bm25.Doc{ID: uint64(i + 1), Fields: texts[i : i+1]})
			}
			q := bm25.Query{Text: pair[1] + " green", Limit: 2, Texts: func(id uint64) []string { return texts[id-1 : id] }}
			if h := x.Search(q).Hits; len(h) != 2 || h[0].ID != 1 {
				t.Errorf("%s in the text, %s in the query: %v", pair[0], pair[1], h)
			}
			if e, ok := x.Explain(q, 1); !ok || len(e.Near) != 1 {
				t.Errorf("%s in the text, %s in the query: not near: %+v", pair[0], pair[1], e)
			}
		}
	}
}

// regular returns the word of an irregular form, or the form itself.
func regular(form string) string {
	if word, ok := analysis.Regular[form]; ok {
		return word
	}
	return form
}
