package bm25_test

import (
	"strings"
	"testing"

	"crabmem/bm25"
)

// TestIrregular: a word is found by its irregular forms and they by it, and what
// a text shows is seen whichever it has.
func TestIrregular(t *testing.T) {
	if len(bm25.Regular) < 190 {
		t.Fatalf("%d irregular forms", len(bm25.Regular))
	}
	for form, word := range bm25.Regular {
		if bm25.Regular[word] != "" {
			t.Errorf("%s is a form of %s, which is a form, too", form, word)
		}
		for _, pair := range [][2]string{{form, word}, {word, form}, {strings.ToUpper(form), form}} {
			l := newLibrary(t, []string{pair[0] + " green"}, []string{"green and other words"})
			q := bm25.Query{Text: pair[1] + " green", Limit: 2, Texts: func(id uint64) []string { return l.texts[id-1] }}
			if h := l.x.Search(q).Hits; len(h) != 2 || h[0].ID != 1 {
				t.Errorf("%s in the text, %s in the query: %v", pair[0], pair[1], h)
			}
			if e, ok := l.x.Explain(q, 1); !ok || len(e.Near) != 1 {
				t.Errorf("%s in the text, %s in the query: not near: %+v", pair[0], pair[1], e)
			}
		}
	}
}

// regular returns the word that an irregular form is of, and others as they are.
func regular(form string) string {
	if word, ok := bm25.Regular[form]; ok {
		return word
	}
	return form
}
