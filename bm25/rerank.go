package bm25

import "slices"

// What an index does not keep is read from the texts of the best matches: how
// near to each other the words of the query are, how early they come, and whether
// they are there as the query has them. All of it adds to a score, so that no
// match whose text is not read has a claim to be before one whose text is.
//
// nDCG@10 of til-knownitem, scifact, procmem, xquad-en, -ru, -zh, drcd-dev and
// jaquad-dev:
//
//	nothing is read  .894 .708 .531 .970 .958 .967 .974 .916
//	near alone       .899 .711 .539 .971 .959 .967 .974 .917
//	early alone      .902 .710 .542 .970 .960 .970 .974 .918
//	near and early   .906 .714 .555 .970 .960 .970 .974 .918
//	all three        .907 .714 .555 .970 .961 .970 .974 .918
const (
	// RerankLimit is how many matches have their texts read.
	RerankLimit = 16

	nearWeight  = 0.6
	earlyWeight = 0.9
	exactWeight = 0.1
	// earlyHalf is the place at which a word counts half of what it does at the
	// beginning.
	earlyHalf = 160

	maxSequence     = 64      // words of a query, and terms, that are looked for
	maxRead         = 8 << 10 // bytes of a document, over all fields
	differentFields = 1 << 30 // a distance: the two are not in one field
)

// nearness is what word i of the query and the next one add by their distance.
func (r *reader) nearness(i int) float64 {
	if i+1 == len(r.sequence) || r.distance[i] == differentFields {
		return 0
	}
	w := min(r.terms[r.sequence[i].term].idf, r.terms[r.sequence[i+1].term].idf)
	return float64(nearWeight * w / float64(r.distance[i]))
}

// earliness is what term k adds by its place.
func (r *reader) earliness(k int) float64 {
	if r.first[k] == 0 {
		return 0
	}
	return float64(earlyWeight * r.terms[k].idf * earlyHalf / (earlyHalf + float64(r.first[k]-1)))
}

// exactness is what term k adds when it is there as the query has it, and not
// another word of the same stem alone.
func (r *reader) exactness(k int) float64 {
	if !r.exact[k] {
		return 0
	}
	return float64(exactWeight * r.terms[k].idf)
}

// score adds to the score of a document what was read in it.
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

// closeness adds to a score what words near each other and as they are in the
// query make.
func (r *reader) closeness(base float64) float64 {
	for i := range r.sequence {
		base += r.nearness(i)
	}
	for k := range r.terms {
		base += r.exactness(k)
	}
	return base
}

// rerank ranks the best of the hits again.
func (s *searcher) rerank(x *Index, q Query, hits []Hit) []Hit {
	s.reader.prepare(x.lexer, s.terms, q.Text)
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
		s.reader.read(texts[i])
		best[i].Score = s.reader.score(h.Score, slices.Contains(q.Named, h.ID))
	}
	slices.SortFunc(best, byRank)
	if q.Limit > 0 {
		hits = hits[:min(len(hits), q.Limit)]
	}
	return hits
}

// enter puts the matches that the query names before the others, if they are
// not among the best as it is.
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
