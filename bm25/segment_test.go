package bm25

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
)

// TestCode compares the codes of postings around the largest frequency and length.
func TestCode(t *testing.T) {
	for _, c := range []struct{ tf, dl, want uint32 }{
		{1, 1, 0x1001}, {14, 4094, 0xeffe}, {14, 4095, 0xefff}, {14, 4096, 0xffff}, {15, 15, 0xffff}, {15, 4095, 0xffff}, {1, 4095, 0x1fff}, {1, 1 << 20, 0xffff}, {1 << 20, 1 << 20, 0xffff},
	} {
		if got := code(c.tf, c.dl); got != c.want {
			t.Errorf("%d of %d terms: %#x, want %#x", c.tf, c.dl, got, c.want)
		}
	}
}

// TestDocTable looks documents up in ascending and in another order.
func TestDocTable(t *testing.T) {
	for _, ids := range [][]uint64{{20, 30, 40, 50}, {50, 20, 40, 30}, {20}, {}} {
		d := &docTable{ids: ids, class: make([]uint8, len(ids))}
		d.sortIDs()
		if got := len(d.order) > 0; got != !slices.IsSorted(ids) {
			t.Errorf("%v: order %v", ids, d.order)
		}
		for _, id := range []uint64{0, 10, 20, 25, 30, 40, 50, 60} {
			want := max(0, slices.Index(ids, id))
			if at, ok := d.find(id); int(at) != want && ok || ok != slices.Contains(ids, id) {
				t.Errorf("%v: document %d is %d, %v", ids, id, at, ok)
			}
		}
		if at, ok := d.find(10); at != 0 || ok {
			t.Errorf("%v: an unknown document is %d, %v", ids, at, ok)
		}
		if i := slices.Index(ids, 20); i >= 0 {
			if d.kill(uint16(i)); d.deadDocs != 1 {
				t.Errorf("%v: %d dead documents", ids, d.deadDocs)
			}
			if _, ok := d.find(20); ok {
				t.Errorf("%v: a dead document is found", ids)
			}
		}
	}
}

// TestNewMerge compares the lists that a merge reserves with the merged segment.
func TestNewMerge(t *testing.T) {
	SetTailDocs(t, 3)
	x := New(analysis.Plain)
	for i := range uint64(9) {
		x.Add(Doc{ID: 90 - 10*i, Fields: []string{fmt.Sprintf("common w%da w%db", i, i/2), wordsFrom(int(i), int(i)*20)}})
	}
	x.Remove(50)
	sources := slices.Clone(x.segments)
	terms := map[int]bool{}
	docs, postings := 0, 0
	for _, s := range sources {
		s.eachTerm(func(term uint32, _ int) { terms[int(term)] = true })
		docs += len(s.ids) - s.deadDocs
		postings += len(s.postings) - s.deadPost
	}
	m := newMerge(slices.Clone(sources))
	o := m.out
	words := len(sources[2].present)
	if len(sources) != 3 || len(m.union) != words || len(o.present) != words || cap(o.start) != len(terms)+1 || len(o.postings) != postings || cap(o.ids) != docs || cap(o.class) != docs || cap(o.termsAt) != docs+1 {
		t.Errorf("%d sources, %d of %d words, %d terms, %d postings, %d documents", len(sources), len(m.union), words, cap(o.start), len(o.postings), cap(o.ids))
	}
	reserved, left := cap(o.terms), 0
	for _, n := range x.df {
		left += int(min(n, 1))
	}
	for !m.step(1 << 20) {
		t.Fatal("the merge takes more than one step")
	}
	if len(o.terms) != reserved || len(o.start) != left || left == len(terms) || int(m.post) != postings || len(o.ids) != docs || len(o.termsAt) != docs+1 {
		t.Errorf("%d bytes of terms of %d, %d terms, %d postings, %d documents", len(o.terms), reserved, len(o.start), m.post, len(o.ids))
	}
	if !slices.Equal(o.ids, []uint64{10, 20, 30, 40, 60, 70, 80, 90}) || m.sources[0].to != nil || !slices.Equal(m.sources[1].to, []uint32{3, deletedDoc, 4}) || m.sources[2].base != 5 {
		t.Errorf("documents %v, sources %v", o.ids, m.sources[1].to)
	}
	empty := newMerge([]*segment{{}, {}})
	if len(empty.union) != 0 || len(empty.out.present) != 0 || cap(empty.out.start) != 1 {
		t.Errorf("no documents: %d words, %d terms", len(empty.union), cap(empty.out.start))
	}
}

