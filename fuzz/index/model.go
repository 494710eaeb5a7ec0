// Package index checks package bm25 against the plainest thing that computes
// the same: a model that keeps every document's terms in a map and scores all
// of them for every query.
package index

import (
	"cmp"
	"math"
	"slices"

	"crabmem/bm25"
)

// Model is an index without an index.
type Model struct {
	Analyzer bm25.Analyzer
	docs     map[uint64]modelDoc
}

type modelDoc struct {
	class uint8
	len   int
	tf    map[string]int
}

// NewModel returns an empty model.
func NewModel(a bm25.Analyzer) *Model {
	return &Model{Analyzer: a, docs: map[uint64]modelDoc{}}
}

// Add is bm25.Index.Add.
func (m *Model) Add(d bm25.Doc) {
	doc := modelDoc{class: d.Class, tf: map[string]int{}}
	for _, f := range d.Fields {
		for t := range m.Analyzer.Tokens(f) {
			doc.tf[t]++
			doc.len++
		}
	}
	m.docs[d.ID] = doc
}

// Remove is bm25.Index.Remove.
func (m *Model) Remove(id uint64) bool {
	_, ok := m.docs[id]
	delete(m.docs, id)
	return ok
}

// Len is bm25.Index.Len.
func (m *Model) Len() int { return len(m.docs) }

// IDs returns the IDs of all documents, ascending.
func (m *Model) IDs() []uint64 {
	ids := make([]uint64, 0, len(m.docs))
	for id := range m.docs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Search scores the documents for the terms given, which need not be sorted or
// distinct; q.Text is not used. Scores are sums in ascending order of the terms.
func (m *Model) Search(terms []string, q bm25.Query) bm25.Result {
	terms = slices.Clone(terms)
	slices.Sort(terms)
	terms = slices.Compact(terms)
	n, length := 0, 0
	df := map[string]int{}
	for _, d := range m.docs {
		if d.len > 0 {
			n++
			length += d.len
		}
		for _, t := range terms {
			if d.tf[t] > 0 {
				df[t]++
			}
		}
	}
	const k1, b = 1.2, 0.75
	avgdl := float64(length) / float64(n)
	var r bm25.Result
	for id, d := range m.docs {
		if q.Classes != 0 && q.Classes>>d.class&1 == 0 || q.Filter != nil && !q.Filter(id) {
			continue
		}
		score := 0.0
		for _, t := range terms {
			tf := float64(d.tf[t])
			if tf == 0 {
				continue
			}
			idf := math.Log((float64(n)-float64(df[t])+0.5)/(float64(df[t])+0.5) + 1)
			norm := tf * (k1 + 1) / (tf + float64(k1*(1-b+float64(b*float64(d.len))/avgdl)))
			score += float64(idf * norm)
		}
		if score > 0 {
			r.Hits = append(r.Hits, bm25.Hit{ID: id, Score: score})
		}
	}
	if q.Count {
		r.Total = len(r.Hits)
	}
	slices.SortFunc(r.Hits, func(a, b bm25.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
	})
	if q.Limit > 0 && len(r.Hits) > q.Limit {
		r.Hits = r.Hits[:q.Limit]
	}
	return r
}
