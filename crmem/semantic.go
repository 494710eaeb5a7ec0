package crmem

import (
	"cmp"
	"context"
	"slices"

	"crabmem/bm25/analysis"
	"crabmem/crmem/fusion"
)

// mean returns what meaning contributes to a query, with the vector of the query, or nil.
// It calls the model without a lock. Meaning has an effect for the analyzer Standard and
// the order ByScore.
func (s *Store) mean(ctx context.Context, q *Query, c clauses) *fusion.Meaning {
	m := &fusion.Meaning{}
	switch {
	case s.opts.Embed == nil:
		m.ByWords("no embedding model is configured")
		return m
	case q.Analyzer != analysis.Standard:
		m.ByWords("the analyzer is %v", q.Analyzer)
		return m
	case q.Sort != ByScore:
		m.ByWords("the hits are not sorted by score")
		return m
	}
	m.Model = s.opts.Embed.Identity()
	if err := s.prepareVectors(ctx, q.Semantic.Complete); err != nil {
		m.ByWords("%v", err)
		return m
	}
	if s.leads(ctx, q, c) {
		m.ByWords("the best match by words leads by a factor of %g or more", q.Semantic.Lead)
		return m
	}
	m.Embed(ctx, s.opts.Embed, c.text, q.Semantic.Timeout)
	return m
}

// prepareVectors reads the vector file and, if complete is set, computes what it lacks.
func (s *Store) prepareVectors(ctx context.Context, complete bool) error {
	if complete {
		return s.EmbedAll(ctx, s.opts.Indexing)
	}
	return s.loadVectors(ctx)
}

// leads reports whether the best match by words has Lead times the score of the second.
func (s *Store) leads(ctx context.Context, q *Query, c clauses) bool {
	if q.Semantic.Lead <= 1 {
		return false
	}
	words := *q
	words.Limit, words.Count, words.Explain, words.Uncounted, words.Expand, words.Diverse = 2, false, false, true, 0, false
	r, err := s.search(ctx, words, c, nil)
	return err == nil && len(r.Hits) == 2 && r.Hits[0].Score >= q.Semantic.Lead*r.Hits[1].Score
}

// fuse combines hits by words, the best first, with the entries that are most similar to
// a query with clauses. It returns the union of both, the best first. The caller holds mu
// for reading.
func (s *Store) fuse(ix *index, hits []Hit, q *Query, c clauses, m *fusion.Meaning) []Hit {
	set := s.vectors.set
	if set == nil {
		m.ByWords("the vectors are not read yet")
		return hits
	}
	m.Missing = len(s.vectors.pending)
	near := set.Search(m.Query(), max(fusion.Least, q.Limit), s.selects(ix, q, c))
	if len(near) == 0 {
		m.ByWords("no entry that passes the filters has a vector")
		return hits
	}
	has := make(map[uint64]bool, len(hits))
	for _, h := range hits {
		has[h.ID] = true
	}
	ranks := make(map[uint64]int, len(near))
	for i, n := range near {
		ranks[n.ID] = i + 1
		if !has[n.ID] {
			hits = append(hits, Hit{Entry: entryOf(s.found(ix, n.ID))})
		}
	}
	candidates := make([]fusion.Candidate, len(hits))
	for i, h := range hits {
		candidates[i] = fusion.Candidate{Lexical: h.Score, Rank: ranks[h.ID]}
		if x, ok := set.Cosine(m.Query(), h.ID); ok {
			candidates[i].Cosine = &x
		}
	}
	for i, f := range q.Semantic.Combine(s.opts.Embed, ix.x.Rarity(c.text), candidates) {
		hits[i].Fused, hits[i].Score = f, f.Score()
	}
	sortHits(hits)
	return hits
}

// sortHits sorts hits by score.
func sortHits(hits []Hit) {
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
}
