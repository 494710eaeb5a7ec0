package main

import (
	"strings"

	"crabmem/bm25"
	"crabmem/budget"
)

// spend shows the hits with at most so many tokens. Those whose names have no
// room are left out.
func (a *recallAnswer) spend(tokens int, an bm25.Analyzer, explain []bm25.Explanation) {
	entries := make([]budget.Entry, len(a.Hits))
	for i, h := range a.Hits {
		entries[i] = budget.Entry{Name: h.Name, Text: *h.Content, Weights: explain[i].Weights()}
	}
	parts, used := budget.Spend(entries, tokens, an)
	a.budgeted = &budgeted{tokens, used, budget.Encoding, false, len(a.Hits) - len(parts)}
	a.Hits = a.Hits[:len(parts)]
	for i, p := range parts {
		h := &a.Hits[i]
		if !p.Whole {
			h.Content, h.Snippet = nil, &p.Text
		}
		h.Tokens = &p.Tokens
	}
}

// oneLine is text with its white space made single blanks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
