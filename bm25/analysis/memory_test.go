package analysis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestHash checks that the hash of a term depends on each byte and on the length.
func TestHash(t *testing.T) {
	d := newDict()
	d.seed = 1
	hash := func(term string) uint64 {
		if len(term) <= 8 {
			return d.hashShort(shortKey([]byte(term)))
		}
		return d.hashLong([]byte(term))
	}
	seen := map[uint64]bool{}
	for n := 1; n < 50; n++ {
		term := strings.Repeat("a", n)
		h := hash(term)
		for i := range n {
			if other := term[:i] + "b" + term[i+1:]; hash(other) == h {
				t.Errorf("%q and %q have the same hash", other, term)
			}
		}
		if seen[h] {
			t.Errorf("%q and a shorter term have the same hash", term)
		}
		seen[h] = true
	}
}

// TestSameHash adds terms that have the same hash with every seed.
func TestSameHash(t *testing.T) {
	terms := []string{"aaaaaaaaa", "baaaaaaaaa"}
	d := newDict()
	if d.hashLong([]byte(terms[0])) != d.hashLong([]byte(terms[1])) {
		t.Errorf("%q have different hashes", terms)
	}
	for i, term := range terms {
		if id := d.Add([]byte(term)); id != uint32(i) {
			t.Errorf("%q gets the number %d, want %d", term, id, i)
		}
	}
	for i, term := range terms {
		if id, ok := d.Find([]byte(term)); id != uint32(i) || !ok {
			t.Errorf("%q is found as %d, %t, want %d", term, id, ok, i)
		}
	}
}

// TestProbe looks at the slot of a dict's term, at a free slot, and at slots with
// another tag, another term, and a number that is not below the length of the dict.
func TestProbe(t *testing.T) {
	d := newDict()
	mask := uint32(len(d.slots) - 1)
	key := shortKey([]byte("term"))
	d.addShort(key)
	h := d.hashShort(key)
	tag, slot := uint32(h), d.slots[uint32(h>>32)&mask]
	for _, c := range []struct {
		name string
		probe
		want bool
	}{
		{"term", probe{key, tag, slot}, true},
		{"free slot", probe{key, tag, 0}, false},
		{"free slot of the same tag", probe{key, mask, 0}, false},
		{"other tag", probe{key, ^tag, slot}, false},
		{"other term", probe{key + 1, tag, slot}, false},
		{"large number", probe{key, tag, slot + 1}, false},
	} {
		if id, ok := c.term(d.keys, mask); ok != c.want || ok && id != 0 {
			t.Errorf("%s: found as %d, %t, want %t", c.name, id, ok, c.want)
		}
	}
}

// TestFirstSlots checks that a lexer reads the first slots of all short ASCII words
// and finds known words there.
func TestFirstSlots(t *testing.T) {
	for _, a := range []Analyzer{Standard, Plain} {
		l := NewLexer(a)
		l.dict.seed = 1
		l.dict.resize(1 << 16) // no word has the first slot of another
		for range 2 {
			l.Lex([]string{"red green internationalization black"})
		}
		if len(l.probes) != 3 {
			t.Errorf("%v: the lexer reads %d slots, want 3", a, len(l.probes))
		}
		for i, p := range l.probes {
			if _, ok := p.term(l.dict.keys, 1<<16-1); !ok {
				t.Errorf("%v: the slot of word %d is not its first", a, i)
			}
		}
	}
}

