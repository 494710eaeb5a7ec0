package bm25

import (
	"cmp"
	"math"
	"slices"
)

// A collector keeps the best hits that pass the query's filters.
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
	// classMask is a mask of document numbers whose class is read. It is 0 if all
	// pass, so that only the class of document 0 is read.
	classMask uint16
}

// segment makes a segment the current one.
func (c *collector) segment(seg *segment) {
	c.ids, c.class, c.classMask = seg.ids, seg.class, math.MaxUint16
	if c.classes == math.MaxUint8 && seg.deadDocs == 0 {
		c.classMask = 0
	}
}

func (c *collector) reset(q Query) {
	*c = collector{query: q, hits: c.hits[:0], floor: math.SmallestNonzeroFloat64}
	c.all = q.Count && q.Filter != nil
	if c.classes = uint64(q.Classes); q.Classes == 0 {
		c.classes = math.MaxUint8
	}
}

// offer takes document d of the current segment with a score of at least floor,
// which is positive. A score of 0 marks a document that was already collected.
func (c *collector) offer(d uint16, score float64) {
	if c.classes>>c.class[d]&1 == 0 {
		return
	}
	h := Hit{c.ids[d], score}
	limit := c.query.Limit
	full := limit > 0 && len(c.hits) == limit
	if full && !c.all && !better(h, c.hits[0]) {
		return
	}
	if c.query.Filter != nil && !c.query.Filter(h.ID) {
		return
	}
	c.passed++
	switch {
	case !full:
		c.hits = append(c.hits, h)
		if len(c.hits) == limit {
			for i := range slices.Backward(c.hits[:limit/2]) {
				c.sink(i)
			}
			c.raise()
		}
	case better(h, c.hits[0]):
		c.hits[0] = h
		c.sink(0)
		c.raise()
	}
}

func better(a, b Hit) bool {
	return a.Score > b.Score || a.Score == b.Score && a.ID < b.ID
}

// byRank compares hits for sorting: the better one comes first.
func byRank(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) }

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
		if child+1 < len(h) && better(h[child], h[child+1]) {
			child++
		}
		if !better(h[i], h[child]) {
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
		slices.SortFunc(r.Hits, byRank)
	}
	c.query, c.ids, c.class = Query{}, nil, nil
	return r
}
