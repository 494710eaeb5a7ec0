package bm25

import (
	"math"
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

// A search need not add the lists of the most frequent terms. If all lists from a
// place on add less than the worst of the best scores, a document only in these lists
// is not among the best. Of the other documents, few come close enough for a look at
// the rest of the lists. DESIGN.md has the proof.

// mostNorm is more than any saturated term frequency: the bound k1 + 1 and roundings.
const mostNorm = (k1 + 1) * (1 + 1.0/(1<<30))

// These variables decide when it pays not to add lists. Only tests change them.
var (
	// restShare is the largest share of the worst of the best scores that the rest of
	// the lists may add. With more, too many documents come close.
	restShare   = 0.4
	leastSaved  = 500 // postings
	lookUpCost  = 16  // of a posting, relative to adding one
	usualNorm   = 1.4 // norm that a few documents of most lists reach
	usualLength = 4   // postings per hit of a list with such documents
)

// essential returns the number of lists to add: all, if the rest may add too much or
// if all matches must be collected.
func (s *searcher) essential() int {
	c := &s.collector
	n, limit := len(s.order), c.query.Limit
	if c.all || limit <= 0 || n == 1 {
		return n
	}
	s.rest = append(s.rest[:0], make([]float64, n+1)...)
	for i := n - 1; i >= 0; i-- {
		s.rest[i] = s.rest[i+1] + s.lists[s.order[i]].idf*mostNorm
	}
	worst := 0.0
	if len(c.best) == limit {
		worst = float64(c.best[0])
	}
	for m := 1; m < n; m++ {
		if l := &s.lists[s.order[m-1]]; len(l.postings) >= usualLength*limit {
			worst = max(worst, usualNorm*l.idf)
		}
		if s.rest[m] >= restShare*worst {
			continue
		}
		saved := 0
		for _, i := range s.order[m:] {
			saved += len(s.lists[i].postings)
		}
		if saved < leastSaved {
			return n
		}
		return m
	}
	return n
}

// partly finds candidates by adding the first n lists, the shortest. It reports false
// if it may have missed one.
func (s *searcher) partly(n int) bool {
	c := &s.collector
	c.start(s.rest[n])
	for _, i := range s.order[:n] {
		s.add(&s.lists[i])
	}
	for _, i := range s.order[:n] {
		s.collect(s.lists[i].postings)
	}
	if c.nearLeast <= math.SmallestNonzeroFloat32 {
		c.start(0)
		return false
	}
	for place := n; place < len(s.order); place++ {
		l := &s.lists[s.order[place]]
		if (len(c.candidates)-c.first)*lookUpCost > len(l.postings) {
			s.addTo(l)
		} else {
			s.lookUp(l)
		}
		kept := c.candidates
		c.start(s.rest[place+1])
		for _, near := range kept[c.first:] {
			c.rank(near.score)
		}
		c.candidates = kept
	}
	return true
}

// lookUp adds a list to the scores of the candidates, and drops those that cannot
// reach the best.
func (s *searcher) lookUp(l *list) {
	c := &s.collector
	docs := uint64(len(c.ids))
	kept := c.candidates[:c.first]
	for _, near := range c.candidates[c.first:] {
		if near.score < c.nearLeast {
			continue
		}
		if at := l.find(near.doc, docs); at >= 0 {
			near.score += float32(l.idf) * float32(s.norm(l, at))
		}
		kept = append(kept, near)
	}
	c.candidates = kept
}

// addTo is lookUp for many candidates. It adds the complete list.
func (s *searcher) addTo(l *list) {
	c := &s.collector
	added := c.candidates[c.first:]
	for _, near := range added {
		s.scores[near.doc] = near.score
	}
	s.add(l)
	for i := range added {
		near := &added[i]
		near.score = s.scores[near.doc]
		s.scores[near.doc] = 0
	}
	for _, p := range l.postings {
		s.scores[uint16(p>>16)] = 0
	}
}
