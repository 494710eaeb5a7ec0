package measure

import (
	"context"

	"crabmem/bm25"
)

// Index is bm25.Index as an Engine, with the plain analyzer.
type Index struct{ *bm25.Index }

// NewIndex returns an empty index.
func NewIndex() (Engine, error) { return &Index{bm25.New(bm25.Plain)}, nil }

func (x *Index) Name() string { return "crabmem" }

func (x *Index) Build(docs []string) error {
	return x.Index.Build(context.Background(), len(docs), func(i int) bm25.Doc {
		return bm25.Doc{ID: uint64(i), Fields: docs[i : i+1 : i+1]}
	})
}

func (x *Index) Search(query string, k int) (int, error) {
	return len(x.Index.Search(bm25.Query{Text: query, Limit: k}).Hits), nil
}

func (x *Index) Put(id int, doc string) error {
	x.Add(bm25.Doc{ID: uint64(id), Fields: []string{doc}})
	return nil
}

func (x *Index) Remove(id int, _ string) error {
	x.Index.Remove(uint64(id))
	return nil
}

func (x *Index) Close() error { return nil }
