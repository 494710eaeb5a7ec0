package bm25

// Explain says how the document's score for the query comes about. It reports
// false when there is no such document.
func (x *Index) Explain(query string, id uint64) (Explanation, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := searchers.Get().(*searcher)
	defer searchers.Put(s)
	s.parse(x, query)
	e := Explanation{ID: id, Docs: x.counted}
	if x.counted > 0 {
		e.AvgLen = x.avgLen()
	}
	var frequency func(term uint32) int
	if d, ok := x.tail.where[id]; ok {
		e.Len = int(x.tail.lens[d])
		frequency = func(term uint32) int {
			for i := x.tail.first[d]; i < x.tail.first[d+1]; i++ {
				if x.tail.nodes[i].term == term {
					tf, _ := x.tail.pair(i)
					return tf
				}
			}
			return 0
		}
	} else if seg, d, ok := x.locate(id); ok {
		e.Len, _ = seg.lenAndTerms(d)
		frequency = func(term uint32) int { return seg.frequency(term, d) }
	} else {
		return Explanation{}, false
	}
	for _, q := range s.terms {
		tf := frequency(q.id)
		if tf == 0 {
			continue
		}
		t := Term{
			Term:       string(x.lexer.dict.appendTerm(nil, q.id)),
			TF:         tf,
			DF:         int(q.df),
			IDF:        q.idf,
			LengthNorm: tfNorm(tf, lenNorm(e.Len, e.AvgLen)),
		}
		t.Contribution = contribution(t.IDF, t.LengthNorm)
		e.Score += t.Contribution
		e.Terms = append(e.Terms, t)
	}
	return e, true
}
