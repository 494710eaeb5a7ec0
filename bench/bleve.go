package main

import (
	"strconv"

	"crabmem/bench/measure"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/custom"
	"github.com/blevesearch/bleve/v2/analysis/lang/en"
	"github.com/blevesearch/bleve/v2/analysis/token/lowercase"
	"github.com/blevesearch/bleve/v2/analysis/tokenizer/whitespace"
	"github.com/blevesearch/bleve/v2/index/scorch"
)

// blevePeer is bleve's scorch index in memory: one field, white space and lower
// case, nothing stored, no term vectors, no doc values.
type blevePeer struct {
	name  string
	index bleve.Index
}

type bleveDoc struct {
	Text string `json:"text"`
}

func newBleve() (measure.Engine, error) { return openBleve("bleve", "plain") }

// newBleveEnglish is bleve with its English analyzer.
func newBleveEnglish() (measure.Engine, error) { return openBleve("bleve-en", en.AnalyzerName) }

func openBleve(name, analyzer string) (measure.Engine, error) {
	m := bleve.NewIndexMapping()
	if err := m.AddCustomAnalyzer("plain", map[string]any{
		"type":          custom.Name,
		"tokenizer":     whitespace.Name,
		"token_filters": []string{lowercase.Name},
	}); err != nil {
		return nil, err
	}
	m.DefaultAnalyzer = analyzer
	m.ScoringModel = "bm25"
	field := bleve.NewTextFieldMapping()
	field.Analyzer = analyzer
	field.Store, field.IncludeTermVectors, field.DocValues, field.IncludeInAll = false, false, false, false
	doc := bleve.NewDocumentStaticMapping()
	doc.AddFieldMappingsAt("text", field)
	m.DefaultMapping = doc
	index, err := bleve.NewUsing("", m, scorch.Name, scorch.Name, nil)
	if err != nil {
		return nil, err
	}
	return &blevePeer{name, index}, nil
}

func (p *blevePeer) Name() string { return p.name }

func (p *blevePeer) Build(docs []string) error {
	const size = 1000
	for from := 0; from < len(docs); from += size {
		b := p.index.NewBatch()
		for i := from; i < min(from+size, len(docs)); i++ {
			if err := b.Index(strconv.Itoa(i), bleveDoc{docs[i]}); err != nil {
				return err
			}
		}
		if err := p.index.Batch(b); err != nil {
			return err
		}
	}
	return nil
}

func (p *blevePeer) Search(query string, k int) (int, error) {
	q := bleve.NewMatchQuery(query)
	q.SetField("text")
	r, err := p.index.Search(bleve.NewSearchRequestOptions(q, k, 0, false))
	if err != nil {
		return 0, err
	}
	return len(r.Hits), nil
}

func (p *blevePeer) Put(id int, doc string) error {
	return p.index.Index(strconv.Itoa(id), bleveDoc{doc})
}

func (p *blevePeer) Remove(id int, _ string) error { return p.index.Delete(strconv.Itoa(id)) }

func (p *blevePeer) Close() error { return p.index.Close() }
