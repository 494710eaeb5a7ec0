// Package index compares package bm25 with a model. The model stores the terms of
// each document in a map and scores every document for every query.
package index

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
)

// Model implements the operations of bm25.Index without posting lists.
type Model struct {
	Analyzer analysis.Analyzer
	docs     map[uint64]modelDoc
}

type modelDoc struct {
	class uint8
	len   int
	tf    map[string]int
}

// NewModel returns an empty model.
func NewModel(a analysis.Analyzer) *Model {
	return &Model{Analyzer: a, docs: map[uint64]modelDoc{}}
}

// Add adds or replaces a document, as bm25.Index.Add does.
func (m *Model) Add(d bm25.Doc) {
	doc := modelDoc{class: d.Class, tf: map[string]int{}}
	for _, f := range d.Fields {
		terms, own := m.terms(f)
		for _, t := range terms {
			doc.tf[t]++
		}
		if own {
			doc.len += len(terms)
		} else {
			doc.len += m.Analyzer.Length(f)
		}
	}
	m.docs[d.ID] = doc
}

// Remove removes a document, as bm25.Index.Remove does.
func (m *Model) Remove(id uint64) bool {
	_, ok := m.docs[id]
	delete(m.docs, id)
	return ok
}

// Len returns the number of documents.
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

// terms returns the terms of a text, with repetitions. own reports whether they
// are from code that bm25 does not use. For Standard that is the case if
// standardTokens covers the text.
func (m *Model) terms(text string) (terms []string, own bool) {
	if m.Analyzer == analysis.Plain {
		return plainTokens(text), true
	}
	if terms, own = standardTokens(text); own {
		return terms, true
	}
	return slices.Collect(m.Analyzer.Tokens(text)), false
}

// Compare runs a search in the index and in the model, and explains the best hits.
// Any difference is an error, even in one bit of a score. The model does not
// implement the stop words of Standard, so q.Text must not contain one.
func (m *Model) Compare(x *bm25.Index, q bm25.Query) error {
	what := fmt.Sprintf("%v query %q, limit %d, classes %#x, filter %t", m.Analyzer, q.Text, q.Limit, q.Classes, q.Filter != nil)
	if x.Len() != m.Len() {
		return fmt.Errorf("index has %d documents, model %d", x.Len(), m.Len())
	}
	got, want := x.Search(q), m.Search(q)
	if got.Total != want.Total || !slices.Equal(got.Hits, want.Hits) {
		return fmt.Errorf("%s: index returns %+v, model %+v", what, got, want)
	}
	for _, h := range want.Hits[:min(3, len(want.Hits))] {
		e, ok := x.Explain(q, h.ID)
		sum := 0.0
		for _, line := range e.Terms {
			sum += line.Contribution
		}
		d := m.docs[h.ID]
		if !ok || e.Score != h.Score || sum != h.Score || e.Len != d.len {
			return fmt.Errorf("%s: document %d has the score %v, but the terms of %+v sum to %v", what, h.ID, h.Score, e, sum)
		}
		for _, line := range e.Terms {
			if line.TF != d.tf[line.Term] {
				return fmt.Errorf("%s: document %d contains %q %d times, but Explain returns %+v", what, h.ID, line.Term, d.tf[line.Term], e)
			}
		}
	}
	return nil
}

// abbreviations are no words of a query that is also long without them.
var abbreviations = regexp.MustCompile(`\be\.g\.|\bE\.g\.|\bi\.e\.|\bI\.e\.`)

// isLong reports whether a query has 9 to 200 words.
func (m *Model) isLong(text string) bool {
	words := 0
	for t, w := range m.Analyzer.QueryTerms(text) {
		if first, _ := utf8.DecodeRuneInString(t); w == 1 && !analysis.IsStopWord([]byte(t)) && !analysis.IsUnspaced(first) {
			words++
		}
	}
	return words > 8 && words <= 200
}

// Search searches as bm25.Index.Search does. It sums a score in ascending order of
// the query's terms.
func (m *Model) Search(q bm25.Query) bm25.Result {
	weights, long := map[string]float64{}, false
	if m.Analyzer == analysis.Plain {
		for _, t := range plainTokens(q.Text) {
			weights[t] = 1
		}
	} else {
		text := q.Text
		long = m.isLong(text)
		if rest := abbreviations.ReplaceAllString(text, " "); long && m.isLong(rest) {
			text = rest
		}
		for t, w := range m.Analyzer.QueryTerms(text) {
			if long {
				weights[t] += w
			} else {
				weights[t] = max(weights[t], w)
			}
		}
	}
	terms := slices.Sorted(maps.Keys(weights))
	n, length, inverse := 0, 0, uint64(0)
	df := map[string]int{}
	for _, d := range m.docs {
		if d.len > 0 {
			n++
			length += d.len
			inverse += 1 << 32 / uint64(d.len)
		}
		for _, t := range terms {
			if d.tf[t] > 0 {
				df[t]++
			}
		}
	}
	const k1, b = 1.2, 0.75
	pivot := float64(length) / float64(n)
	if m.Analyzer == analysis.Standard {
		u := min(float64(n)*(1<<32)/float64(inverse)/pivot, 1)
		uneven := float64((1 - u) * (1 - u))
		pivot /= 1 + float64(uneven*(1/float64(u*u)-1))
	}
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
			norm := tf * (k1 + 1) / (tf + float64(k1*(1-b+float64(b*float64(d.len))/pivot)))
			weight := weights[t]
			if long {
				if len(t) == 1 && unicode.IsLetter(rune(t[0])) {
					weight *= 0.5
				}
				weight = float64(weight * math.Sqrt(math.Sqrt(idf)))
			}
			score += float64(float64(weight*idf) * norm)
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
