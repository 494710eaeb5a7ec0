package crmem

import (
	"cmp"
	"math"
	"strings"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem/fusion"
	"crabmem/crmem/metadata"
)

// defaultLambda is the default of Query.Lambda.
const defaultLambda = 0.7

// Diversity is how Query.Diverse chose a hit: it had the largest Value of the hits that
// were left, which is Lambda * Relevance - (1 - Lambda) * Similarity.
type Diversity struct {
	Relevance  float64 `json:"relevance"`  // score as a share of the best score
	Similarity float64 `json:"similarity"` // largest to a hit before it: cosine, or share of common terms
	To         string  `json:"to,omitempty"`
	Value      float64 `json:"value"`
}

// diversify orders the first hits of a query with Diverse by maximal marginal relevance.
// The others follow in their order. The caller holds mu for reading.
func (s *Store) diversify(hits []Hit, q *Query) []Hit {
	n := min(len(hits), max(fusion.Least, q.Limit))
	left := hits[:n]
	best, lambda := left[0].Score, cmp.Or(q.Lambda, defaultLambda)
	rest := 1 - lambda
	if lambda == defaultLambda {
		rest = 1 - defaultLambda // a constant expression, which is rounded once
	}
	d := diversifier{s: s, analyzer: q.Analyzer, terms: make(map[uint64]map[string]struct{})}
	for i := range left {
		left[i].Diversity = &Diversity{Relevance: left[i].Score / best}
	}
	want := n
	if q.Limit > 0 {
		want = min(n, q.Limit)
	}
	for at := range want {
		if at > 0 {
			d.compare(left[at:], &left[at-1])
		}
		next := at
		for i := at; i < n; i++ {
			x := left[i].Diversity
			x.Value = float64(lambda*x.Relevance) - float64(rest*x.Similarity)
			if x.Value > left[next].Diversity.Value {
				next = i
			}
		}
		h := left[next]
		copy(left[at+1:next+1], left[at:next])
		left[at] = h
	}
	return hits
}

// diversifier compares texts for one query.
type diversifier struct {
	s        *Store
	analyzer analysis.Analyzer
	terms    map[uint64]map[string]struct{} // by ID
}

// compare updates the similarities of hits with that to a chosen one.
func (d *diversifier) compare(hits []Hit, chosen *Hit) {
	for i := range hits {
		x := hits[i].Diversity
		if v := d.similarity(&hits[i], chosen); v > x.Similarity {
			x.Similarity, x.To = v, chosen.Name
		}
	}
}

// similarity returns the cosine of two hits, or, if one has no vector, the number of their
// common terms as a share of all their terms.
func (d *diversifier) similarity(a, b *Hit) float64 {
	if set := d.s.vectors.set; set != nil {
		if c, ok := set.Similarity(a.ID, b.ID); ok {
			return max(0, c)
		}
	}
	x, y := d.termsOf(a), d.termsOf(b)
	common := 0
	for t := range x {
		if _, ok := y[t]; ok {
			common++
		}
	}
	return float64(common) / float64(max(len(x)+len(y)-common, 1))
}

// maxCompared limits the text whose terms are compared, in bytes.
const maxCompared = 16 << 10

func (d *diversifier) termsOf(h *Hit) map[string]struct{} {
	terms, ok := d.terms[h.ID]
	if !ok {
		terms = make(map[string]struct{})
		text := metadata.Text(h.Content)
		for t := range d.analyzer.Tokens(text[:min(len(text), maxCompared)]) {
			terms[t] = struct{}{}
		}
		d.terms[h.ID] = terms
	}
	return terms
}

// decay multiplies the scores of hits by a factor for the time since the last read or,
// without one, the last change or the creation. Entries of the type identity have no age.
// The caller called loadUsage and loadChanges, and holds mu for reading.
func (s *Store) decay(ix *index, hits []Hit, q *Query) {
	now := s.opts.Now()
	for i := range hits {
		h := &hits[i]
		used := ix.dayOf(s.found(ix, h.ID))
		if reads, last := s.usageOf(h.ID); reads > 0 {
			used = last
		} else if at := s.changes.at[h.ID]; at > 0 {
			used = UnixTime(at).Time()
		}
		m, _, _ := metadata.Parse(h.Content)
		if strings.EqualFold(m.Type(), metadata.Identity) {
			used = now
		}
		h.Decay = halfAfter(max(0, now.Sub(used)), q.HalfLife)
		h.Score *= h.Decay
	}
	sortHits(hits)
}

// halfAfter returns the factor of an age: 1/2 for one half-life.
func halfAfter(age, halfLife time.Duration) float64 {
	return math.Exp2(-age.Seconds() / halfLife.Seconds())
}
