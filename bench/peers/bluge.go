package main

import (
	"context"
	"strconv"

	"crabmem/bench/measure"

	"github.com/blugelabs/bluge"
	"github.com/blugelabs/bluge/analysis"
	"github.com/blugelabs/bluge/analysis/token"
	"github.com/blugelabs/bluge/analysis/tokenizer"
)

// blugePeer is bluge in memory: one field, white space and lower case, nothing
// stored.
type blugePeer struct {
	writer   *bluge.Writer
	reader   *bluge.Reader // nil after a change
	analyzer *analysis.Analyzer
}

func newBluge() (measure.Engine, error) {
	w, err := bluge.OpenWriter(bluge.InMemoryOnlyConfig())
	if err != nil {
		return nil, err
	}
	return &blugePeer{writer: w, analyzer: &analysis.Analyzer{
		Tokenizer:    tokenizer.NewWhitespaceTokenizer(),
		TokenFilters: []analysis.TokenFilter{token.NewLowerCaseFilter()},
	}}, nil
}

func (p *blugePeer) Name() string { return "bluge" }

func (p *blugePeer) doc(id int, text string) *bluge.Document {
	return bluge.NewDocument(strconv.Itoa(id)).AddField(bluge.NewTextField("text", text).WithAnalyzer(p.analyzer))
}

func (p *blugePeer) Build(docs []string) error {
	const size = 1000
	for from := 0; from < len(docs); from += size {
		b := bluge.NewBatch()
		for i := from; i < min(from+size, len(docs)); i++ {
			d := p.doc(i, docs[i])
			b.Update(d.ID(), d)
		}
		if err := p.writer.Batch(b); err != nil {
			return err
		}
	}
	return p.refresh()
}

// refresh closes the reader, if there is one, and opens a current one.
func (p *blugePeer) refresh() error {
	if p.reader != nil {
		if err := p.reader.Close(); err != nil {
			return err
		}
	}
	var err error
	p.reader, err = p.writer.Reader()
	return err
}

func (p *blugePeer) Search(query string, k int) (int, error) {
	q := bluge.NewMatchQuery(query).SetField("text").SetAnalyzer(p.analyzer)
	it, err := p.reader.Search(context.Background(), bluge.NewTopNSearch(k, q))
	if err != nil {
		return 0, err
	}
	n := 0
	for {
		m, err := it.Next()
		if err != nil || m == nil {
			return n, err
		}
		n++
	}
}

func (p *blugePeer) Put(id int, text string) error {
	d := p.doc(id, text)
	return p.writer.Update(d.ID(), d)
}

func (p *blugePeer) Remove(id int, _ string) error {
	return p.writer.Delete(bluge.Identifier(strconv.Itoa(id)))
}

func (p *blugePeer) Close() error {
	if err := p.reader.Close(); err != nil {
		return err
	}
	return p.writer.Close()
}
