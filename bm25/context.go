package bm25

import (
	"hash/fnv"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"crabmem/bm25/analysis"
)

// BoostLimit is the number of matches that a context looks at.
const BoostLimit = 100

// A Context relates documents that are messages of conversations. A message may share
// no word with the query that it answers, because the message before has the words. So
// a search in a context also finds the neighbors of the best [BoostLimit] matches.
type Context struct {
	// Message returns the message that a document is. A document that is no message
	// ranks as without Query.Context. Message must not use the index.
	Message func(id uint64) (m Message, ok bool)
	Weights Weights
}

// Weights are a context's weights. DESIGN.md of package crmem has their effects.
type Weights struct {
	Answer    float64 // of a message for the next one: terms of a sentence that asks
	OwnAnswer float64 // the same, if both have one author
	Previous  float64 // of a message for the next one: other terms
	Next      float64 // of a message for the one before it
	Assistant float64 // factor of an assistant's messages, at most 1
	Evidence  float64 // share of their conversation's score that messages get
}

// DefaultWeights are the weights for stores and for sessions.
var DefaultWeights = Weights{Answer: 1.2, OwnAnswer: 0.9, Previous: 0.4, Next: 0.3, Assistant: 0.72, Evidence: 0.2}

// A Message is a document in its conversation.
type Message struct {
	Conversation uint64
	Author       uint32           // see [Author]
	Asks         analysis.TermSet // its questions' terms
	// Previous and Next are the messages before and after it, if they exist.
	Previous, Next       uint64
	HasPrevious, HasNext bool
}

// Author returns a number for an author's role or name; 0 for "".
func Author(name string) uint32 {
	if name == "" {
		return 0
	}
	h := fnv.New32a()
	io.WriteString(h, strings.ToLower(name)) // never fails
	return h.Sum32()
}

var assistant = Author("assistant")

// dateFactor multiplies the scores of documents of a time that the query names.
const dateFactor = 1.3

// FavorDates sets Factor for the times that the text names. day returns the day of a
// document; it must not use the index.
func (q *Query) FavorDates(now time.Time, day func(id uint64) time.Time) {
	spans := analysis.Spans(q.Text, now)
	if len(spans) == 0 {
		return
	}
	q.MaxFactor = dateFactor
	q.Factor = func(id uint64) float64 {
		at := day(id)
		if slices.ContainsFunc(spans, func(s analysis.Span) bool { return s.Covers(at) }) {
			return dateFactor
		}
		return 1
	}
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
	lines      []int              // by term of the reader: its number in the searcher's terms
	sets       []analysis.TermSet // by part: its terms
	boost      []Boost            // by part: the largest one, without terms
}

