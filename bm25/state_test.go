package bm25

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/fuzz/race"
)

// A mirror makes the same changes to an index and to a map of its documents, and
// compares the complete state of the index with the documents.
type mirror struct {
	t    *testing.T
	x    *Index
	docs map[uint64]mirrored
	what string
}

// mirrored is a document with the frequencies of its terms.
type mirrored struct {
	Doc
	tf     map[string]int
	length int
}

func newMirror(t *testing.T, a analysis.Analyzer) *mirror {
	return &mirror{t: t, x: New(a), docs: map[uint64]mirrored{}}
}

func (m *mirror) store(d Doc) {
	md := mirrored{Doc: d, tf: map[string]int{}}
	for _, f := range d.Fields {
		md.length += m.x.analyzer.Length(f)
		for term := range m.x.analyzer.Tokens(f) {
			md.tf[term]++
		}
	}
	m.docs[d.ID] = md
}

func (m *mirror) add(d Doc) {
	m.what = fmt.Sprint("add ", d.ID)
	m.x.Add(d)
	m.store(d)
}

func (m *mirror) remove(id uint64) {
	m.what = fmt.Sprint("remove ", id)
	_, want := m.docs[id]
	delete(m.docs, id)
	if m.x.Remove(id) != want {
		m.t.Fatalf("%s: removed: %v, want %v", m.what, !want, want)
	}
}

func (m *mirror) build(docs []Doc) {
	m.what = "build"
	if err := m.x.Build(m.t.Context(), len(docs), func(i int) Doc { return docs[i] }); err != nil {
		m.t.Fatal(err)
	}
	for _, d := range docs {
		m.store(d)
	}
}

func equal[T comparable](m *mirror, name string, got, want T) {
	m.t.Helper()
	if got != want {
		m.t.Fatalf("%s: %s is %v, want %v", m.what, name, got, want)
	}
}

func equalLists[T comparable](m *mirror, name string, got, want []T) {
	m.t.Helper()
	if !slices.Equal(got, want) {
		m.t.Fatalf("%s: %s is %.300s, want %.300s", m.what, name, fmt.Sprint(got), fmt.Sprint(want))
	}
}

// pair is the frequency of a term and the length of its document.
type pair struct{ tf, dl int }

// content returns the frequencies of a document's terms by number.
func (m *mirror) content(d mirrored) (tf map[uint32]int, length int) {
	tf = make(map[uint32]int, len(d.tf))
	for term, n := range d.tf {
		id, ok := m.x.lexer.Dict().Find([]byte(term))
		if !ok {
			m.t.Fatalf("%s: the dict lacks %q", m.what, term)
		}
		tf[id] = n
	}
	return tf, d.length
}

// check compares the state of the index with the documents.
func (m *mirror) check() {
	m.t.Helper()
	x := m.x
	df := make([]uint32, x.lexer.Dict().Len())
	var sum lengths
	for _, d := range m.docs {
		tf, n := m.content(d)
		for term := range tf {
			df[term]++
		}
		if n > 0 {
			sum.add(lengths{1, n, (1 << 32) / uint64(n)})
		}
	}
	equal(m, "live", x.live, len(m.docs))
	equal(m, "lengths", x.lengths, sum)
	equalLists(m, "df", x.df, df)
	equal(m, "full tail", x.tail.full(), false)
	seen := m.checkTail()
	for i, s := range x.segments {
		seen += m.checkSegment(i, s)
	}
	equal(m, "documents found", seen, len(m.docs))
	var has [1 << 16 / 64]uint64
	longest := 0
	for _, c := range x.codes.list {
		equal(m, "code listed twice", has[c/64]>>(c%64)&1, 0)
		has[c/64] |= 1 << (c % 64)
		if c != 0xffff {
			longest = max(longest, int(c&4095))
		}
	}
	equal(m, "set of codes", x.codes.has, has)
	equal(m, "maxLen of codes", x.codes.maxLen, longest)
}

// checkCode compares a code in use with a frequency and a length.
func (m *mirror) checkCode(c uint16, p pair) {
	want := uint16(p.tf<<12 | p.dl)
	if p.tf > 14 || p.dl > 4095 {
		want = 0xffff
	}
	if c != want || m.x.codes.has[c/64]>>(c%64)&1 == 0 {
		m.t.Fatalf("%s: the code of %+v is %#x", m.what, p, c)
	}
}

