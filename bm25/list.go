package bm25

import (
	"math/bits"
	"slices"
)

// A list is the postings of a term in a segment.
type list struct {
	postings []uint32
	escapes  []escape
	first    uint32 // position of postings[0] in the segment
	idf      float64
}

// add adds a list to the approximate scores.
func (s *searcher) add(l *list) {
	scores, norms := &s.scores, &s.norms.approximate
	w := float32(l.idf)
	list := l.postings
	for ; len(list) >= 4; list = list[4:] { // unrolled: a tenth faster
		a, b, c, d := list[0], list[1], list[2], list[3]
		scores[a>>16] += w * norms[a&0xffff]
		scores[b>>16] += w * norms[b&0xffff]
		scores[c>>16] += w * norms[c&0xffff]
		scores[d>>16] += w * norms[d&0xffff]
	}
	for _, p := range list {
		scores[p>>16] += w * norms[p&0xffff]
	}
	s.addEscapes(l)
}

func (s *searcher) addEscapes(l *list) {
	for _, e := range l.escapes {
		s.scores[l.postings[e.pos-l.first]>>16] += float32(l.idf) * float32(e.norm(s.pivot.length))
	}
}

// addLast adds a list, collects its documents and zeroes their scores.
func (s *searcher) addLast(l *list) {
	s.addEscapes(l)
	scores, norms := &s.scores, &s.norms.approximate
	w := float32(l.idf)
	c := &s.collector
	floor := c.nearFloor
	for _, p := range l.postings {
		d := p >> 16
		v := scores[d] + w*norms[p&0xffff]
		scores[d] = 0
		if v >= floor {
			c.near(uint16(d), v)
			floor = c.nearFloor
		}
	}
}

// collect collects the documents of a list that still have a score. It zeroes
// their scores.
func (s *searcher) collect(postings []uint32) {
	scores := &s.scores
	c := &s.collector
	floor := c.nearFloor
	for _, p := range postings {
		d := p >> 16
		v := scores[d]
		scores[d] = 0
		if v >= floor {
			c.near(uint16(d), v)
			floor = c.nearFloor
		}
	}
}

// norm returns the saturated term frequency of the posting at a position in a list.
func (s *searcher) norm(l *list, at int) float64 {
	if code := uint16(l.postings[at]); code != escaped {
		return s.norms.exact(code)
	}
	return l.escape(at).norm(s.pivot.length)
}

// find returns the position of the posting of document d in a list of a segment of
// so many documents, or -1. Documents are spread evenly in most lists, so it first
// looks near the position that an even spread gives.
func (l *list) find(d uint16, docs uint64) int {
	list, key := l.postings, uint32(d)<<16
	n := len(list)
	guess := int(uint64(d) * uint64(n) / docs)
	from, to := 0, n // the first posting of d or later is in [from, to]
	for width := 1 << (bits.Len(uint(n))/2 + 1); ; width *= 4 {
		if at := guess - width; at > from && list[at] < key {
			from = at
		} else if at > from {
			to = at
			continue
		}
		if at := guess + width; at < to && list[at] >= key {
			to = at
		} else if at < to {
			from = at
			continue
		}
		break
	}
	for size := to - from; size > 0; {
		half := size >> 1
		if list[from+half] < key {
			from += size - half
		}
		size = half
	}
	if from == n || list[from]>>16 != uint32(d) {
		return -1
	}
	return from
}

// escape returns the escape of the posting at a position in the list.
func (l *list) escape(at int) escape {
	i, _ := slices.BinarySearchFunc(l.escapes, l.first+uint32(at), escape.compare)
	return l.escapes[i]
}
