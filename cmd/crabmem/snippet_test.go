package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"crabmem/bm25"
	"crabmem/crmem"
)

// TestBudget recalls with budgets of all sizes: the texts together never
// exceed the budget, fill it to 2 % where there is enough to fill it with, and
// the count is that of the bytes.
func TestBudget(t *testing.T) {
	words := []string{"harbour", "light", "tide", "канат", "潮汐", "bäcker", "rope", "x", "signal", "—"}
	rng := rand.New(rand.NewPCG(1, 2))
	s := crmem.New(nil)
	defer s.Close()
	total := 0
	for i := range 12 {
		var b strings.Builder
		for range 20 << (i % 6) {
			b.WriteString(words[rng.IntN(len(words))] + " ")
		}
		b.WriteString("lighthouse keeper")
		for range 300 {
			b.WriteString(" " + words[rng.IntN(len(words))])
		}
		if i == 3 {
			b.Reset()
			b.WriteString("lighthouse")
		}
		total += b.Len()
		if _, err := s.Remember(fmt.Sprint("entry ", i), b.String(), nil); err != nil {
			t.Fatal(err)
		}
	}
	q := crmem.Query{Text: "lighthouse", Count: true}
	r, err := s.Search(context.Background(), q)
	if err != nil || len(r.Hits) != 12 {
		t.Fatalf("%d hits, %v", len(r.Hits), err)
	}
	explain := make([]bm25.Explanation, len(r.Hits))
	for i, h := range r.Hits {
		explain[i], _, _ = s.Explain(context.Background(), q, h.ID)
	}
	for budget := 1; budget < 20000; budget += 1 + budget/7 {
		a := recallAnswer{Hits: make([]recalled, len(r.Hits))}
		for i, h := range r.Hits {
			a.Hits[i] = recalled{Name: h.Name, Content: &h.Entry.Content}
		}
		a.spend(budget, bm25.Standard, explain)
		bytes := 0
		for i, h := range a.Hits {
			if (h.Content == nil) == (h.Snippet == nil) {
				t.Fatalf("budget %d: hit %d has both texts or none", budget, i)
			}
			text := ""
			if h.Content != nil {
				text = *h.Content
			} else if text = *h.Snippet; len(text) > 40 && !strings.Contains(text, "lighthouse") {
				t.Errorf("budget %d: hit %d: the snippet misses what matched: %q", budget, i, text)
			}
			if !utf8.ValidString(text) {
				t.Errorf("budget %d: hit %d is not UTF-8", budget, i)
			}
			if *h.Tokens != tokens(len(text)) {
				t.Errorf("budget %d: hit %d: %d tokens for %d bytes", budget, i, *h.Tokens, len(text))
			}
			bytes += len(text)
		}
		if *a.Tokens != tokens(bytes) || *a.Tokens > budget {
			t.Errorf("budget %d: %d tokens for %d bytes", budget, *a.Tokens, bytes)
		}
		if want := min(budget*bytesPerToken, total); budget >= 50 && bytes < want*98/100 {
			t.Errorf("budget %d: only %d of %d bytes", budget, bytes, want)
		}
	}
}
