package bm25

import "slices"

// Explain returns the score breakdown of a document, a hit or not. It reports
// false if the index does not contain the document.
func (x *Index) Explain(q Query, id uint64) (Explanation, bool) {
	x.rlock()
	defer x.runlock()
	m, ok := x.match(id)
	if !ok {
		return Explanation{}, false
	}
	s := searchers.Get().(*searcher)
	defer searchers.Put(s)
	s.parse(x, q)
	if x.hasContext(q) || q.Factor != nil {
		return s.explainAdjusted(x, q, id), true
	}
	candidate := false
	if x.reranks(q) {
		best := q
		best.Limit, best.Count, best.Explain = RerankLimit, false, false
		candidate = slices.ContainsFunc(s.search(x, best).Hits, func(h Hit) bool { return h.ID == id })
	}
	return s.explain(x, q, m, id, candidate), true
}

// explain returns the score breakdown of a document, with re-ranking if it is a
// candidate.
func (s *searcher) explain(x *Index, q Query, m match, id uint64, candidate bool) Explanation {
	e := Explanation{ID: id, Docs: x.lengths.counted, Len: m.len()}
	if e.Docs > 0 {
		e.AvgLen, e.Pivot = x.lengths.mean(), x.pivot().length
	}
	for _, t := range s.terms {
		if line, ok := m.term(x, t); ok {
			e.Score += line.Contribution
			e.Terms = append(e.Terms, line)
		}
	}
	if candidate {
		s.explainText(&e, q, x.damping(id))
	}
	return e
}

// explainText adds to e what re-ranking adds to the score.
func (s *searcher) explainText(e *Explanation, q Query, damping float64) {
	r := &s.reader
	if e.Read = len(r.terms) > 0; e.Read {
		e.Damping = damping
		r.read(q.Texts(e.ID), damping)
	}
	name := func(t queryTerm) string { return string(r.lexer.Dict().AppendTerm(nil, t.id)) }
	for i := range r.sequence {
		if v := r.nearness(i); v > 0 {
			a, b := r.terms[r.sequence[i].term], r.terms[r.sequence[i+1].term]
			e.Near = append(e.Near, Near{[2]string{name(a), name(b)}, int(r.distance[i]), v})
		}
	}
	for k, t := range r.terms {
		if r.first[k] > 0 {
			if i := slices.IndexFunc(e.Terms, func(line Term) bool { return line.Term == name(t) }); i >= 0 {
				e.Terms[i].Place, e.Terms[i].Field, e.Terms[i].Early = int(r.first[k]), r.fields[k], r.earliness(k)
				e.Terms[i].Exact = r.exactness(k)
			}
		}
	}
	named := slices.Contains(q.Named, e.ID)
	if named {
		e.Named = r.highest
	}
	e.Score = r.score(e.Score, named)
}

// A match is a document that was looked up by ID.
type match struct {
	seg  *segment // nil: in the tail
	tail *tail
	doc  uint16
}

func (x *Index) match(id uint64) (match, bool) {
	if d, ok := x.tail.where[id]; ok {
		return match{tail: &x.tail, doc: d}, true
	}
	seg, d, ok := x.locate(id)
	return match{seg: seg, doc: d}, ok
}

func (m match) len() int {
	if m.seg != nil {
		n, _ := m.seg.lenAndTerms(m.doc)
		return n
	}
	return int(m.tail.lens[m.doc])
}

func (m match) class() uint8 {
	if m.seg != nil {
		return m.seg.class[m.doc]
	}
	return m.tail.class[m.doc]
}

// code returns the code of a term's posting and its position. The code is 0 if the
// document does not contain the term.
func (m match) code(term uint32) (c uint16, at uint32) {
	if m.seg != nil {
		return m.seg.code(term, m.doc)
	}
	t := m.tail
	for i := t.first[m.doc]; i < t.first[m.doc+1]; i++ {
		if t.nodes[i].term == term {
			return t.nodes[i].code, i
		}
	}
	return 0, 0
}

// frequency returns the number of occurrences of a term in the document.
func (m match) frequency(term uint32) int {
	c, at := m.code(term)
	if c == escaped {
		return m.escapedTF(at)
	}
	return int(c >> lenBits)
}

// escapedTF returns the frequency of the escaped posting at a position.
func (m match) escapedTF(at uint32) int {
	if m.seg != nil {
		return int(m.seg.escapesIn(at, at+1)[0].tf)
	}
	return int(m.tail.escape(at).tf)
}

// term returns the contribution of a term. It reports false if the document does
// not contain the term.
func (m match) term(x *Index, q queryTerm) (Term, bool) {
	tf := m.frequency(q.id)
	if tf == 0 {
		return Term{}, false
	}
	t := Term{
		Term:       string(x.lexer.Dict().AppendTerm(nil, q.id)),
		TF:         tf,
		DF:         int(q.df),
		IDF:        idf(x.lengths.counted, int(q.df)),
		Weight:     q.weight,
		LengthNorm: tfNorm(tf, lenNorm(m.len(), x.pivot().length)),
	}
	t.Contribution = contribution(q.idf, t.LengthNorm)
	return t, true
}

// Weights returns the IDF of each term, the weights that package snippet takes.
func (e *Explanation) Weights() map[string]float64 {
	w := make(map[string]float64, len(e.Terms))
	for _, t := range e.Terms {
		w[t.Term] = t.IDF
	}
	return w
}
