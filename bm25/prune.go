package bm25

import "math"

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
