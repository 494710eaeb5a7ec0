package bm25

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
)

// TestBytes adds memory to the parts of an index. Its size grows by the capacities.
func TestBytes(t *testing.T) {
	x := newIndex("some words")
	table := new(normTable)
	for _, c := range []struct {
		name   string
		change func()
		want   int64
	}{
		{"no change", func() {}, 0},
		{"norms", func() { x.norms.table = table }, 1<<18 + 1<<15},
		{"df", func() { x.df = append(make([]uint32, 0, cap(x.df)+100), x.df...) }, 400},
		{"codes", func() { x.codes.list = append(make([]uint16, 0, cap(x.codes.list)+100), x.codes.list...) }, 200},
		{"initials", func() { x.initials.lists[3] = make([]listed, 1, 5); x.initials.lists[128] = make([]listed, 0, 2) }, 56},
		{"tail", func() { x.tail.lens = append(make([]uint32, 0, cap(x.tail.lens)+10), x.tail.lens...) }, 40},
		{"segments", func() {
			x.segments = []*segment{{postings: make([]uint32, 2, 10)}, {escapes: make([]escape, 1, 2), deadPost: 3}}
		}, 64},
		{"merge", func() { x.merge = &merge{out: &segment{rank: make([]uint32, 0, 3)}} }, 12},
	} {
		before := x.Stats()
		c.change()
		if got := x.Stats().Bytes - before.Bytes; got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
	s := &segment{
		docTable: docTable{ids: make([]uint64, 0, 1), class: make([]uint8, 0, 8), order: make([]uint16, 0, 12), terms: make([]byte, 0, 64), termsAt: make([]uint32, 0, 32)},
		present:  make([]uint64, 0, 32), rank: make([]uint32, 0, 128), start: make([]uint32, 0, 256), postings: make([]uint32, 0, 512), escapes: make([]escape, 0, 1024),
	}
	if got, want := s.bytes(), 8+8+24+64+128+256+512+1024+2048+12288; got != want {
		t.Errorf("a segment has %d bytes, want %d", got, want)
	}
	tail := &tail{
		head: make([]uint32, 0, 2), nodes: make([]node, 0, 4), first: make([]uint32, 0, 16), lens: make([]uint32, 0, 32),
		escapes: make([]escape, 0, 64), ids: make([]uint64, 0, 256), class: make([]uint8, 0, 4096), where: map[uint64]uint16{7: 1, 8: 2},
	}
	if got, want := tail.bytes(), 8+48+64+128+768+2048+4096+64; got != want {
		t.Errorf("a tail has %d bytes, want %d", got, want)
	}
	if got, want := (&codeSet{list: make([]uint16, 1, 3)}).bytes(), 8192+6; got != want {
		t.Errorf("the codes have %d bytes, want %d", got, want)
	}
	if got := (&norms{}).bytes(); got != 0 {
		t.Errorf("norms without a table have %d bytes", got)
	}
}

// wordsFrom returns words that are their own terms.
func wordsFrom(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "w%cq%cz ", 'a'+i/26, 'a'+i%26)
	}
	return b.String()
}

// TestShrink checks when unused terms are looked for and when they are dropped. An
// index has n terms, of which documents contain some.
func TestShrink(t *testing.T) {
	normal := fewTerms
	for _, c := range []struct {
		few, n, kept, removed, looked int
		checks, drops                 bool
	}{
		// Enough postings were removed.
		{100, 150, 100, 99, 0, false, false},
		{100, 150, 100, 100, 0, true, false},
		{100, 400, 100, 199, 300, false, false},
		{100, 400, 100, 200, 300, true, true},
		{normal, 400, 100, 1<<16 - 1, 0, false, false},
		{normal, 400, 100, 1 << 16, 0, true, true},
		// The vocabulary doubled.
		{100, 199, 190, 1, 0, false, false},
		{100, 200, 190, 1, 0, true, false},
		{100, 400, 390, 1, 201, false, false},
		{100, 400, 390, 1, 200, true, false},
		{100, 500, 490, 1, 200, true, false},
		{100, 400, 100, 0, 0, false, false},
		{100, 400, 100, 2, 200, true, true},
		// At least half of the terms are unused.
		{100, 400, 200, 200, 0, true, true},
		{100, 400, 201, 200, 0, true, false},
		{100, 401, 201, 200, 0, true, true},
		{100, 401, 202, 200, 0, true, false},
	} {
		SetFewTerms(t, c.few)
		x := newIndex(wordsFrom(0, c.kept))
		x.lexer.Lex([]string{wordsFrom(c.kept, c.n)})
		if n := x.Terms(); n != c.n {
			t.Fatalf("%d terms, want %d", n, c.n)
		}
		x.removed, x.looked = c.removed, c.looked
		x.shrink()
		terms, removed, looked := c.n, c.removed, c.looked
		if c.checks {
			removed, looked = 0, c.n
		}
		if c.drops {
			terms, looked = c.kept, c.kept
		}
		if x.Terms() != terms || x.removed != removed || x.looked != looked {
			t.Errorf("%+v: %d terms, %d removed, %d looked at; want %d, %d, %d", c, x.Terms(), x.removed, x.looked, terms, removed, looked)
		}
	}
}

