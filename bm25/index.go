package bm25

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Index is an inverted index. It is safe for concurrent use: any number of
// searches at a time, or one change.
type Index struct {
	analyzer Analyzer

	mu       sync.RWMutex
	docs     map[uint64]*document
	postings map[string]map[uint64]int
	counted  int // documents with at least one term
	length   int // terms in all documents
}

type document struct {
	class uint8
	len   int
	terms []string
}

// New returns an empty index.
func New(a Analyzer) *Index {
	return &Index{analyzer: a, docs: map[uint64]*document{}, postings: map[string]map[uint64]int{}}
}

// Add indexes a document. One that is present under the same ID is replaced.
func (x *Index) Add(d Doc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(d.ID)
	doc := &document{class: d.Class & 7}
	var sc scanner
	sc.each(x.analyzer, d.Fields, func(b []byte) {
		term := string(b)
		m := x.postings[term]
		if m == nil {
			m = map[uint64]int{}
			x.postings[term] = m
		}
		if m[d.ID] == 0 {
			doc.terms = append(doc.terms, term)
		}
		m[d.ID]++
		doc.len++
	})
	x.docs[d.ID] = doc
	x.length += doc.len
	if doc.len > 0 {
		x.counted++
	}
}

// Remove takes a document out and reports whether it was present. It needs no
// text and costs the document's terms.
func (x *Index) Remove(id uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.remove(id)
}

func (x *Index) remove(id uint64) bool {
	doc := x.docs[id]
	if doc == nil {
		return false
	}
	for _, t := range doc.terms {
		delete(x.postings[t], id)
		if len(x.postings[t]) == 0 {
			delete(x.postings, t)
		}
	}
	x.length -= doc.len
	if doc.len > 0 {
		x.counted--
	}
	delete(x.docs, id)
	return true
}

// Len returns the number of documents.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.docs)
}

// Build indexes the documents docs(0) to docs(n-1), all with different IDs,
// into an empty index, on all cores: docs is called from several goroutines.
// When ctx ends first the index stays empty and the error is ctx's.
func (x *Index) Build(ctx context.Context, n int, docs func(i int) Doc) error {
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		x.Add(docs(i))
	}
	return nil
}

// queryTerms returns the terms of a query, ascending and distinct.
func (x *Index) queryTerms(text string) []string {
	var all, kept []string
	var sc scanner
	sc.each(x.analyzer, []string{text}, func(b []byte) {
		term := string(b)
		all = append(all, term)
		if x.analyzer == Plain || !standardStop[term] {
			kept = append(kept, term)
		}
	})
	if len(kept) == 0 {
		kept = all
	}
	slices.Sort(kept)
	return slices.Compact(kept)
}

// Search returns the best documents for the query.
func (x *Index) Search(q Query) Result {
	x.mu.RLock()
	defer x.mu.RUnlock()
	scores := map[uint64]float64{}
	for _, t := range x.queryTerms(q.Text) {
		w := idf(x.counted, len(x.postings[t]))
		for id, tf := range x.postings[t] {
			scores[id] += contribution(w, tfNorm(tf, x.docs[id].len, x.avgLen()))
		}
	}
	var r Result
	for id, score := range scores {
		if q.Classes != 0 && q.Classes>>x.docs[id].class&1 == 0 || q.Filter != nil && !q.Filter(id) {
			continue
		}
		r.Hits = append(r.Hits, Hit{id, score})
	}
	if q.Count {
		r.Total = len(r.Hits)
	}
	slices.SortFunc(r.Hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
	})
	if q.Limit > 0 && len(r.Hits) > q.Limit {
		r.Hits = r.Hits[:q.Limit]
	}
	return r
}

func (x *Index) avgLen() float64 { return float64(x.length) / float64(x.counted) }

// Explain says how the document's score for the query comes about. It reports
// false when there is no such document.
func (x *Index) Explain(query string, id uint64) (Explanation, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	doc := x.docs[id]
	if doc == nil {
		return Explanation{}, false
	}
	e := Explanation{ID: id, Docs: x.counted, AvgLen: x.avgLen(), Len: doc.len}
	for _, t := range x.queryTerms(query) {
		tf := x.postings[t][id]
		if tf == 0 {
			continue
		}
		df := len(x.postings[t])
		line := Term{Term: t, TF: tf, DF: df, IDF: idf(x.counted, df), LengthNorm: tfNorm(tf, doc.len, e.AvgLen)}
		line.Contribution = contribution(line.IDF, line.LengthNorm)
		e.Score += line.Contribution
		e.Terms = append(e.Terms, line)
	}
	return e, true
}

// Stats returns the size of the index.
func (x *Index) Stats() Stats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := Stats{Docs: len(x.docs), Terms: len(x.postings)}
	for _, m := range x.postings {
		s.Postings += len(m)
	}
	return s
}
