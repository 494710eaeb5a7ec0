package bm25

import "slices"

// Weights and limits of re-ranking, which reads the texts of the candidates: the
// distance of the query words, their first positions, and their spelling. It only
// adds to scores, so a match outside the candidates cannot outrank one inside.
// DESIGN.md has the effect of each part.
const (
	// RerankLimit is the number of candidates: matches whose texts are read.
	RerankLimit = 16

	nearWeight  = 0.65
	earlyWeight = 0.9
	exactWeight = 0.8 // over the number of words of the query, at most shortQuery
	// earlyHalf is the position at which a word counts half as much as at the
	// beginning.
	earlyHalf = 160

	maxSequence     = 64      // words of a query, and terms, that a reader looks for
	maxRead         = 8 << 10 // bytes of a document, over all fields
	differentFields = 1 << 30 // distance of two words that no field contains together
)

// nearness returns the bonus for the distance of word i of the query and the next
// one. The last word has no distance.
func (r *reader) nearness(i int) float64 {
	if r.distance[i] == differentFields {
		return 0
	}
	w := min(r.terms[r.sequence[i].term].idf, r.terms[r.sequence[i+1].term].idf)
	return float64(r.damping * nearWeight * w / float64(r.distance[i]))
}

// earliness returns the bonus for the first position of term k, unless the query is long.
func (r *reader) earliness(k int) float64 {
	if r.first[k] == 0 || r.long {
		return 0
	}
	return float64(r.damping * earlyWeight * r.terms[k].idf * earlyHalf / (earlyHalf + float64(r.first[k]-1)))
}

// exactness returns the bonus for term k if the document contains the spelling of
// the query, not only another word with the same stem. The other words of a query also
// show which meaning of a stem it asks for, so spelling counts most in a query of one
// word.
func (r *reader) exactness(k int) float64 {
	if !r.exact[k] {
		return 0
	}
	return float64(r.damping * exactWeight * r.terms[k].idf / float64(min(len(r.sequence), shortQuery)))
}

// score adds all bonuses of the current document to its score.
func (r *reader) score(base float64, named bool) float64 {
	for i := range r.sequence {
		base += r.nearness(i)
	}
	for k := range r.terms {
		base += r.earliness(k)
	}
	for k := range r.terms {
		base += r.exactness(k)
	}
	if named {
		base += r.highest
	}
	return base
}

// rerank re-ranks the best hits and applies the limit.
func (s *searcher) rerank(x *Index, q Query, hits []Hit) []Hit {
	s.reader.prepare(x.lexer, s.terms, q.Text)
	s.reader.long = s.long
	hits = s.enter(x, q, hits)
	best := hits[:min(len(hits), RerankLimit)]
	var texts [RerankLimit][]string
	if len(s.reader.terms) > 0 {
		for i, h := range best {
			texts[i] = q.Texts(h.ID)
		}
		for _, t := range texts[:len(best)] {
			s.reader.touch(t)
		}
	}
	for i, h := range best {
		s.reader.read(texts[i], x.damping(h.ID))
		best[i].Score = s.reader.score(h.Score, slices.Contains(q.Named, h.ID))
	}
	slices.SortFunc(best, q.byRank)
	if q.Limit > 0 {
		hits = hits[:min(len(hits), q.Limit)]
	}
	return hits
}

// enter inserts the matches that the query names before the hits, unless they are
// candidates already.
func (s *searcher) enter(x *Index, q Query, hits []Hit) []Hit {
	for _, id := range q.Named[:min(len(q.Named), RerankLimit)] {
		if slices.ContainsFunc(hits[:min(len(hits), RerankLimit)], func(h Hit) bool { return h.ID == id }) {
			continue
		}
		m, ok := x.match(id)
		if !ok || !q.passes(id, m.class()) {
			continue
		}
		h := Hit{id, 0}
		for _, t := range s.terms {
			if line, ok := m.term(x, t); ok {
				h.Score += line.Contribution
			}
		}
		if h.Score == 0 {
			continue
		}
		hits = slices.DeleteFunc(hits, func(o Hit) bool { return o.ID == id })
		hits = slices.Insert(hits, 0, h)
	}
	return hits
}
