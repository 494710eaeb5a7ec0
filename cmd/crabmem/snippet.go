package main

import (
	"strings"

	"crabmem/bm25"
	"crabmem/snippet"
)

// bytesPerToken is the estimate that budgets count with.
const bytesPerToken = 4

// spend cuts the texts of the hits so that together they have at most budget
// tokens: as much as possible to each, the best first where it does not go
// round.
func (a *recallAnswer) spend(budget int, an bm25.Analyzer, explain []bm25.Explanation) {
	share := shares(a.Hits, budget*bytesPerToken)
	total, carry := 0, 0
	for i := range a.Hits {
		h := &a.Hits[i]
		n := share[i] + carry // texts end between characters: what is over goes on
		text := *h.Content
		if len(text) > n {
			text = snippet.Cut(text, an, weights(explain[i]), n)
			h.Content, h.Snippet = nil, &text
		}
		carry = n - len(text)
		total += len(text)
		t := tokens(len(text))
		h.Tokens = &t
	}
	t := tokens(total)
	a.Tokens = &t
}

func tokens(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

// shares divides bytes among the hits: nobody gets more than it has, and what
// that leaves goes to the others alike. Hits that would get less than a line
// get nothing.
func shares(hits []recalled, bytes int) []int {
	const line = 64
	share := make([]int, len(hits))
	n := max(1, min(len(hits), bytes/line))
	open := make([]int, 0, n)
	for i := range hits[:min(n, len(hits))] {
		open = append(open, i)
	}
	for len(open) > 0 {
		each := bytes / len(open)
		var rest []int
		for _, i := range open {
			if size := len(*hits[i].Content); size <= each {
				share[i] = size
				bytes -= size
			} else {
				rest = append(rest, i)
			}
		}
		if len(rest) == len(open) {
			for k, i := range open {
				share[i] = each
				if k < bytes%len(open) {
					share[i]++
				}
			}
			return share
		}
		open = rest
	}
	return share
}

// weights are the terms of an explanation and what they count for.
func weights(e bm25.Explanation) map[string]float64 {
	w := make(map[string]float64, len(e.Terms))
	for _, t := range e.Terms {
		w[t.Term] = t.IDF
	}
	return w
}

// oneLine is text with its white space made single blanks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
