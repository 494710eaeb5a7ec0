package gateway

import (
	"errors"
	"maps"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/bm25/snippet"
	"crabmem/crmem"
	"crabmem/crmem/fusion"
	"crabmem/crmem/metadata"
	"crabmem/crmem/recall"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// The limits of a search.
const (
	maxQuestion  = 64 << 10 // bytes
	maxHits      = 200
	defaultHits  = 5
	maxBudget    = 1 << 20 // tokens
	snippetBytes = 480
)

var recallRoutes = []route{
	{method: "POST", path: "/v1/recall", summary: "Search entries by words, and by meaning", in: of[question](), out: of[answer](), status: 200,
		fails: []int{403}, query: []param{spaceParam}, run: with((*call).recall)},
}

// question is a search.
type question struct {
	Query string `json:"query"`
	Limit *int   `json:"limit,omitempty" jsonschema:"hits, at most 200; absent: 5"`
	op.FilterArgs
	Syntax   bool   `json:"syntax,omitempty" jsonschema:"the query has clauses, such as name:deploy"`
	Semantic bool   `json:"semantic,omitempty" jsonschema:"search by meaning, too"`
	Explain  bool   `json:"explain,omitempty" jsonschema:"add how each score came about"`
	WhyNot   string `json:"why_not,omitempty" jsonschema:"the name of an entry: explain why it is not a hit"`
	Budget   int    `json:"budget,omitempty" jsonschema:"limit in tokens of names and texts"`
	Full     bool   `json:"full,omitempty" jsonschema:"add the contents of the hits"`
}

// answer is the result of a search.
type answer struct {
	Hits        []hit             `json:"hits" jsonschema:"the best first"`
	Total       int               `json:"total" jsonschema:"matches before the limit"`
	Searched    int               `json:"searched" jsonschema:"entries that passed the filters"`
	Corrections []bm25.Correction `json:"corrections,omitempty" jsonschema:"words that replaced a word that no entry contains"`
	Budget      *budget           `json:"budget,omitempty"`
	WhyNot      any               `json:"why_not,omitempty"`
	Meaning     *fusion.Meaning   `json:"meaning,omitempty" jsonschema:"whether the search was by meaning, or why not"`
}

type budget struct {
	Tokens  int `json:"tokens" jsonschema:"of names and texts"`
	LeftOut int `json:"left_out" jsonschema:"hits whose names exceed the budget"`
}

type hit struct {
	Entry   op.Entry `json:"entry"`
	Score   float64  `json:"score"`
	Snippet string   `json:"snippet" jsonschema:"the part of the content that matches best"`
	Tokens  *int     `json:"tokens,omitempty"`
	Explain any      `json:"explain,omitempty" jsonschema:"as crabmem recall --explain --json prints it"`
}

// check returns the search for a question.
func (in *question) check() (q op.Question, err error) {
	q = op.Question{Query: in.Query, Limit: defaultHits, FilterArgs: in.FilterArgs, Syntax: in.Syntax, Semantic: in.Semantic,
		Explain: in.Explain, WhyNot: in.WhyNot, Budget: in.Budget}
	switch {
	case in.Query == "":
		return q, invalidf("query is empty")
	case len(in.Query) > maxQuestion:
		return q, invalidf("query has %d bytes, want at most %d", len(in.Query), maxQuestion)
	case in.Budget < 0 || in.Budget > maxBudget:
		return q, invalidf("budget: want 0 to %d", maxBudget)
	case in.Limit != nil && (*in.Limit < 1 || *in.Limit > maxHits):
		return q, invalidf("limit: want 1 to %d", maxHits)
	}
	if in.Limit != nil {
		q.Limit = *in.Limit
	}
	return q, nil
}

func (c *call) recall(in *question) (any, error) {
	q, err := in.check()
	if err != nil {
		return nil, err
	}
	out := answer{Hits: []hit{}}
	err = c.in(func(d *client.Client) error {
		a, err := op.Recall.Do(c.r.Context(), d, q)
		if errors.Is(err, crmem.ErrNoStore) {
			return nil // the identity has not written yet
		}
		if err != nil {
			return err
		}
		out.Total, out.Searched, out.Corrections, out.Meaning = a.Total, a.Searched, a.Corrections, a.Meaning
		if a.WhyNot != nil {
			out.WhyNot = a.WhyNot
		}
		if a.Budgeted != nil {
			out.Budget = &budget{a.Budgeted.Tokens, a.LeftOut}
		}
		weights := weightsOf(a)
		for i := range a.Hits {
			out.Hits = append(out.Hits, hitOf(&a.Hits[i], in, weights))
		}
		return nil
	})
	return out, err
}

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
func hitOf(h *recall.Hit, in *question, weights map[string]float64) hit {
	e := h.Entry()
	out := hit{Score: h.Score, Tokens: h.Tokens}
	if h.Content != nil {
		out.Entry = *op.EntryOf(&e, in.Full || in.Budget > 0)
		out.Snippet = snippet.Cut(metadata.Text(e.Content), analysis.Standard, weights, snippetBytes)
	} else {
		out.Entry = *op.EntryOf(&e, false)
		out.Entry.ETag, out.Entry.Bytes, out.Snippet = "", h.Bytes, *h.Snippet
	}
	if h.Explain != nil {
		out.Explain = h.Explain
	}
	return out
}