// checkTail compares the tail with its documents and returns their number.
func (m *mirror) checkTail() int {
	t := &m.x.tail
	newest := make([]uint32, len(t.head))
	escapes := slices.Clone(t.escapes)
	next, live := uint32(0), 0
	for d, id := range t.ids {
		doc, isLive := m.docs[id]
		at, ok := t.where[id]
		dead := t.class[d] == 8
		equal(m, "first", t.first[d], next)
		if isLive = isLive && ok && int(at) == d; isLive == dead {
			m.t.Fatalf("%s: document %d of the tail: dead %v, where %d, %v", m.what, id, dead, at, ok)
		}
		tf, length := map[uint32]int{}, 0
		if isLive {
			live++
			tf, length = m.content(doc)
			equal(m, "class", t.class[d], doc.Class&7)
			equal(m, "length in the tail", int(t.lens[d]), length)
		}
		got := map[uint32]int{}
		for i := next; i < t.first[d+1]; i++ {
			n := t.nodes[i]
			equal(m, "document of a node", int(n.doc), d)
			equal(m, "chain", n.prev, newest[n.term])
			newest[n.term] = i + 1
			p := pair{int(n.code >> 12), int(n.code & 4095)}
			if n.code == 0xffff {
				equal(m, "position of an escape", escapes[0].pos, i)
				p = pair{int(escapes[0].tf), int(escapes[0].dl)}
				escapes = escapes[1:]
			}
			m.checkCode(n.code, p)
			equal(m, "length in a posting", p.dl, int(t.lens[d]))
			got[n.term] = p.tf
		}
		equal(m, "terms of a document", len(got), int(t.first[d+1]-next))
		if isLive && !maps.Equal(got, tf) {
			m.t.Fatalf("%s: document %d of the tail has %v, want %v", m.what, id, got, tf)
		}
		next = t.first[d+1]
	}
	equal(m, "nodes", len(t.nodes), int(next))
	equalLists(m, "heads", t.head, newest)
	equal(m, "other escapes", len(escapes), 0)
	equalLists(m, "lists of the tail", []int{len(t.where), len(t.class), len(t.lens)}, []int{live, len(t.ids), len(t.ids)})
	return live
}

// checkSegment compares a segment with its documents and returns their number.
func (m *mirror) checkSegment(i int, s *segment) int {
	t := m.t
	if !slices.IsSorted(s.ids) {
		equal(m, "order", len(s.order), len(s.ids))
		if !slices.IsSortedFunc(s.order, func(a, b uint16) int { return int(int64(s.ids[a]) - int64(s.ids[b])) }) {
			t.Fatalf("%s: segment %d has the order %v of %v", m.what, i, s.order, s.ids)
		}
	} else if s.order != nil {
		t.Fatalf("%s: segment %d is ordered twice", m.what, i)
	}
	equalLists(m, "minID, maxID", []uint64{s.minID, s.maxID}, []uint64{slices.Min(s.ids), slices.Max(s.ids)})
	live, deadPost := 0, 0
	lists := map[uint32][]uint32{} // by term: documents
	lens := make([]int, len(s.ids))
	var terms []byte
	for d, id := range s.ids {
		equal(m, "termsAt", int(s.termsAt[d]), len(terms))
		b := s.terms[s.termsAt[d]:s.termsAt[d+1]]
		n, size := binary.Uvarint(b)
		b = b[size:]
		terms = binary.AppendUvarint(terms, n)
		lens[d] = int(n)
		own, last := 0, ^uint32(0)
		for ; len(b) > 0; own++ {
			gap, size := binary.Uvarint(b)
			b = b[size:]
			terms = binary.AppendUvarint(terms, gap)
			last += uint32(gap)
			lists[last] = append(lists[last], uint32(d))
		}
		if s.class[d] == 8 {
			deadPost += own
			continue
		}
		live++
		doc, ok := m.docs[id]
		tf, length := m.content(doc)
		if found, at, here := m.x.locate(id); !ok || !here || found != s || int(at) != d || len(tf) != own || length != lens[d] || s.class[d] != doc.Class&7 {
			t.Fatalf("%s: document %d in segment %d has %d terms and length %d, want %d and %d", m.what, id, i, own, lens[d], len(tf), length)
		}
		for term, n := range tf {
			c, at := s.code(term, uint16(d))
			if m.checkCode(c, pair{n, length}); s.postings[at] != uint32(d)<<16|uint32(c) || match.frequency(match{seg: s, doc: uint16(d)}, term) != n {
				t.Fatalf("%s: document %d in segment %d has the posting %#x of term %d", m.what, id, i, s.postings[at], term)
			}
		}
	}
	equalLists(m, "terms", s.terms, terms)
	equalLists(m, "termsAt", s.termsAt[len(s.ids):], []uint32{uint32(len(terms))})
	equalLists(m, "deadDocs, deadPost", []int{s.deadDocs, s.deadPost}, []int{len(s.ids) - live, deadPost})
	m.checkLists(s, lists, lens)
	return live
}

