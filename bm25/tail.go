package bm25

import (
	"cmp"
	"slices"
)

// A tail is the part of the index that takes new documents. The postings of a term
// are a chain, newest first. Adding a document costs one append and one random
// write per term.
type tail struct {
	head    []uint32 // by term: its newest node plus one; 0: none
	nodes   []node   // grouped by document, in document order
	first   []uint32 // by document, and one more: its first node
	lens    []uint32 // by document
	escapes []escape // pos is a node; ascending
	ids     []uint64
	class   []uint8
	where   map[uint64]uint16 // live documents
}

type node struct {
	term, prev uint32
	doc, code  uint16
}

// tailNodes and tailDocs are the limits at which a tail becomes a segment. They
// bound the time of a freeze.
const tailNodes = 160 << 10

var tailDocs = 2048 // only tests change it

func (t *tail) full() bool { return len(t.ids) >= tailDocs || len(t.nodes) >= tailNodes }

// add appends a document. terms contains repetitions, vocabulary is the number of
// terms in the index, and add increments df.
func (t *tail) add(d Doc, terms []uint32, length, vocabulary int, df []uint32) {
	if len(t.head) < vocabulary {
		t.head = slices.Grow(t.head, vocabulary-len(t.head))
		t.head = t.head[:cap(t.head)]
	}
	if t.where == nil {
		t.where = make(map[uint64]uint16, tailDocs)
		t.first = append(t.first, 0)
	}
	doc := uint16(len(t.ids))
	first := uint32(len(t.nodes))
	nodes := slices.Grow(t.nodes, min(len(terms), tailNodes))
	head := t.head
	// The first loop counts in code up to the largest exact number. The second
	// counts greater frequencies again.
	const most = 0xffff
	for _, term := range terms {
		h := head[term]
		if h > first {
			if n := &nodes[h-1]; n.code < most {
				n.code++
			}
			continue
		}
		nodes = append(nodes, node{term: term, prev: h, doc: doc, code: 1})
		head[term] = uint32(len(nodes))
	}
	dl := uint32(length)
	for i := range nodes[first:] {
		n := &nodes[int(first)+i]
		df[n.term]++
		tf := uint32(n.code)
		if tf == most {
			tf = 0
			for _, term := range terms {
				if term == n.term {
					tf++
				}
			}
		}
		n.code = uint16(code(tf, dl))
		if n.code == escaped {
			t.escapes = append(t.escapes, escape{first + uint32(i), tf, dl})
		}
	}
	t.nodes = nodes
	t.first = append(t.first, uint32(len(nodes)))
	t.ids = append(t.ids, d.ID)
	t.class = append(t.class, d.Class&7)
	t.lens = append(t.lens, dl)
	t.where[d.ID] = doc
}

// newest returns the newest node of a term plus one; 0 if there is none.
func (t *tail) newest(term uint32) uint32 {
	if int(term) >= len(t.head) {
		return 0 // of storage, from after the latest document
	}
	return t.head[term]
}

func (t *tail) isDead(d uint16) bool { return t.class[d] == removed }

func (t *tail) kill(d uint16) {
	t.class[d] = removed
	delete(t.where, t.ids[d])
}

// of returns the nodes of a document.
func (t *tail) of(d uint16) []node { return t.nodes[t.first[d]:t.first[d+1]] }

// escape returns the escape of node i, whose code is escaped.
func (t *tail) escape(i uint32) escape {
	at, _ := slices.BinarySearchFunc(t.escapes, i, escape.compare)
	return t.escapes[at]
}

// freeze returns the live documents, by ascending ID, as a segment and empties
// the tail.
func (t *tail) freeze() *segment {
	s := &segment{}
	s.present = make([]uint64, bitWords(len(t.head)))
	order := make([]uint16, 0, len(t.ids))
	for d := range t.ids {
		if !t.isDead(uint16(d)) {
			order = append(order, uint16(d))
		}
	}
	s.ids, s.class = make([]uint64, 0, len(order)), make([]uint8, 0, len(order))
	lens := make([]uint32, 0, len(order))
	slices.SortFunc(order, func(a, b uint16) int { return cmp.Compare(t.ids[a], t.ids[b]) })
	for _, d := range order {
		s.ids = append(s.ids, t.ids[d])
		s.class = append(s.class, t.class[d])
		lens = append(lens, t.lens[d])
		for _, n := range t.of(d) {
			s.present[n.term>>6] |= 1 << (n.term & 63)
		}
	}
	s.buildRank()
	// The chains are no longer needed: head becomes each term's position in start.
	terms := 0
	s.eachTerm(func(term uint32, i int) {
		t.head[term] = uint32(i)
		terms = i + 1
	})
	s.start = make([]uint32, terms+1)
	for _, d := range order {
		for _, n := range t.of(d) {
			s.start[t.head[n.term]+1]++
		}
	}
	for i := range terms {
		s.start[i+1] += s.start[i]
	}
	s.postings = make([]uint32, s.start[terms])
	next := slices.Clone(s.start)
	for to, d := range order {
		for i, n := range t.of(d) {
			at := &next[t.head[n.term]]
			s.postings[*at] = uint32(to)<<16 | uint32(n.code)
			if n.code == escaped {
				e := t.escape(t.first[d] + uint32(i))
				s.escapes = append(s.escapes, escape{*at, e.tf, e.dl})
			}
			*at++
		}
	}
	s.sortEscapes()
	s.buildTerms(lens)
	s.sortIDs()
	t.reset()
	return s
}

// reset empties the tail. It keeps the memory, unless a document with very many
// terms took more than a tail needs.
func (t *tail) reset() {
	for _, n := range t.nodes {
		t.head[n.term] = 0
	}
	clear(t.where)
	if cap(t.nodes) > 4*tailNodes {
		t.nodes = nil
	}
	t.nodes, t.escapes, t.first = t.nodes[:0], t.escapes[:0], t.first[:1]
	t.ids, t.class, t.lens = t.ids[:0], t.class[:0], t.lens[:0]
}

func (t *tail) bytes() int {
	return 4*cap(t.head) + 12*cap(t.nodes) + 4*cap(t.first) + 4*cap(t.lens) + 12*cap(t.escapes) +
		8*cap(t.ids) + cap(t.class) + 32*len(t.where)
}
