package bm25

import (
	"cmp"
	"math"
	"slices"
)

// A collector keeps the best hits that pass the query's filters.
//
// The tail offers exact scores. For segments, near takes approximate scores and
// gathers candidates: all documents whose exact score may be among the best. keep
// then takes their exact scores. DESIGN.md proves that no candidate is missing.
type collector struct {
	query   Query
	classes uint64 // bit c: class c passes; the class of removed documents does not
	// floor is the score that a document must reach to be offered.
	floor  float64
	all    bool // every match must be offered
	total  int  // matches of the classes
	passed int  // offered matches that also pass the filter
	// hits is a heap with the worst hit on top once there are Limit of them.
	hits []Hit

	// Of the current segment:
	ids   []uint64
	class []uint8
	some  bool // not all documents pass the classes

	// best is a heap of the best approximate scores, the least on top once there are
	// Limit of them. The scores of hits are among them.
	best       []float32
	candidates []candidate
	first      int     // first candidate of the current segment
	part       uint16  // number of the current segment
	nearFloor  float32 // approximate score that a document must reach for near
	nearLeast  float32 // approximate score that a candidate must reach
	share      float64 // nearLeast as a share of the worst of best, without rest
	rest       float64 // most that a document gains after near
}

// A candidate is a document of a segment with its approximate score.
type candidate struct {
	part, doc uint16
	score     float32
}

// reset prepares a search. A score adds at most the given number of terms.
func (c *collector) reset(q Query, terms int) {
	*c = collector{query: q, hits: c.hits[:0], floor: math.SmallestNonzeroFloat64, best: c.best, candidates: c.candidates[:0]}
	c.all = q.Count && q.Filter != nil
	if c.classes = uint64(q.Classes); q.Classes == 0 {
		c.classes = math.MaxUint8
	}
	c.share = 1 - margin(terms)
	c.start(0)
}

// margin returns the share by which the approximate score of a document among the
// best may be less than the worst of the best approximate scores, if scores add at
// most n terms. DESIGN.md derives it.
func margin(n int) float64 { return float64(n+3) / (1 << 22) }

// segment makes a segment the current one.
func (c *collector) segment(seg *segment, part int) {
	c.ids, c.class, c.part = seg.ids, seg.class, uint16(part)
	c.some = c.classes != math.MaxUint8 || seg.deadDocs > 0
	c.first = len(c.candidates)
}

// start drops the candidates of the current segment. Documents may gain up to rest
// after near.
func (c *collector) start(rest float64) {
	c.rest = rest
	c.nearFloor, c.nearLeast = math.SmallestNonzeroFloat32, math.SmallestNonzeroFloat32
	c.candidates, c.best = c.candidates[:c.first], c.best[:0]
	if limit := c.query.Limit; limit > 0 {
		for _, h := range c.hits {
			c.best = append(c.best, float32(h.Score)) // in the order of a heap, too
		}
		if len(c.best) == limit {
			c.raiseNear()
		}
		for _, near := range c.candidates {
			c.rank(near.score)
		}
	}
}

// near takes document d of the current segment with an approximate score of at least
// nearFloor, which is positive. A score of 0 marks a document that was already
// collected.
func (c *collector) near(d uint16, score float32) {
	if c.classes>>c.class[d]&1 == 0 || c.query.Filter != nil && !c.query.Filter(c.ids[d]) {
		return
	}
	c.passed++
	if score < c.nearLeast {
		return
	}
	c.candidates = append(c.candidates, candidate{c.part, d, score})
	c.rank(score)
}

// rank adds the approximate score of a candidate to best.
func (c *collector) rank(score float32) {
	switch limit := c.query.Limit; {
	case len(c.best) < limit:
		c.best = append(c.best, score)
		if len(c.best) == limit {
			for i := range slices.Backward(c.best[:limit/2]) {
				c.sinkNear(i)
			}
			c.raiseNear()
		}
	case limit > 0 && score > c.best[0]:
		c.best[0] = score
		c.sinkNear(0)
		c.raiseNear()
	}
}

// drop drops candidates of earlier segments that are not among the best. It reports
// false if many remain.
func (c *collector) drop() bool {
	if c.query.Limit > 0 {
		c.candidates = slices.DeleteFunc(c.candidates, func(near candidate) bool { return near.score < c.nearLeast })
	}
	return len(c.candidates) <= 4*c.query.Limit+mostWaiting
}

// mostWaiting bounds the candidates that wait for their exact scores.
const mostWaiting = 1024

// raiseNear sets the approximate scores that documents must reach.
func (c *collector) raiseNear() {
	c.nearLeast = max(float32(float64(c.best[0])*c.share-c.rest), math.SmallestNonzeroFloat32)
	if !c.all {
		c.nearFloor = c.nearLeast
	}
}

// sinkNear restores the heap best below i.
func (c *collector) sinkNear(i int) {
	h := c.best
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child] > h[child+1] {
			child++
		}
		if h[i] <= h[child] {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// offer takes document d of the tail with a score of at least floor, which is
// positive. A score of 0 marks a document that was already collected.
func (c *collector) offer(d uint16, score float64) {
	if c.classes>>c.class[d]&1 == 0 {
		return
	}
	h := Hit{c.ids[d], score}
	limit := c.query.Limit
	if limit > 0 && len(c.hits) == limit && !c.all && !c.query.better(h, c.hits[0]) {
		return
	}
	if c.query.Filter != nil && !c.query.Filter(h.ID) {
		return
	}
	c.passed++
	c.keep(h)
}

// keep takes a hit that passes the filters.
func (c *collector) keep(h Hit) {
	limit := c.query.Limit
	switch {
	case limit <= 0 || len(c.hits) < limit:
		c.hits = append(c.hits, h)
		if len(c.hits) == limit {
			for i := range slices.Backward(c.hits[:limit/2]) {
				c.sink(i)
			}
			c.raise()
		}
	case c.query.better(h, c.hits[0]):
		c.hits[0] = h
		c.sink(0)
		c.raise()
	}
}

func (q *Query) better(a, b Hit) bool {
	return a.Score > b.Score || a.Score == b.Score && q.byRank(a, b) < 0
}

// byRank compares hits for sorting: the better one comes first.
func (q *Query) byRank(a, b Hit) int {
	if c := cmp.Compare(b.Score, a.Score); c != 0 {
		return c
	}
	if q.Ties != nil {
		return q.Ties(a.ID, b.ID)
	}
	return cmp.Compare(a.ID, b.ID)
}

// passes reports whether a document passes the query's filters.
func (q *Query) passes(id uint64, class uint8) bool {
	return (q.Classes == 0 || q.Classes>>class&1 != 0) && (q.Filter == nil || q.Filter(id))
}

// raise sets the floor to the worst score in the heap, unless every match must be
// offered.
func (c *collector) raise() {
	if !c.all {
		c.floor = c.hits[0].Score
	}
}

// sink restores the heap below i.
func (c *collector) sink(i int) {
	h := c.hits
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && c.query.better(h[child], h[child+1]) {
			child++
		}
		if !c.query.better(h[i], h[child]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// result returns the hits, sorted, and releases the query.
func (c *collector) result() Result {
	var r Result
	switch {
	case c.query.Count && c.query.Filter != nil:
		r.Total = c.passed
	case c.query.Count:
		r.Total = c.total
	}
	if len(c.hits) > 0 {
		r.Hits = slices.Clone(c.hits)
		slices.SortFunc(r.Hits, c.query.byRank)
	}
	c.query, c.ids, c.class = Query{}, nil, nil
	return r
}
