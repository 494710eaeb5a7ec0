// Package recall answers questions to a store the way the commands and the
// daemon do: hits with their explanations, within a budget of tokens, and why
// an entry is not among them.
package recall

import (
	"cmp"
	"context"
	"slices"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/bm25/snippet"
	"crabmem/crmem"
	"crabmem/crmem/budget"
	"crabmem/crmem/fusion"
	"crabmem/crmem/metadata"
)

// Options are the additions to the hits of an Answer.
type Options struct {
	Explain bool   // how each score came about
	Weights bool   // of the terms of each hit; an explanation has them
	WhyNot  string // the name of an entry that may not be among the hits
}

// Answer is the result of a search. Its JSON is the output of crabmem recall
// --json.
type Answer struct {
	Query    string `json:"query"`
	Total    int    `json:"total"`    // matches before the limit
	Searched int    `json:"searched"` // entries that passed the filters
	*Budgeted
	Hits   []Hit   `json:"hits"`
	WhyNot *WhyNot `json:"why_not,omitempty"`

	Corrections []bm25.Correction `json:"corrections,omitempty"`
	Meaning     *fusion.Meaning   `json:"meaning,omitempty"` // of a query with crmem.Query.Semantic
}

// Hit is an entry that was found, or a message of a session. An entry has its content or,
// under a budget, a snippet. A message has a snippet.
type Hit struct {
	*crmem.EntryInfo              // nil: a message
	*Message                      // nil: an entry
	Snippet          *string      `json:"snippet,omitempty"`
	Score            float64      `json:"score"`
	Tokens           *int         `json:"tokens,omitempty"`
	Explain          *Explanation `json:"explain,omitempty"`
	Marks            *crmem.Marks `json:"marks,omitempty"`
	Space            string       `json:"-"` // for callers that merge answers

	// Weights has the terms of the hit and their weights, for the selection of
	// snippets.
	Weights map[string]float64 `json:"-" cbor:"weights,omitempty"`
}

// Message is the place of a message in a session.
type Message struct {
	Session string `json:"session"`
	Title   string `json:"title"`
	Agent   string `json:"agent"`
	Role    string `json:"role"`
	Line    int64  `json:"line"`
}

// Label returns the name of an entry, or the title or ID of a session.
func (h *Hit) Label() string {
	if h.Message != nil {
		return cmp.Or(h.Title, h.Session)
	}
	return h.Name
}

// Text returns the content, or else the snippet.
func (h *Hit) Text() string {
	if h.Snippet != nil {
		return *h.Snippet
	}
	return *h.Content
}

// Cut returns at most n bytes of the content of a hit: the part that matches best. It
// contains no front matter.
func (h *Hit) Cut(an analysis.Analyzer, n int) string {
	return snippet.Cut(metadata.Text(*h.Content), an, h.Weights, n)
}

// Budgeted describes how an answer used its budget.
type Budgeted struct {
	Budget    int    `json:"budget"`
	Tokens    int    `json:"tokens"` // of the names and the texts of the hits
	Encoding  string `json:"encoding"`
	Estimated bool   `json:"estimated"`
	LeftOut   int    `json:"left_out"` // hits whose names exceed the budget
}

// Search runs q on a store and returns the hits with the additions of o.
func Search(ctx context.Context, s *crmem.Store, q crmem.Query, o Options) (*Answer, error) {
	q.Count, q.Explain = true, o.Explain || o.Weights
	r, err := s.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	a := &Answer{Query: q.Text, Total: r.Total, Searched: r.Searched, Hits: make([]Hit, len(r.Hits)), Corrections: r.Corrections, Meaning: r.Meaning}
	entries := make([]crmem.EntryInfo, len(r.Hits))
	for i := range r.Hits {
		h := &r.Hits[i]
		entries[i] = h.Entry.Info(true)
		a.Hits[i] = Hit{EntryInfo: &entries[i], Score: h.Score, Marks: h.Marks}
		if q.Explain {
			a.Hits[i].Weights = r.Explanations[i].Weights()
		}
		if o.Explain && (h.Marks == nil || h.Marks.Linked == nil) {
			a.Hits[i].Explain = explain(r.Explanations[i], &h.Entry)
			a.Hits[i].Explain.add(h)
		}
	}
	if o.WhyNot != "" {
		if a.WhyNot, err = whyNot(ctx, s, q, o.WhyNot); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Merge returns the first limit hits of several answers, and all entries that
// crmem.Query.Expand added. It orders the hits by reciprocal rank: the first hit of each
// answer, then the second of each, with the answers in the order of the list. limit is
// that of each answer.
func Merge(list []*Answer, limit int) *Answer {
	if len(list) == 1 {
		return list[0]
	}
	merged := &Answer{Hits: []Hit{}}
	var ranks [][]Hit
	for _, a := range list {
		merged.Query = a.Query
		merged.Total += a.Total
		merged.Searched += a.Searched
		merged.Meaning = merged.Meaning.Merge(a.Meaning)
		merged.Corrections = append(merged.Corrections, a.Corrections...)
		for rank, h := range a.Hits {
			if rank == len(ranks) {
				ranks = append(ranks, nil)
			}
			ranks[rank] = append(ranks[rank], h)
		}
	}
	var linked []Hit
	for _, h := range slices.Concat(ranks...) {
		switch {
		case h.Marks != nil && h.Marks.Linked != nil:
			linked = append(linked, h)
		case limit == 0 || len(merged.Hits) < limit:
			merged.Hits = append(merged.Hits, h)
		}
	}
	merged.Hits = append(merged.Hits, linked...)
	return merged
}

// Spend limits the hits to a number of tokens of names and texts. The hits must
// have weights and no budget yet. Spend removes hits whose names do not fit.
func (a *Answer) Spend(tokens int, an analysis.Analyzer) {
	entries := make([]budget.Entry, len(a.Hits))
	for i, h := range a.Hits {
		body := 0
		if h.Message == nil {
			_, body, _ = metadata.Parse(*h.Content)
		}
		entries[i] = budget.Entry{Name: h.Label(), Text: h.Text(), Weights: h.Weights, Skip: body}
	}
	parts, used := budget.Spend(entries, tokens, an)
	a.Budgeted = &Budgeted{tokens, used, budget.Encoding, false, len(a.Hits) - len(parts)}
	a.Hits = a.Hits[:len(parts)]
	for i, p := range parts {
		h := &a.Hits[i]
		if h.Message != nil {
			h.Snippet = &p.Text
		} else if !p.Whole {
			h.Content, h.Snippet = nil, &p.Text
		}
		h.Tokens = &p.Tokens
	}
}