// checkLists compares the posting lists of a segment with the terms of its
// documents.
func (m *mirror) checkLists(s *segment, lists map[uint32][]uint32, lens []int) {
	present, rank := make([]uint64, len(s.present)), make([]uint32, len(s.present))
	for term := range lists {
		present[term/64] |= 1 << (term % 64)
		for w := int(term/64) + 1; w < len(rank); w++ {
			rank[w]++
		}
	}
	equalLists(m, "present", s.present, present)
	equalLists(m, "rank", s.rank, rank)
	at, escapes := uint32(0), slices.Clone(s.escapes)
	for i, term := range slices.Sorted(maps.Keys(lists)) {
		equal(m, "start", s.start[i], at)
		from, to := s.list(term)
		equalLists(m, "list", []uint32{from, to}, []uint32{at, at + uint32(len(lists[term]))})
		for _, d := range lists[term] {
			p := s.postings[at]
			equal(m, "document of a posting", p>>16, d)
			if uint16(p) == 0xffff {
				equalLists(m, "escape", []int{int(escapes[0].pos), int(escapes[0].dl)}, []int{int(at), lens[d]})
				m.checkCode(0xffff, pair{int(escapes[0].tf), lens[d]})
				escapes = escapes[1:]
			} else {
				m.checkCode(uint16(p), pair{int(p >> 12 & 15), lens[d]})
			}
			at++
		}
	}
	equalLists(m, "start", s.start[len(lists):], []uint32{at})
	equal(m, "postings", len(s.postings), int(at))
	equal(m, "other escapes", len(escapes), 0)
	for _, term := range []uint32{uint32(len(s.present) * 64), uint32(len(s.present)*64 + 70)} {
		from, to := s.list(term)
		equalLists(m, "list of an unknown term", []uint32{from, to}, []uint32{0, 0})
	}
}

// stateText draws a text, sometimes with frequencies and lengths beyond the range of
// a code, or with many rare words.
func stateText(r *rand.Rand) string {
	switch r.IntN(40) {
	case 0:
		return strings.Repeat("alpha ", 13+r.IntN(4)) + "beta"
	case 1:
		return strings.Repeat("hay ", 4090+r.IntN(10)) + "beta beta gamma"
	case 2:
		return ""
	case 3:
		var b strings.Builder
		for i := range 100 + r.IntN(300) {
			fmt.Fprintf(&b, "w%dx ", r.IntN(2000)+i)
		}
		return b.String()
	}
	words := []string{"alpha", "beta", "gamma", "delta", "running", "run", "getUserName", "internationalization", "zeta", "東京都", "don't"}
	var b strings.Builder
	for range r.IntN(9) {
		b.WriteString(words[min(r.IntN(len(words)), r.IntN(len(words)))] + " ")
		if r.IntN(3) == 0 {
			fmt.Fprintf(&b, "v%dz ", r.IntN(60))
		}
	}
	return b.String()
}

// TestState makes random changes and compares the complete state of the index after
// each with its documents.
func TestState(t *testing.T) {
	race.Skip(t)
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		for _, tailDocs := range []int{2, 9, 60} {
			t.Run(fmt.Sprintf("%v-%d", a, tailDocs), func(t *testing.T) {
				SetTailDocs(t, tailDocs)
				SetFewTerms(t, 300)
				r := rand.New(rand.NewPCG(uint64(tailDocs), 5))
				m := newMirror(t, a)
				if tailDocs != 9 {
					var docs []Doc
					for i := range 100 {
						docs = append(docs, Doc{ID: uint64(997 * i % 101), Class: uint8(i), Fields: []string{stateText(r), stateText(r)}})
					}
					m.build(docs)
					m.check()
				}
				for step := range 300 {
					if id := uint64(r.IntN(130)); r.IntN(5) < 3 {
						m.add(Doc{ID: id, Class: uint8(r.IntN(16)), Fields: []string{stateText(r), stateText(r)}[:1+r.IntN(2)]})
					} else {
						m.remove(id)
					}
					if step%6 == 0 {
						m.check()
					}
				}
				for _, id := range slices.Sorted(maps.Keys(m.docs)) {
					m.remove(id)
					if id%16 == 0 {
						m.check()
					}
				}
				m.check()
			})
		}
	}
}
