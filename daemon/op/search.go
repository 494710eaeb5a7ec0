package op

import (
	"cmp"
	"context"
	"maps"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/bm25/snippet"
	"crabmem/crmem/fusion"
	"crabmem/crmem/metadata"
	"crabmem/crmem/recall"
	"crabmem/daemon/errtable"
)

// SearchQuery is a search for programs.
type SearchQuery struct {
	Query string `json:"query"`
	Limit *int   `json:"limit,omitempty" jsonschema:"hits, at most 200; absent: 5"`
	FilterArgs
	RankArgs
	Syntax   bool   `json:"syntax,omitempty" jsonschema:"the query has clauses, such as name:deploy"`
	Semantic bool   `json:"semantic,omitempty" jsonschema:"search by meaning, too"`
	Explain  bool   `json:"explain,omitempty" jsonschema:"add how each score came about"`
	WhyNot   string `json:"why_not,omitempty" jsonschema:"the name of an entry: explain why it is not a hit"`
	Budget   int    `json:"budget,omitempty" jsonschema:"limit in tokens of names and texts"`
	Full     bool   `json:"full,omitempty" jsonschema:"add the contents of the hits"`
}

// Limits of a SearchQuery.
const (
	MaxSearchQuery  = 64 << 10 // bytes
	maxSearchHits   = 200
	searchHits      = 5 // without a limit
	maxSearchBudget = 1 << 20
	MaxSnippet      = 480 // bytes
)

// Validate returns an error for an invalid query.
func (in *SearchQuery) Validate() error {
	switch {
	case in.Query == "":
		return errtable.Invalidf("query is empty")
	case len(in.Query) > MaxSearchQuery:
		return errtable.Invalidf("query has %d bytes, want at most %d", len(in.Query), MaxSearchQuery)
	case in.Budget < 0 || in.Budget > maxSearchBudget:
		return errtable.Invalidf("budget: want 0 to %d", maxSearchBudget)
	case in.Limit != nil && (*in.Limit < 1 || *in.Limit > maxSearchHits):
		return errtable.Invalidf("limit: want 1 to %d", maxSearchHits)
	}
	return nil
}

// SearchResult is the result of a search.
type SearchResult struct {
	Hits        []SearchHit       `json:"hits" jsonschema:"the best first"`
	Total       int               `json:"total" jsonschema:"matches before the limit"`
	Searched    int               `json:"searched" jsonschema:"entries that passed the filters"`
	Corrections []bm25.Correction `json:"corrections,omitempty" jsonschema:"words that replaced a word that no entry contains"`
	Budget      *SearchBudget     `json:"budget,omitempty"`
	WhyNot      *recall.WhyNot    `json:"why_not,omitempty"`
	Meaning     *fusion.Meaning   `json:"meaning,omitempty" jsonschema:"whether the search was by meaning, or why not"`
}

// SearchBudget is what hits take of a budget.
type SearchBudget struct {
	Tokens  int `json:"tokens" jsonschema:"of names and texts"`
	LeftOut int `json:"left_out" jsonschema:"hits whose names exceed the budget"`
}

// SearchHit is an entry that matches, or a message of a session.
type SearchHit struct {
	Entry   *Entry              `json:"entry,omitempty" jsonschema:"absent: the hit is a message"`
	Message *recall.Message     `json:"message,omitempty"`
	Score   float64             `json:"score"`
	Snippet string              `json:"snippet" jsonschema:"the part of the content that matches best"`
	Tokens  *int                `json:"tokens,omitempty"`
	Explain *recall.Explanation `json:"explain,omitempty" jsonschema:"as crabmem recall --explain --json prints it"`
}

var SearchEntries = Add(errtable.Store, Op[Store, SearchQuery, SearchResult]{
	Name: "entries.search", Does: "Search entries by words, and by meaning.", Effect: Reads, Need: NeedRead, Path: "POST /v1/recall",
	Run: func(ctx context.Context, s Store, in *SearchQuery) (SearchResult, error) {
		limit := searchHits
		q := Question{Query: in.Query, Limit: *cmp.Or(in.Limit, &limit), FilterArgs: in.FilterArgs, RankArgs: in.RankArgs, Syntax: in.Syntax, Semantic: in.Semantic,
			Explain: in.Explain, WhyNot: in.WhyNot, Budget: in.Budget}
		a, err := q.answer(ctx, s)
		if err != nil {
			return SearchResult{}, err
		}
		out := SearchResult{Hits: []SearchHit{}, Total: a.Total, Searched: a.Searched, Corrections: a.Corrections, Meaning: a.Meaning, WhyNot: a.WhyNot}
		if a.Budgeted != nil {
			out.Budget = &SearchBudget{a.Budgeted.Tokens, a.LeftOut}
		}
		weights := weightsOf(a)
		for i := range a.Hits {
			out.Hits = append(out.Hits, hitOf(&a.Hits[i], in, weights))
		}
		return out, nil
	},
	NoStore: func() SearchResult { return SearchResult{Hits: []SearchHit{}} },
})

// weightsOf returns the terms of a query and of its corrections, for the selection of
// snippets. The weights of the terms in each hit would cost as much as the search.
func weightsOf(a *recall.Answer) map[string]float64 {
	weights := maps.Collect(analysis.Standard.QueryTerms(a.Query))
	for _, c := range a.Corrections {
		for _, word := range c.Words {
			for term := range analysis.Standard.Tokens(word) {
				weights[term] = c.Weight
			}
		}
	}
	return weights
}

// hitOf converts a hit. Under a budget, a hit without its complete content has no etag.
func hitOf(h *recall.Hit, in *SearchQuery, weights map[string]float64) SearchHit {
	out := SearchHit{Message: h.Message, Score: h.Score, Tokens: h.Tokens, Explain: h.Explain}
	if h.Message != nil {
		out.Snippet = *h.Snippet
		return out
	}
	e := h.Entry()
	if h.Content != nil {
		out.Entry = EntryOf(&e, in.Full || in.Budget > 0)
		out.Snippet = snippet.Cut(metadata.Text(e.Content), analysis.Standard, weights, MaxSnippet)
	} else {
		out.Entry = EntryOf(&e, false)
		out.Entry.ETag, out.Entry.Bytes, out.Snippet = "", h.Bytes, *h.Snippet
	}
	return out
}
