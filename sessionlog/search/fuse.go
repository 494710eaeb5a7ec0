package search

import (
	"context"
	"slices"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem/fusion"
)

// maxSame limits the documents with the same text that meaning finds.
const maxSame = 4

// mean returns what meaning contributes to a query, with the vector of the query, or nil.
// It calls the model without a lock.
func (x *Index) mean(ctx context.Context, q *Query) *fusion.Meaning {
	if q.Semantic == nil {
		return nil
	}
	m := &fusion.Meaning{}
	switch {
	case x.texts == nil:
		m.ByWords("no embedding model is configured")
		return m
	case x.analyzer != analysis.Standard:
		m.ByWords("the analyzer is %v", x.analyzer)
		return m
	}
	m.Model = x.texts.model.Identity()
	if q.Semantic.Complete {
		if err := x.EmbedAll(ctx, q.Progress); err != nil {
			m.ByWords("%v", err)
			return m
		}
	}
	m.Embed(ctx, x.texts.model, q.Text, q.Semantic.Timeout)
	return m
}

// fuse combines the matches by words with the documents that are most similar to the
// query.
func (x *Index) fuse(q *Query, r *ranking, m *fusion.Meaning) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.closed {
		return errIndexClosed
	}
	hits := slices.DeleteFunc(slices.Clone(r.hits), func(h bm25.Hit) bool { return !x.present(h.ID) })
	x.sort(hits)
	t := x.texts
	m.Missing = len(t.pending)
	class, filter, _ := x.filter(q)
	pass := func(doc uint64) bool { return class>>x.classOf(doc)&1 != 0 && (filter == nil || filter(doc)) }
	near := t.set.Search(m.Query(), max(fusion.Least, q.Limit), func(id uint64) bool { return t.any(id, pass) })
	if len(near) == 0 {
		m.ByWords("no text that passes the filters has a vector")
		return nil
	}
	has := make(map[uint64]bool, len(hits))
	for _, h := range hits {
		has[h.ID] = true
	}
	ranks := make(map[uint64]int, len(near))
	for i, n := range near {
		ranks[n.ID] = i + 1
		left := maxSame
		t.any(n.ID, func(doc uint64) bool {
			if pass(doc) {
				if left--; !has[doc] {
					hits = append(hits, bm25.Hit{ID: doc})
					r.Total++
				}
			}
			return left == 0
		})
	}
	candidates := make([]fusion.Candidate, len(hits))
	for i, h := range hits {
		text := t.docs[h.ID].text
		candidates[i] = fusion.Candidate{Lexical: h.Score, Rank: ranks[text]}
		if c, ok := t.set.Cosine(m.Query(), text); ok {
			candidates[i].Cosine = &c
		}
	}
	fused := make(map[uint64]*fusion.Fused, len(hits))
	for i, f := range q.Semantic.Combine(t.model, x.docs.Rarity(q.Text), candidates) {
		hits[i].Score, fused[hits[i].ID] = f.Score(), f
	}
	x.sort(hits)
	r.found = r.found[:0]
	for _, h := range hits[:min(len(hits), q.Limit)] {
		f := x.find(h.ID, h.Score, q)
		f.Fused = fused[h.ID]
		r.found = append(r.found, f)
	}
	return nil
}

// classOf returns the class of a document. The caller holds mu.
func (x *Index) classOf(doc uint64) uint16 {
	ord, at := placeOf(doc)
	if at < 0 {
		return classSession
	}
	if role := x.entries[ord].places[at].role; role < classes {
		return role
	}
	return classOther
}
