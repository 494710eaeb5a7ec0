package main

import (
	"runtime/debug"
	"strconv"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/lang/en"
	"github.com/blevesearch/bleve/v2/index/scorch"
)

// bleveRank returns the rankings of bleve with BM25 and its analyzer for English.
func bleveRank(_ string, parts []part) (version string, ranked [][][]int, err error) {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/blevesearch/bleve/v2" {
				version = m.Version
			}
		}
	}
	for i := range parts {
		list, err := bleveSearch(&parts[i])
		if err != nil {
			return "", nil, err
		}
		ranked = append(ranked, list)
	}
	return version, ranked, nil
}

func bleveSearch(p *part) (ranked [][]int, err error) {
	m := bleve.NewIndexMapping()
	m.DefaultAnalyzer, m.ScoringModel = en.AnalyzerName, "bm25"
	index, err := bleve.NewUsing("", m, scorch.Name, scorch.Name, nil)
	if err != nil {
		return nil, err
	}
	defer index.Close()
	b := index.NewBatch()
	for i, text := range p.Docs {
		if err := b.Index(strconv.Itoa(i), map[string]string{"text": text}); err != nil {
			return nil, err
		}
	}
	if err := index.Batch(b); err != nil {
		return nil, err
	}
	for _, q := range p.Queries {
		match := bleve.NewMatchQuery(q)
		match.SetField("text")
		r, err := index.Search(bleve.NewSearchRequestOptions(match, 100, 0, false))
		if err != nil {
			return nil, err
		}
		list := make([]int, len(r.Hits))
		for i, h := range r.Hits {
			if list[i], err = strconv.Atoi(h.ID); err != nil {
				return nil, err
			}
		}
		ranked = append(ranked, list)
	}
	return ranked, nil
}