// TestTermSet adds terms around the size of a word.
func TestTermSet(t *testing.T) {
	s := make(termSet, 3)
	for i, term := range []uint32{0, 1, 63, 64, 127, 128, 191} {
		if s.has(term) || s.count() != i {
			t.Errorf("a set without term %d has it: %v; %d terms", term, s.has(term), s.count())
		}
		if s.add(term); !s.has(term) || s.count() != i+1 {
			t.Errorf("a set with term %d has it: %v; %d terms", term, s.has(term), s.count())
		}
	}
}

// TestRenumber drops the terms that neither the tail nor a segment contains. The
// other terms keep their order and their counts.
func TestRenumber(t *testing.T) {
	for _, a := range []analysis.Analyzer{analysis.Plain, analysis.Standard} {
		SetTailDocs(t, 4)
		SetFewTerms(t, 1000)
		m := newMirror(t, a)
		x := m.x
		terms := func() (list []string) {
			for id := range uint32(x.Terms()) {
				df := uint32(0)
				if int(id) < len(x.df) {
					df = x.df[id]
				}
				if term := string(x.lexer.Dict().AppendTerm(nil, id)); !strings.HasPrefix(term, "unus") {
					list = append(list, fmt.Sprint(term, " ", df))
				}
			}
			return list
		}
		x.lexer.Lex([]string{"unused " + strings.ReplaceAll(wordsFrom(0, 70), "w", "unusedx")})
		m.add(Doc{ID: 1, Fields: []string{"running first " + wordsFrom(0, 70)}})
		m.add(Doc{ID: 2, Fields: []string{"gone" + wordsFrom(70, 80)}})
		x.lexer.Lex([]string{"unusedy"})
		m.add(Doc{ID: 3, Fields: []string{"running"}})
		m.add(Doc{ID: 4, Fields: []string{"other"}})
		m.remove(2)
		x.lexer.Lex([]string{"unusedz"})
		m.add(Doc{ID: 5, Fields: []string{"fifth other"}})
		m.add(Doc{ID: 6, Fields: []string{"sixth"}})
		m.add(Doc{ID: 7, Fields: []string{"seventh other"}})
		m.remove(6)
		if a == analysis.Standard {
			x.lexer.Lex([]string{"others"}) // a form of a term
		}
		x.lexer.Lex([]string{"other unusedq"})
		want := terms()
		keep := x.wanted()
		if got := keep.count(); got != len(want) {
			t.Errorf("%v: %d terms are wanted, want %d", a, got, len(want))
		}
		x.renumber(keep, keep.count())
		if got := terms(); !slices.Equal(got, want) || x.Terms() != len(want) || len(x.df) != len(want) {
			t.Errorf("%v: %q\nwant %q", a, got, want)
		}
		m.check()
		if s := x.segments[0]; len(s.terms) != int(s.termsAt[len(s.ids)]) || len(s.present) != bitWords(len(want)) || len(x.tail.head) != len(want) {
			t.Errorf("%v: %d bytes of terms, %d words, %d chains", a, len(s.terms), len(s.present), len(x.tail.head))
		}
	}
}
