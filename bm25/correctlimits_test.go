package bm25

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
)

// newIndex returns a Standard index of documents with one field each. The IDs start
// at 1.
func newIndex(texts ...string) *Index {
	x := New(analysis.Standard)
	for i, text := range texts {
		x.Add(Doc{ID: uint64(i + 1), Fields: []string{text}})
	}
	return x
}

// TestCorrectionLimits compares corrections and the documents that they find. A
// document that starts with "-" is removed before the search.
func TestCorrectionLimits(t *testing.T) {
	known := strings.Repeat("word ", 62)
	for _, c := range []struct {
		docs        []string
		query, want string
	}{
		// 5 letters and one edit; 8 letters and two edits.
		{[]string{"vazon"}, "vason", "[{vason typo [vazon] 0.7}] [1]"},
		{[]string{"vazo"}, "vaso", "[] []"},
		{[]string{"vazonov"}, "vasonov", "[{vasonov typo [vazonov] 0.7}] [1]"},
		{[]string{"vazonov"}, "vasonow", "[] []"},
		{[]string{"vazonovo"}, "vasonowo", "[{vasonowo typo [vazonovo] 0.7}] [1]"},
		{[]string{"vazonovo"}, "vasonowa", "[] []"},
		{[]string{"vazonovod"}, "vasonowod", "[{vasonowod typo [vazonovod] 0.7}] [1]"},
		{[]string{"vazonovod"}, "vasomowod", "[] []"},
		{[]string{"vazon"}, "vason the", "[{vason typo [vazon] 0.7}] [1]"},
		// A correction keeps the first letter, but not its case.
		{[]string{"vazon"}, "wazon", "[] []"},
		{[]string{"VAZON"}, "vason", "[{vason typo [vazon] 0.7}] [1]"},
		{[]string{"vazon"}, "VASON", "[{vason typo [vazon] 0.7}] [1]"},
		// Words of removed documents are neither known nor choices.
		{[]string{"vazon", "-vason"}, "vason", "[{vason typo [vazon] 0.7}] [1]"},
		{[]string{"vazon", "-vagon"}, "vason", "[{vason typo [vazon] 0.7}] [1]"},
		{[]string{"-vazon"}, "vason", "[] []"},
		// A word of one document is known.
		{[]string{"vazon", "vason"}, "vason qqqqq", "[] [2]"},
		{[]string{"vazon", "vason"}, "user's vasom", "[{vasom typo [vason] 0.7}] [2]"},
		// A prefix has precedence over a misspelling.
		{[]string{"vasonovich", "vazon"}, "vason", "[{vason prefix [vasonovich] 0.7}] [1]"},
		// A stem that has a stem of its own is not a prefix of itself.
		{[]string{"chosen"}, "choos", "[{choos typo [choos] 0.7}] [1]"},
		// Four choices share the weight: fewer edits, more documents, the alphabet.
		{[]string{"vasonb", "vasonc", "vasond", "vasonk", "vasonf", "vasonf"}, "vason", "[{vason prefix [vasonf vasonb vasonc vasond] 0.175}] [1 2 3 5 6]"},
		{[]string{"vasonb", "vasonc", "vasond"}, "vason", "[{vason prefix [vasonb vasonc vasond] 0.2333333333333333}] [1 2 3]"},
		{[]string{"vazonovi", "vabonowi", "vazonowi", "vazonowi"}, "vasonowi", "[{vasonowi typo [vazonowi vabonowi] 0.35}] [2 3 4]"},
		{[]string{"vazonovi", "vazonobi"}, "vasonowi", "[{vasonowi typo [vazonobi vazonovi] 0.35}] [1 2]"},
		// Two words of three bytes are joined, whether one or both are unknown.
		{[]string{"tabrow"}, "tab row", "[{tab row joined [tabrow] 0.7}] [1]"},
		{[]string{"tabrow"}, "ta brow", "[] []"},
		{[]string{"tabrow"}, "tabr ow", "[] []"},
		{[]string{"tabrow", "tab"}, "tab row", "[{tab row joined [tabrow] 0.7}] [2 1]"},
		{[]string{"tabrow", "row"}, "tab row", "[{tab row joined [tabrow] 0.7}] [2 1]"},
		{[]string{"tabrow", "tab", "row"}, "tab row", "[] [2 3]"},
		{[]string{"tabrow", "tab", "row"}, "tab row qqqqq", "[] [2 3]"},
		{[]string{"tabrow", "tab"}, "tab, the row", "[] [2]"},
		{[]string{"other", "-tabrow"}, "tab row", "[] []"},
		{[]string{"tabrowing", "rowin"}, "tab rowing", "[{tab rowing joined [tabrowing] 0.7}] [1]"},
		{[]string{"autovacuun", "vacuum"}, "auto vacuun", "[{auto vacuun joined [autovacuun] 0.7}] [1]"},
		{[]string{"autovacuun", "vacuum"}, "auto, vacuun", "[{auto vacuun joined [autovacuun] 0.7}] [1]"},
		// If all terms are known, a word of marks, which has no term, is not corrected.
		{[]string{"tab"}, "tab \u0301\u0301", "[] [1]"},
		// At most four words are corrected.
		{[]string{"vazon tazon pazon razon mazon"}, "vason tason pason", "[{vason typo [vazon] 0.7} {tason typo [tazon] 0.7} {pason typo [pazon] 0.7}] [1]"},
		{[]string{"vazon tazon pazon razon mazon"}, "vason tason pason rason mason", "[{vason typo [vazon] 0.7} {tason typo [tazon] 0.7} {pason typo [pazon] 0.7} {rason typo [razon] 0.7}] [1]"},
		{[]string{"vazon tazon"}, "ab cd ef gh vason", "[] []"},
		{[]string{"word vazon", "tazon"}, "word vason tason", "[{vason typo [vazon] 0.7} {tason typo [tazon] 0.7}] [1 2]"},
		// The first 64 words are looked up.
		{[]string{"word", "vazon", "tazon"}, known + "vason tason", "[{vason typo [vazon] 0.7} {tason typo [tazon] 0.7}] [1 2 3]"},
		{[]string{"word", "vazon", "tazon"}, known + "word vason tason", "[{vason typo [vazon] 0.7}] [1 2]"},
		{[]string{"word", "vazon", "tazon"}, known + "word word vason tason", "[] [1]"},
	} {
		x := newIndex(c.docs...)
		for i, doc := range c.docs {
			if strings.HasPrefix(doc, "-") {
				x.Remove(uint64(i + 1))
			}
		}
		r := x.Search(Query{Text: c.query, Correct: true})
		var ids []uint64
		for _, h := range r.Hits {
			ids = append(ids, h.ID)
		}
		if got := fmt.Sprint(r.Corrections, ids); got != c.want {
			t.Errorf("%q in %q: %s, want %s", c.query, c.docs, got, c.want)
		}
	}
}