// TestLateDeletes marks documents that died during a merge. The numbers of their
// terms take one byte or several, which may be zero except for the highest bit.
func TestLateDeletes(t *testing.T) {
	x := New(analysis.Plain)
	gap := 128 - int(x.lexer.Stops())
	x.Add(Doc{ID: 1, Fields: []string{wordsFrom(0, 1)}})
	x.Add(Doc{ID: 2, Fields: []string{wordsFrom(1, 400)}})
	x.Add(Doc{ID: 3, Fields: []string{wordsFrom(gap-1, gap), wordsFrom(gap+127, gap+128), wordsFrom(gap+254, gap+255)}})
	x.freeze()
	s := x.segments[0]
	if !strings.Contains(string(s.terms), "\x80\x01") {
		t.Fatalf("the terms of document 3 are %x", s.terms[s.termsAt[2]:])
	}
	m := newMerge([]*segment{s})
	m.step(1 << 20)
	x.merge = m
	for n, id := range []uint64{3, 1, 2} {
		x.remove(id)
		out := &segment{docTable: m.out.docTable}
		out.class = slices.Clone(m.out.class)
		m.sources[0].markLateDeletes(out)
		if out.deadDocs != n+1 || out.deadPost != []int{3, 4, 403}[n] {
			t.Errorf("%d late deletes: %d dead documents with %d postings", n+1, out.deadDocs, out.deadPost)
		}
	}
}

// TestEscapedScores compares scores of several terms with their explanations, in
// documents that are longer than codes of postings allow and in short ones.
func TestEscapedScores(t *testing.T) {
	long := func(n int) string { return strings.Repeat("alpha ", n) + strings.Repeat("beta ", 4100) + "gamma" }
	for _, tailDocs := range []int{100, 4} {
		SetTailDocs(t, tailDocs)
		x := New(analysis.Plain)
		for i, text := range []string{"aaa" + strings.Repeat(" alpha", 15), "alpha beta gamma", "gamma", "beta aaa", long(1), long(20), "alpha alpha beta gamma", "aaa", long(3)} {
			x.Add(Doc{ID: uint64(i + 1), Fields: []string{text}})
		}
		for _, text := range []string{"alpha", "beta", "gamma", "alpha beta", "alpha gamma", "beta gamma", "alpha beta gamma", "aaa alpha beta gamma"} {
			r := x.Search(Query{Text: text, Explain: true})
			if len(r.Hits) < 6 {
				t.Errorf("%q: %d hits", text, len(r.Hits))
			}
			for i, h := range r.Hits {
				sum := 0.0
				for _, term := range r.Explanations[i].Terms {
					sum += term.Contribution
				}
				if h.Score != sum {
					t.Errorf("tails of %d, %q: document %d scores %v, want %v", tailDocs, text, h.ID, h.Score, sum)
				}
			}
		}
	}
}

// TestTailFreeze freezes tails with and without terms. The segment takes only the
// memory that it needs.
func TestTailFreeze(t *testing.T) {
	for _, text := range []string{"", "word"} {
		x := newIndex(text, text, text, text)
		x.Remove(3)
		x.freeze()
		s := x.segments[0]
		if !slices.Equal(s.ids, []uint64{1, 2, 4}) || cap(s.ids) != 3 || len(s.class) != 3 || cap(s.class) != 3 {
			t.Errorf("%q: documents %v of %d, %d classes of %d", text, s.ids, cap(s.ids), len(s.class), cap(s.class))
		}
		want := []uint32{0, 3}
		if text == "" {
			want = want[:1]
		}
		if !slices.Equal(s.start, want) {
			t.Errorf("%q: lists start at %v, want %v", text, s.start, want)
		}
	}
}

// TestTailReset empties tails. A tail keeps its memory, except for very many nodes.
func TestTailReset(t *testing.T) {
	for size, want := range map[int]int{100: 100, 4 * tailNodes: 4 * tailNodes, 4*tailNodes + 1: 0} {
		tail := &tail{
			head: []uint32{2, 0, 1, 7}, nodes: append(make([]node, 0, size), node{term: 2}, node{term: 0}), first: []uint32{0, 1, 2}, lens: []uint32{1, 1},
			escapes: make([]escape, 1, 3), ids: []uint64{7, 8}, class: []uint8{1, 2}, where: map[uint64]uint16{7: 0, 8: 1},
		}
		tail.reset()
		lens := []int{len(tail.nodes), len(tail.first), len(tail.lens), len(tail.escapes), len(tail.ids), len(tail.class), len(tail.where)}
		caps := []int{cap(tail.nodes), cap(tail.first), cap(tail.lens), cap(tail.escapes), cap(tail.ids), cap(tail.class)}
		if !slices.Equal(lens, []int{0, 1, 0, 0, 0, 0, 0}) || !slices.Equal(caps, []int{want, 3, 2, 3, 2, 2}) || !slices.Equal(tail.head, []uint32{0, 0, 0, 7}) || tail.first[0] != 0 {
			t.Errorf("%d nodes: lengths %v, capacities %v, chains %v", size, lens, caps, tail.head)
		}
	}
}