// TestAnalyzeOnce checks that a lexer stores the terms of a word form once, and that
// a compound is no word form until a text contains it as a word.
func TestAnalyzeOnce(t *testing.T) {
	l := NewLexer(Standard)
	l.Lex([]string{"getName rate limit internationalName"})
	forms, more := slices.Clone(l.forms), slices.Clone(l.moreTerms)
	for range 3 {
		l.Lex([]string{"getName rate limit internationalName"})
	}
	if !slices.Equal(l.forms, forms) || !slices.Equal(l.moreTerms, more) {
		t.Errorf("forms %d and terms %d, were %d and %d", l.forms, l.moreTerms, forms, more)
	}
	for _, name := range []string{"rate_limit", "a_b"} {
		l.Lex([]string{strings.ReplaceAll(name, "_", " ")})
		l.Lex([]string{name})
		joined := strings.ReplaceAll(name, "_", "")
		compound := uint32(l.dict.Len() - 1)
		if got := string(l.dict.AppendTerm(nil, compound)); got != joined || l.Analyzed(compound) {
			t.Errorf("the last term is %q, want %q, analyzed: %t", got, joined, l.Analyzed(compound))
		}
		if ids, _ := l.Lex([]string{joined}); !slices.Equal(ids, []uint32{compound}) || !l.Analyzed(compound) {
			t.Errorf("%s has the terms %d, want %d", joined, ids, compound)
		}
	}
}

// TestMergeForms merges word forms without terms, with one, and with several.
func TestMergeForms(t *testing.T) {
	words := []string{"\u0301", "aName", "running", "bName", "cName"}
	l, o := NewLexer(Standard), NewLexer(Standard)
	l.Lex([]string{"other running otherName"})
	o.Lex([]string{strings.Join(words, " ")})
	l.Merge(o, nil)
	checkForms(t, "merged", l, append(words, "other", "otherName"), func(uint32, string) bool { return true })
}

// TestMemory checks the size that Bytes returns, and that Clip and Renumber free
// memory.
func TestMemory(t *testing.T) {
	const spare = 100_000
	l := NewLexer(Standard)
	l.Lex([]string{"getName of an internationalName"})
	l.dict.keys = slices.Grow(l.dict.keys, spare)
	l.dict.arena = slices.Grow(l.dict.arena, spare)
	l.dict.resize(spare)
	l.forms = slices.Grow(l.forms, spare)
	l.moreTerms = slices.Grow(l.moreTerms, spare)
	check := func(what string, least, most int) {
		t.Helper()
		d := l.dict
		want := 8*cap(d.keys) + cap(d.arena) + 4*cap(d.slots) + 4*cap(l.forms) + 4*cap(l.moreTerms) + l.scratch()
		if got := l.Bytes(); got != want || got < least || got > most {
			t.Errorf("%s: %d bytes, want %d, from %d to %d", what, got, want, least, most)
		}
	}
	check("grown", 21*spare, 25*spare)
	l.Clip()
	for what, n := range map[string]int{
		"keys": cap(l.dict.keys), "arena": cap(l.dict.arena), "slots": cap(l.dict.slots), "forms": cap(l.forms), "terms of forms": cap(l.moreTerms),
	} {
		if n > 1000 {
			t.Errorf("Clip keeps %d %s", n, what)
		}
	}
	check("clipped", 4*minSlots, spare)
	to := make([]uint32, l.dict.Len())
	for i := range to {
		to[i] = uint32(i)
	}
	l.Renumber(func(uint32) bool { return true }, to, len(to))
	if cap(l.dict.keys) != len(to) {
		t.Errorf("Renumber reserves %d keys, want %d", cap(l.dict.keys), len(to))
	}
}

// TestRenumberAllocations checks that Renumber does not let the table grow in steps.
func TestRenumberAllocations(t *testing.T) {
	l := NewLexer(Standard)
	to := make([]uint32, 50_000)
	for i := range to {
		to[i] = l.dict.Add(fmt.Append(nil, i))
	}
	allocs := testing.AllocsPerRun(3, func() { l.Renumber(func(uint32) bool { return true }, to, len(to)) })
	if allocs > 9 { // each step of growth allocates once
		t.Errorf("Renumber allocates %.0f times", allocs)
	}
}

// TestRestLimit keeps buffers of mostScratch bytes and frees larger ones.
func TestRestLimit(t *testing.T) {
	for n, want := range map[int]int{mostScratch: mostScratch, mostScratch + 1: 0} {
		l := NewLexer(Standard)
		l.scanner.buf = make([]byte, n)
		if l.Rest(); l.scratch() != want {
			t.Errorf("Rest keeps %d of %d bytes, want %d", l.scratch(), n, want)
		}
	}
}
