package bm25

import (
	"math"
	"slices"
)

// adjusted is search with q.Context and q.Factor.
func (s *searcher) adjusted(x *Index, q Query) Result {
	wide, most := q, 1.0
	if wide.Explain = false; q.Factor != nil {
		most = q.MaxFactor
	}
	switch {
	case q.Limit > math.MaxInt32:
		wide.Limit = 0
	case q.Limit > 0:
		wide.Limit = max(5*q.Limit, BoostLimit)
	}
	for {
		r := s.search(x, wide)
		if len(r.Hits) == 0 {
			return r
		}
		a := s.newAdjusted(x, q, r.Hits)
		hits := a.adjust(r.Hits)
		if wide.Limit > 0 && len(r.Hits) == wide.Limit {
			worst, last := hits[q.Limit-1], r.Hits[wide.Limit-1]
			best := float64(last.Score * most) // that a match after the last hit may have
			if worst.Score < best || worst.Score == best && (most > 1 || q.byRank(worst, last) > 0) {
				wide.Limit *= 4
				continue
			}
		}
		if q.Limit > 0 {
			hits = hits[:min(len(hits), q.Limit)]
		}
		if r.Total += a.added(); !q.Count {
			r.Total = 0
		}
		if r.Hits = hits; q.Explain {
			r.Explanations = make([]Explanation, len(hits))
			for i, h := range hits {
				r.Explanations[i] = a.explain(h.ID)
			}
		}
		return r
	}
}

// explainAdjusted is [Index.Explain] with q.Context and q.Factor, after the parsing.
func (s *searcher) explainAdjusted(x *Index, q Query, id uint64) Explanation {
	q.Limit, q.Count, q.Explain = BoostLimit, false, false
	return s.newAdjusted(x, q, s.search(x, q).Hits).explain(id)
}

// An adjusted is the state of a search with a context or a factor.
type adjusted struct {
	s       *searcher
	x       *Index
	q       Query
	read    []uint64    // the documents that the search re-ranked
	context *contextual // nil: no context
}

// newAdjusted prepares adjustments. hits are the best matches, at least [BoostLimit] if
// there are as many.
func (s *searcher) newAdjusted(x *Index, q Query, hits []Hit) *adjusted {
	a := &adjusted{s: s, x: x, q: q}
	if x.reranks(q) {
		for _, h := range hits[:min(len(hits), RerankLimit)] {
			a.read = append(a.read, h.ID)
		}
	}
	if x.hasContext(q) {
		a.context = newContextual(s, x, q, hits)
	}
	return a
}

// adjust returns the adjusted hits, sorted, with the neighbors that the context adds.
func (a *adjusted) adjust(hits []Hit) []Hit {
	if a.context != nil {
		hits = a.context.adjust(hits)
	} else {
		hits = slices.Clone(hits)
	}
	if a.q.Factor != nil {
		for i := range hits {
			hits[i].Score *= a.q.Factor(hits[i].ID)
		}
	}
	slices.SortFunc(hits, a.q.byRank)
	return hits
}

// added returns the number of hits that match only through their context.
func (a *adjusted) added() (n int) {
	if a.context == nil {
		return 0
	}
	for _, d := range a.context.candidates {
		if d.own == 0 {
			n++
		}
	}
	return n
}

// explain returns the score breakdown of a document of the index.
func (a *adjusted) explain(id uint64) Explanation {
	m, _ := a.x.match(id)
	var e Explanation
	if a.context != nil {
		e = a.context.explain(m, id, slices.Contains(a.read, id))
	} else {
		e = a.s.explain(a.x, a.q, m, id, slices.Contains(a.read, id))
	}
	if a.q.Factor == nil || e.Score == 0 {
		return e
	}
	if f := a.q.Factor(id); f != 1 {
		e.Factor = f
		e.Score *= f
	}
	return e
}
