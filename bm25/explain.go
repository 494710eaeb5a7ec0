package bm25

import "slices"

// Explain says how the document's score for the query comes about. It reports
// false when there is no such document.
func (x *Index) Explain(q Query, id uint64) (Explanation, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	m, ok := x.match(id)
	if !ok {
		return Explanation{}, false
	}
	s := searchers.Get().(*searcher)
	defer searchers.Put(s)
	s.parse(x, q)
	e := Explanation{ID: id, Docs: x.counted, Len: m.len}
	if x.counted > 0 {
		e.AvgLen = x.avgLen()
	}
	for _, t := range s.terms {
		if line, ok := m.term(x, t); ok {
			e.Score += line.Contribution
			e.Terms = append(e.Terms, line)
		}
	}
	if e.Score > 0 && q.Texts != nil && x.analyzer == Standard && s.finalist(x, q, id) {
		s.explain(&e, q)
	}
	return e, true
}

// finalist reports whether a document is read for the query that was parsed.
func (s *searcher) finalist(x *Index, q Query, id uint64) bool {
	q.Limit, q.Count = Finalists, false
	return slices.ContainsFunc(s.search(x, q).Hits, func(h Hit) bool { return h.ID == id })
}

// explain adds to e what is read in its document.
func (s *searcher) explain(e *Explanation, q Query) {
	r := &s.reader
	if e.Read = len(r.terms) > 0; e.Read {
		r.read(q.Texts(e.ID))
	}
	name := func(t queryTerm) string { return string(r.lexer.dict.appendTerm(nil, t.id)) }
	for i := range r.sequence {
		if v := r.nearness(i); v > 0 {
			a, b := r.terms[r.sequence[i].term], r.terms[r.sequence[i+1].term]
			e.Near = append(e.Near, Near{[2]string{name(a), name(b)}, int(r.distance[i]), v})
		}
	}
	for k, t := range r.terms {
		if v := r.earliness(k); v > 0 {
			if i := slices.IndexFunc(e.Terms, func(line Term) bool { return line.Term == name(t) }); i >= 0 {
				e.Terms[i].Place, e.Terms[i].Field, e.Terms[i].Early = int(r.first[k]), r.fields[k], v
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

// A match is a document that is asked about by its ID.
type match struct {
	len       int
	class     uint8
	frequency func(term uint32) int
}

func (x *Index) match(id uint64) (match, bool) {
	if d, ok := x.tail.where[id]; ok {
		t := &x.tail
		return match{int(t.lens[d]), t.class[d], func(term uint32) int {
			for i := t.first[d]; i < t.first[d+1]; i++ {
				if t.nodes[i].term == term {
					tf, _ := t.pair(i)
					return tf
				}
			}
			return 0
		}}, true
	}
	if seg, d, ok := x.locate(id); ok {
		n, _ := seg.lenAndTerms(d)
		return match{n, seg.class[d], func(term uint32) int { return seg.frequency(term, d) }}, true
	}
	return match{}, false
}

// term explains what a term adds; false when the document does not have it.
func (m *match) term(x *Index, q queryTerm) (Term, bool) {
	tf := m.frequency(q.id)
	if tf == 0 {
		return Term{}, false
	}
	t := Term{
		Term:       string(x.lexer.dict.appendTerm(nil, q.id)),
		TF:         tf,
		DF:         int(q.df),
		IDF:        idf(x.counted, int(q.df)),
		Weight:     q.weight,
		LengthNorm: tfNorm(tf, lenNorm(m.len, x.avgLen())),
	}
	t.Contribution = contribution(q.idf, t.LengthNorm)
	return t, true
}
