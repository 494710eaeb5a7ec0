package measure

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
)

// Index implements Engine with bm25.Index. With the standard analyzer it passes the
// texts of documents for the re-rank.
type Index struct {
	*bm25.Index
	name  string
	texts func(id uint64) []string
	docs  []string
	late  map[uint64]string // texts of documents after Build; nil with the plain analyzer
}

// NewIndex returns an empty index with the plain analyzer.
func NewIndex() (Engine, error) { return &Index{Index: bm25.New(analysis.Plain), name: "crabmem"}, nil }

// NewStandard returns an empty index with the standard analyzer.
func NewStandard() (Engine, error) {
	x := &Index{Index: bm25.New(analysis.Standard), name: "standard", late: map[uint64]string{}}
	x.texts = x.text
	return x, nil
}

func (x *Index) text(id uint64) []string {
	if t, ok := x.late[id]; ok {
		return []string{t}
	}
	return x.docs[id : id+1 : id+1]
}

func (x *Index) Name() string { return x.name }

func (x *Index) Build(docs []string) error {
	x.docs = docs
	return x.Index.Build(context.Background(), len(docs), func(i int) bm25.Doc {
		return bm25.Doc{ID: uint64(i), Fields: docs[i : i+1 : i+1]}
	})
}

func (x *Index) Search(query string, k int) (int, error) {
	return len(x.Index.Search(bm25.Query{Text: query, Limit: k, Texts: x.texts}).Hits), nil
}

func (x *Index) Put(id int, doc string) error {
	if x.late != nil {
		x.late[uint64(id)] = doc
	}
	x.Add(bm25.Doc{ID: uint64(id), Fields: []string{doc}})
	return nil
}

func (x *Index) Remove(id int, _ string) error {
	x.Index.Remove(uint64(id))
	return nil
}

func (x *Index) Close() error { return nil }

// Check compares the best k hits of every query with a float64 brute force. It
// returns an error if a hit or a bit of a score differs.
func Check(x *bm25.Index, docs, queries []string, k int) error {
	type posting struct{ doc, tf int }
	lists := map[string][]posting{}
	lens := make([]int, len(docs))
	total := 0
	for d, text := range docs {
		for _, w := range strings.Fields(text) {
			lens[d]++
			l := lists[w]
			if n := len(l); n > 0 && l[n-1].doc == d {
				l[n-1].tf++
			} else {
				lists[w] = append(l, posting{d, 1})
			}
		}
		total += lens[d]
	}
	n := float64(len(docs))
	avgdl := float64(total) / n
	scores := make([]float64, len(docs))
	for _, q := range queries {
		clear(scores)
		terms := strings.Fields(q)
		slices.Sort(terms)
		for _, t := range slices.Compact(terms) {
			df := float64(len(lists[t]))
			idf := math.Log((n-df+0.5)/(df+0.5) + 1)
			for _, p := range lists[t] {
				tf := float64(p.tf)
				norm := tf * (1.2 + 1) / (tf + float64(1.2*(1-0.75+float64(0.75*float64(lens[p.doc]))/avgdl)))
				scores[p.doc] += float64(idf * norm)
			}
		}
		var want []bm25.Hit
		for d, s := range scores {
			if s > 0 {
				want = append(want, bm25.Hit{ID: uint64(d), Score: s})
			}
		}
		slices.SortFunc(want, func(a, b bm25.Hit) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
		})
		want = want[:min(k, len(want))]
		if got := x.Search(bm25.Query{Text: q, Limit: k}).Hits; !slices.Equal(got, want) {
			return fmt.Errorf("query %q: index returns %v, brute force %v", q, got, want)
		}
	}
	return nil
}