// TestInitials compares the lists of first bytes, also after another dict replaces
// the first one.
func TestInitials(t *testing.T) {
	for b, want := range map[byte]byte{'a': 'a', 'B': 'b', 'b': 'b', 'Z': 'z', '2': '2', '3': '3', 0x7f: 0x7f, 0x80: 0x80, 0xc3: 0x80, 0xff: 0x80} {
		if got := initial(b); got != want {
			t.Errorf("byte %#x is in list %#x, want %#x", b, got, want)
		}
	}
	n := &initials{}
	check := func(d *analysis.Dict, first byte, want ...string) {
		t.Helper()
		var got []string
		for _, l := range n.of(d, first) {
			term := string(d.AppendTerm(nil, l.id))
			if set := letters([]byte(strings.ToLower(term))); l.letters != set {
				t.Errorf("%q has the letters %b, want %b", term, l.letters, set)
			}
			got = append(got, term)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the list of %q is %q, want %q", first, got, want)
		}
	}
	x := newIndex("alpha axis beta Anna ёлка")
	d := x.lexer.Dict()
	check(d, 'a', "alpha", "axis", "axi", "Anna", "anna")
	check(d, 'A', "alpha", "axis", "axi", "Anna", "anna")
	check(d, 'b', "beta")
	check(d, 'c')
	x.Add(Doc{ID: 2, Fields: []string{"ant"}})
	check(d, 'a', "alpha", "axis", "axi", "Anna", "anna", "ant")
	size := 0
	for _, list := range n.lists {
		size += 8 * cap(list)
	}
	if got := n.bytes(); got != size || got < 8*7 {
		t.Errorf("%d bytes, want %d", got, size)
	}
	other := newIndex("acorn bear").lexer.Dict()
	check(other, 'a', "acorn")
	check(other, 'b', "bear")
	if len(n.lists[0x80]) != 0 || n.known != other.Len() || n.dict != other {
		t.Errorf("%d terms of another dict, %d known", len(n.lists[0x80]), n.known)
	}
}

// TestLetters compares sets of letters.
func TestLetters(t *testing.T) {
	for word, want := range map[string]uint32{"": 0, "a": 1 << 1, "abca": 1<<1 | 1<<2 | 1<<3, "`": 1, "z": 1 << 26, "é": 1 << 9} {
		if got := letters([]byte(word)); got != want {
			t.Errorf("%q: %b, want %b", word, got, want)
		}
	}
}
