package analysis

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// isForm reports whether the lexer stores the terms of a run.
func isForm(run string) bool {
	return len(run) <= maxRun && !strings.ContainsFunc(run, func(r rune) bool { return r >= 0x800 })
}

// formWords are words that are forms and words that are not, some of them with
// several terms or none.
func formWords() []string {
	words := []string{"é", "नमस्ते", "😀", "京都", "x京", "getName", "utf8", "running", "ran", "ещё", "e\u0301tude", "\u0301", "הבית", "the", "a"}
	for n := range 10 {
		words = append(words, strings.Repeat("x", n+1), "é"+strings.Repeat("y", n), strings.Repeat("京", n+1), "ab"+strings.Repeat("w", n)+"京")
	}
	for n := 60; n < 70; n++ {
		words = append(words, strings.Repeat("z", n), strings.Repeat("é", n/2))
	}
	return words
}

// checkForms checks what a lexer stores: the terms of each form equal those of
// Tokens.
func checkForms(t *testing.T, what string, l *Lexer, words []string, stored func(f uint32, word string) bool) {
	t.Helper()
	for _, w := range words {
		var want []string
		Standard.Tokens(w)(func(term string) bool { want = append(want, term); return true })
		f, found := l.Dict().Find([]byte(w))
		terms, ok := l.Terms([]byte(w))
		if expected := isForm(w) && found && stored(f, w); ok != expected || found && l.Analyzed(f) != expected {
			t.Errorf("%s: the lexer stores %q: %v, %v, want %v", what, w, ok, found && l.Analyzed(f), expected)
			continue
		} else if !expected {
			continue
		}
		var got []string
		for _, id := range terms {
			got = append(got, string(l.Dict().AppendTerm(nil, id)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q has the terms %q, want %q", what, w, got, want)
		}
		one, ok := l.Term(f)
		if ok != (len(want) == 1) || ok && one != terms[0] {
			t.Errorf("%s: the only term of %q: %d, %v, want %v of %d", what, w, one, ok, terms, len(want))
		}
	}
	if one, ok := l.Term(uint32(l.Dict().Len())); ok || one != 0 || l.Analyzed(uint32(l.Dict().Len())) {
		t.Errorf("%s: a number beyond the dict is analyzed", what)
	}
}

// TestForms checks which word forms a lexer stores, and their terms, after Lex,
// Merge, Renumber, and Clip.
func TestForms(t *testing.T) {
	words := formWords()
	half := len(words) / 2
	every := func(uint32, string) bool { return true }
	lex := func(words []string) *Lexer {
		l := NewLexer(Standard)
		for range 2 {
			if _, n := l.Lex([]string{strings.Join(words, "\n")}); n != Standard.Length(strings.Join(words, "\n")) {
				t.Errorf("length %d", n)
			}
		}
		return l
	}
	checkForms(t, "one", lex(words), words, every)

	a, b := lex(words[:half]), lex(words[half-5:])
	length := a.Dict().Len()
	remap := a.Merge(b, nil)
	if len(remap) != b.Dict().Len() || a.Dict().Len() <= length {
		t.Errorf("%d terms are merged, want %d", len(remap), b.Dict().Len())
	}
	for id, to := range remap {
		if got, want := a.Dict().AppendTerm(nil, to), b.Dict().AppendTerm(nil, uint32(id)); !slices.Equal(got, want) {
			t.Errorf("%q became %q", want, got)
		}
	}
	checkForms(t, "merged", a, words, every)
	if len(a.forms) != len(a.dict.keys) {
		t.Errorf("%d forms of %d terms are merged", len(a.forms), len(a.dict.keys))
	}
	a.Clip()
	checkForms(t, "clipped", a, words, every)

	// A later merge adds what the other lexer learned since.
	b.Lex([]string{"later words of lateName"})
	a.Merge(b, remap)
	checkForms(t, "merged again", a, append(words, "later", "words", "lateName"), every)

	for seed := range uint64(20) {
		l := lex(words)
		r := rand.New(rand.NewPCG(seed, 1))
		n := l.Dict().Len()
		kept, to := make([]bool, n), make([]uint32, n)
		var terms []string
		count := 0
		for i := range kept {
			if kept[i] = r.IntN(4) > 0; kept[i] {
				to[i] = uint32(count)
				count++
				terms = append(terms, string(l.Dict().AppendTerm(nil, uint32(i))))
			}
		}
		stored := map[string]bool{} // forms of which all terms are kept
		for _, w := range words {
			all := true
			if ids, ok := l.Terms([]byte(w)); ok {
				for _, id := range ids {
					all = all && kept[id]
				}
			}
			stored[w] = all
		}
		l.Renumber(func(t uint32) bool { return kept[t] }, to, count)
		if got := l.Dict().Len(); got != count {
			t.Errorf("%d terms are left, want %d", got, count)
		}
		for i, term := range terms {
			if got, ok := l.Dict().Find([]byte(term)); !ok || got != uint32(i) {
				t.Errorf("%q has the number %d, %v, want %d", term, got, ok, i)
			}
		}
		checkForms(t, "renumbered", l, words, func(_ uint32, w string) bool { return stored[w] })
		l.Lex([]string{strings.Join(words, "\n")})
		checkForms(t, "renumbered and read", l, words, every)
	}
}

// TestPlainStops checks that a Plain lexer numbers stop words first, stores no forms,
// and keeps them when it renumbers.
func TestPlainStops(t *testing.T) {
	l := NewLexer(Plain)
	ids, n := l.Lex([]string{"the Quick the"})
	if n != 1 || len(ids) != 1 || ids[0] != l.Stops() || int(l.Stops()) != len(plainStopWords) || NewLexer(Standard).Stops() != 0 {
		t.Errorf("terms %v, length %d, %d stop words", ids, n, l.Stops())
	}
	o := NewLexer(Plain)
	o.Lex([]string{"quick brown"})
	remap := l.Merge(o, nil)
	if l.Analyzed(0) || len(l.forms) != 0 || len(remap) != o.Dict().Len() || l.Dict().Len() != len(plainStopWords)+2 {
		t.Errorf("%d forms, %d terms", len(l.forms), l.Dict().Len())
	}
	keep := func(t uint32) bool { return t < l.Stops() || t%2 == 0 }
	to := make([]uint32, l.Dict().Len())
	kept := 0
	for i := range to {
		if keep(uint32(i)) {
			to[i] = uint32(kept)
			kept++
		}
	}
	l.Renumber(keep, to, kept)
	if l.forms != nil || l.Dict().Len() != kept {
		t.Errorf("%d forms, %d terms, want %d", len(l.forms), l.Dict().Len(), kept)
	}
}

// TestRest keeps the buffers of a usual document and frees those of a long one.
func TestRest(t *testing.T) {
	l := NewLexer(Standard)
	l.Lex([]string{"some words"})
	used := l.scratch()
	if l.Rest(); l.scratch() != used || used == 0 {
		t.Errorf("%d bytes after Rest, were %d", l.scratch(), used)
	}
	l.Lex([]string{strings.Repeat("some words ", 400_000)})
	if l.Rest(); l.scratch() != 0 {
		t.Errorf("%d bytes after Rest", l.scratch())
	}
}

// TestLexLength checks that a lexer returns the length that Length returns, without
// compounds.
func TestLexLength(t *testing.T) {
	for _, a := range []Analyzer{Standard, Plain} {
		l := NewLexer(a)
		for _, text := range []string{"", "a b", "rate_limit", "max_wal_size v2.6.1", "HTTP 404 4 GiB 1,000,000", "2026-03-04", "C++ a/b/c", "O'Neill", "記憶 é_é x"} {
			if _, n := l.Lex([]string{text}); n != a.Length(text) {
				t.Errorf("%v: %q has the length %d, want %d", a, text, n, a.Length(text))
			}
		}
	}
	if n := Standard.Length("max_wal_size"); n != 3 {
		t.Errorf("a name of three words has the length %d", n)
	}
}
