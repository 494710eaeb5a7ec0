package bm25

import "slices"

// A Context relates documents that are messages of conversations. A message may share
// no word with the query that it answers, because the message before has the words. So
// a search in a context also finds the neighbors of the best [BoostLimit] matches. Its
// functions must not use the index.
type Context struct {
	// Neighbors appends the documents next to a message. A document without a context
	// is no message, and ranks as without Query.Context.
	Neighbors func(list []Neighbor, id uint64) (_ []Neighbor, message bool)
	// Prior returns a factor of the score of a message, above 0 and at most 1.
	Prior func(id uint64) float64
	// Group returns the conversation of a message. GroupWeight is the share of the
	// score of the conversation that its messages get.
	Group       func(id uint64) uint64
	GroupWeight float64
}

// A Boost is what a neighbor adds to the score of a message that lacks a term, or a pair
// of adjacent words: a share of what these words add to the score of the neighbor.
type Boost struct {
	From         uint64   `json:"-"`     // the neighbor
	Name         string   `json:"from"`  // of the neighbor, for the caller of the search
	Terms        []string `json:"terms"` // a term, or two adjacent words of the query
	Weight       float64  `json:"weight"`
	Contribution float64  `json:"contribution"`
}

// A contextual is a search in a context. The caller holds the index's lock.
type contextual struct {
	*Context
	s          *searcher
	x          *Index
	q          Query
	pivot      pivot
	docs       map[uint64]*contextDoc
	candidates []*contextDoc
	groups     map[uint64]*group
	lines      []int // by term of the reader: its number in the searcher's terms
	boost      []float64
	from       []int // by part: the neighbor with the largest boost
}

// A contextDoc is a message, with the parts of its score: one for each term of the
// query, and one for each word of the reader's sequence.
type contextDoc struct {
	Hit       // with the score in the context
	match     match
	own       float64 // score without the context
	parts     []float64
	neighbors []Neighbor
	candidate bool
	read      bool
}

// A group has the largest parts of the candidates of a conversation.
type group struct {
	parts []float64
	sum   float64
}

// newContextual finds the candidates for a context and their scores. hits are the best
// matches, at least [BoostLimit] if there are as many.
func newContextual(s *searcher, x *Index, q Query, hits []Hit) *contextual {
	c := &contextual{Context: q.Context, s: s, x: x, q: q, docs: make(map[uint64]*contextDoc), groups: make(map[uint64]*group)}
	if x.lengths.counted > 0 {
		c.pivot = x.pivot()
	}
	s.reader.prepare(x.lexer, s.terms, q.Text)
	s.reader.long = s.long
	for _, t := range s.reader.terms {
		c.lines = append(c.lines, slices.IndexFunc(s.terms, func(o queryTerm) bool { return o.id == t.id }))
	}
	n := len(s.terms) + len(s.reader.sequence)
	c.boost, c.from = make([]float64, n), make([]int, n)
	for _, h := range hits[:min(len(hits), BoostLimit)] {
		list, message := c.Neighbors(nil, h.ID)
		if !message {
			continue
		}
		c.enter(h.ID, list)
		for _, n := range list {
			if d := c.doc(n.ID); d != nil && !d.candidate && q.passes(n.ID, d.match.class()) {
				list, _ := c.Neighbors(nil, n.ID)
				c.enter(n.ID, list)
			}
		}
	}
	c.score()
	for i, d := range c.candidates {
		if i >= RerankLimit && !slices.Contains(q.Named, d.ID) {
			continue
		}
		c.read(d)
		for _, n := range d.neighbors {
			c.read(c.doc(n.ID))
		}
	}
	c.score()
	c.candidates = slices.DeleteFunc(c.candidates, func(d *contextDoc) bool { return d.Score == 0 })
	return c
}

// doc returns a document, or nil if the index does not contain it.
func (c *contextual) doc(id uint64) *contextDoc {
	if d, ok := c.docs[id]; ok {
		return d
	}
	var d *contextDoc
	if m, ok := c.x.match(id); ok {
		d = &contextDoc{Hit: Hit{ID: id}, match: m, parts: make([]float64, len(c.boost))}
		norm := lenNorm(m.len(), c.pivot.length)
		for k, t := range c.s.terms {
			if tf := m.frequency(t.id); tf > 0 {
				d.parts[k] = contribution(t.idf, tfNorm(tf, norm))
				d.own += d.parts[k]
			}
		}
	}
	c.docs[id] = d
	return d
}

