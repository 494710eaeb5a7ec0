package bm25

import (
	"encoding/binary"
	"math/bits"
)

// Terms without documents keep their numbers until half of a large vocabulary may
// be unused. Then the other terms get new numbers in the same order, so that data
// sorted by number stays sorted.

// fewTerms is the size of a vocabulary that never shrinks, and the smallest number
// of removed postings before a check.
var fewTerms = 1 << 16 // only tests change it

// shrink drops unused terms if, since the latest check, enough postings were
// removed or the vocabulary doubled. No merge may be in progress.
func (x *Index) shrink() {
	n := x.lexer.Dict().Len()
	if x.removed < max(fewTerms, n/2) && (x.removed == 0 || n < 2*max(fewTerms, x.looked)) {
		return
	}
	x.removed, x.looked = 0, n
	keep := x.wanted()
	if kept := keep.count(); n-kept >= n/2 {
		x.renumber(keep, kept)
		x.looked = kept
	}
}

// A termSet is a set of terms by number.
type termSet []uint64

func (s termSet) has(t uint32) bool { return s[t>>6]>>(t&63)&1 != 0 }
func (s termSet) add(t uint32)      { s[t>>6] |= 1 << (t & 63) }

func (s termSet) count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// wanted returns the terms with postings, also of dead documents, and the word
// forms of such terms, which spelling correction needs. Forms with several terms,
// such as identifiers, are too many; the lexer analyzes them again.
func (x *Index) wanted() termSet {
	l := x.lexer
	keep := make(termSet, bitWords(l.Dict().Len()))
	for t := range l.Stops() {
		keep.add(t)
	}
	for _, n := range x.tail.nodes {
		keep.add(n.term)
	}
	for _, s := range x.segments {
		for w, word := range s.present {
			if w < len(keep) {
				keep[w] |= word
			}
		}
	}
	has := append(termSet(nil), keep...)
	for f := range uint32(l.Dict().Len()) {
		if t, ok := l.Term(f); ok && has.has(t) {
			keep.add(f)
		}
	}
	return keep
}

// renumber drops all terms except those in keep.
func (x *Index) renumber(keep termSet, kept int) {
	to := make([]uint32, x.lexer.Dict().Len()) // valid for kept terms
	df := make([]uint32, kept)
	next := uint32(0)
	for t := range to {
		if keep.has(uint32(t)) {
			to[t] = next
			if t < len(x.df) {
				df[next] = x.df[t]
			}
			next++
		}
	}
	x.df = df
	x.lexer.Renumber(keep.has, to, kept)
	x.tail.renumber(to, kept)
	for _, s := range x.segments {
		s.renumber(to, kept)
	}
}

func (t *tail) renumber(to []uint32, kept int) {
	head := make([]uint32, kept)
	for i := range t.nodes {
		n := &t.nodes[i]
		n.term = to[n.term]
		head[n.term] = uint32(i) + 1 // the newest is the last
	}
	t.head = head
}

func (s *segment) renumber(to []uint32, kept int) {
	present := make([]uint64, bitWords(kept))
	s.eachTerm(func(term uint32, _ int) {
		n := to[term]
		present[n>>6] |= 1 << (n & 63)
	})
	s.present = present
	s.buildRank()
	terms := make([]byte, 0, len(s.terms)) // gaps get no longer
	for d := range s.ids {
		b := s.terms[s.termsAt[d]:s.termsAt[d+1]]
		s.termsAt[d] = uint32(len(terms))
		length, n := binary.Uvarint(b)
		terms = binary.AppendUvarint(terms, length)
		was, last := ^uint32(0), ^uint32(0)
		for b = b[n:]; len(b) > 0; {
			gap, n := binary.Uvarint(b)
			b = b[n:]
			was += uint32(gap)
			terms = binary.AppendUvarint(terms, uint64(to[was]-last))
			last = to[was]
		}
	}
	s.termsAt[len(s.ids)] = uint32(len(terms))
	s.terms = terms
}