// A contextDoc is a message, with the parts of its score: one for each term of the
// query, and one for each word of the reader's sequence.
type contextDoc struct {
	Hit       // with the score in the context
	match     match
	own       float64 // score without the context
	parts     []float64
	message   Message
	isMessage bool
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
	dict := x.lexer.Dict()
	for _, t := range s.terms {
		c.sets = append(c.sets, analysis.TermSetOf(dict.AppendTerm(nil, t.id)))
	}
	for i := range s.reader.sequence {
		set := c.sets[c.lines[s.reader.sequence[i].term]]
		if i+1 < len(s.reader.sequence) {
			set |= c.sets[c.lines[s.reader.sequence[i+1].term]]
		}
		c.sets = append(c.sets, set)
	}
	c.boost = make([]Boost, len(c.sets))
	for _, h := range hits[:min(len(hits), BoostLimit)] {
		d := c.doc(h.ID)
		if d == nil || !d.isMessage {
			continue
		}
		c.enter(d)
		for n := range c.neighbors(d) {
			if q.passes(n.ID, n.match.class()) {
				c.enter(n)
			}
		}
	}
	c.score()
	for i, d := range c.candidates {
		if i >= RerankLimit && !slices.Contains(q.Named, d.ID) {
			continue
		}
		c.read(d)
		for n := range c.neighbors(d) {
			c.read(n)
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
		d.message, d.isMessage = c.Message(id)
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
func (c *contextual) enter(d *contextDoc) {
	if !d.candidate {
		d.candidate = true
		c.candidates = append(c.candidates, d)
	}
}

// neighbors yields a message's neighbors that the index contains.
func (c *contextual) neighbors(d *contextDoc) iter.Seq[*contextDoc] {
	return func(yield func(*contextDoc) bool) {
		if d.message.HasPrevious {
			if n := c.doc(d.message.Previous); n != nil && !yield(n) {
				return
			}
		}
		if d.message.HasNext {
			if n := c.doc(d.message.Next); n != nil {
				yield(n)
			}
		}
	}
}

// read adds the bonuses for the text of a document that contains a term.
func (c *contextual) read(d *contextDoc) {
	if d.read || d.own == 0 {
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
		g := c.groups[d.message.Conversation]
		if g == nil {
			g = &group{parts: make([]float64, len(c.boost))}
			c.groups[d.message.Conversation] = g
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
		for _, b := range c.boost {
			d.Score += b.Contribution
		}
		if d.Score > 0 {
			d.Score = float64(d.Score*c.prior(d.message)) + c.evidence(d)
		}
	}
	slices.SortFunc(c.candidates, func(a, b *contextDoc) int { return c.q.byRank(a.Hit, b.Hit) })
}

// findBoosts sets c.boost for a document: by part that it lacks, the most that a
// neighbor adds.
func (c *contextual) findBoosts(d *contextDoc) {
	clear(c.boost)
	for n := range c.neighbors(d) {
		for i, v := range n.parts {
			if v == 0 || d.parts[i] > 0 {
				continue
			}
			w := c.weight(n, d, c.sets[i])
			if v = float64(w * v); v > c.boost[i].Contribution {
				c.boost[i] = Boost{From: n.ID, Weight: w, Contribution: v}
			}
		}
	}
}

// weight returns the weight of a neighbor of d for a part of the score with some terms.
func (c *contextual) weight(n, d *contextDoc, terms analysis.TermSet) float64 {
	switch {
	case n.ID != d.message.Previous || !d.message.HasPrevious:
		return c.Weights.Next
	case !n.message.Asks.Has(terms):
		return c.Weights.Previous
	case n.message.Author == d.message.Author && d.message.Author != 0:
		return c.Weights.OwnAnswer
	}
	return c.Weights.Answer
}

// prior returns the factor for a message's author.
func (c *contextual) prior(m Message) float64 {
	if m.Author == assistant {
		return c.Weights.Assistant
	}
	return 1
}

// evidence returns what the conversation of a candidate adds to its score.
func (c *contextual) evidence(d *contextDoc) float64 {
	return float64(c.Weights.Evidence * c.groups[d.message.Conversation].sum)
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
		if m, ok := c.Message(h.ID); ok {
			h.Score *= c.prior(m)
		}
		list = append(list, h)
	}
	return list
}

// explain returns the score breakdown of a document. read is whether a search without
// the context re-ranks it.
func (c *contextual) explain(m match, id uint64, read bool) Explanation {
	d := c.docs[id]
	if d == nil || !d.candidate {
		e := c.s.explain(c.x, c.q, m, id, read)
		if m, ok := c.Message(id); ok && e.Score > 0 {
			e.Prior = c.prior(m)
			e.Score *= e.Prior
		}
		return e
	}
	e := c.s.explain(c.x, c.q, m, id, d.read)
	c.findBoosts(d)
	for i, b := range c.boost {
		if b.Contribution > 0 {
			b.Terms = c.names(i)
			e.Boosts = append(e.Boosts, b)
			e.Score += b.Contribution
		}
	}
	if e.Score > 0 {
		e.Prior, e.Group = c.prior(d.message), c.evidence(d)
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