// enter makes a document a candidate.
func (c *contextual) enter(id uint64, neighbors []Neighbor) {
	if d := c.doc(id); d != nil && !d.candidate {
		d.candidate, d.neighbors = true, neighbors
		c.candidates = append(c.candidates, d)
	}
}

// read adds the bonuses for the text of a document that contains a term.
func (c *contextual) read(d *contextDoc) {
	if d == nil || d.read || d.own == 0 {
		return
	}
	d.read = true
	r := &c.s.reader
	if len(r.terms) > 0 {
		r.read(c.q.Texts(d.ID), c.pivot.damping(d.match.len()))
	}
	for i := range r.sequence {
		d.parts[len(c.s.terms)+i] = r.nearness(i)
	}
	for k := range r.terms {
		d.parts[c.lines[k]] += r.earliness(k)
		d.parts[c.lines[k]] += r.exactness(k)
	}
	d.own = r.score(d.own, slices.Contains(c.q.Named, d.ID))
}

// score computes the scores of the candidates, and sorts these.
func (c *contextual) score() {
	clear(c.groups)
	for _, d := range c.candidates {
		g := c.groups[c.Group(d.ID)]
		if g == nil {
			g = &group{parts: make([]float64, len(c.boost))}
			c.groups[c.Group(d.ID)] = g
		}
		for i, v := range d.parts {
			g.parts[i] = max(g.parts[i], v)
		}
	}
	for _, g := range c.groups {
		for _, v := range g.parts {
			g.sum += v
		}
	}
	for _, d := range c.candidates {
		c.findBoosts(d)
		d.Score = d.own
		for _, v := range c.boost {
			d.Score += v
		}
		if d.Score > 0 {
			d.Score = float64(d.Score*c.Prior(d.ID)) + c.evidence(d.ID)
		}
	}
	slices.SortFunc(c.candidates, func(a, b *contextDoc) int { return byRank(a.Hit, b.Hit) })
}

// findBoosts sets c.boost and c.from for a document: by part that it lacks, the most that
// a neighbor adds.
func (c *contextual) findBoosts(d *contextDoc) {
	clear(c.boost)
	for k, n := range d.neighbors {
		o := c.doc(n.ID)
		if o == nil {
			continue
		}
		for i, v := range o.parts {
			if v = float64(n.Weight * v); d.parts[i] == 0 && v > c.boost[i] {
				c.boost[i], c.from[i] = v, k
			}
		}
	}
}

// evidence returns what the conversation of a candidate adds to its score.
func (c *contextual) evidence(id uint64) float64 {
	return float64(c.GroupWeight * c.groups[c.Group(id)].sum)
}

// adjust returns the hits and the candidates in any order.
func (c *contextual) adjust(hits []Hit) []Hit {
	list := make([]Hit, 0, len(hits)+len(c.candidates))
	for _, d := range c.candidates {
		list = append(list, d.Hit)
	}
	for _, h := range hits {
		if d := c.docs[h.ID]; d != nil && d.candidate {
			continue
		}
		if _, message := c.Neighbors(nil, h.ID); message {
			h.Score *= c.Prior(h.ID)
		}
		list = append(list, h)
	}
	return list
}

// explain returns the score breakdown of a document. read is whether a search without
// the context re-ranks it.
func (c *contextual) explain(m match, id uint64, read bool) Explanation {
	_, message := c.Neighbors(nil, id)
	d := c.docs[id]
	if d == nil || !d.candidate {
		e := c.s.explain(c.x, c.q, m, id, read)
		if message && e.Score > 0 {
			e.Prior = c.Prior(id)
			e.Score *= e.Prior
		}
		return e
	}
	e := c.s.explain(c.x, c.q, m, id, d.read)
	c.findBoosts(d)
	for i, v := range c.boost {
		if v > 0 {
			n := d.neighbors[c.from[i]]
			e.Boosts = append(e.Boosts, Boost{From: n.ID, Terms: c.names(i), Weight: n.Weight, Contribution: v})
			e.Score += v
		}
	}
	if e.Score > 0 {
		e.Prior, e.Group = c.Prior(id), c.evidence(id)
		e.Score = float64(e.Score*e.Prior) + e.Group
	}
	return e
}

// names returns the terms of a part.
func (c *contextual) names(i int) (names []string) {
	dict, terms, r := c.x.lexer.Dict(), c.s.terms, &c.s.reader
	if i < len(terms) {
		return append(names, string(dict.AppendTerm(nil, terms[i].id)))
	}
	for _, w := range r.sequence[i-len(terms):][:2] {
		names = append(names, string(dict.AppendTerm(nil, r.terms[w.term].id)))
	}
	return names
}
