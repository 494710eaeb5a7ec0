package measure

import (
	"context"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
)

// Index is bm25.Index as an Engine. With the standard analyzer the best matches
// are read.
type Index struct {
	*bm25.Index
	name  string
	texts func(id uint64) []string
	docs  []string
	late  map[uint64]string
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
