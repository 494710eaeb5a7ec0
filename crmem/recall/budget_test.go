package recall

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/budget"
)

// TestBudget recalls with budgets of all sizes: names and texts never exceed
// the budget, and each hit has its text or a snippet with a match.
func TestBudget(t *testing.T) {
	words := []string{"harbour", "light", "tide", "канат", "潮汐", "bäcker", "rope", "x", "signal", "—"}
	rng := rand.New(rand.NewPCG(1, 2))
	s := crmem.New(nil)
	defer s.Close()
	for i := range 12 {
		var b strings.Builder
		for range 20 << (i % 6) {
			b.WriteString(words[rng.IntN(len(words))] + " ")
		}
		b.WriteString("lighthouse keeper")
		for range 10 * i {
			b.WriteString(" " + words[rng.IntN(len(words))])
		}
		if _, err := s.Remember(fmt.Sprint("entry ", i), b.String(), nil); err != nil {
			t.Fatal(err)
		}
	}
	q := crmem.Query{Text: "lighthouse"}
	for tokens := 1; tokens < 20000; tokens += 1 + tokens/3 {
		a, err := Search(context.Background(), s, q, Options{Weights: true})
		if err != nil || a.Total != 12 {
			t.Fatalf("%d hits, %v", a.Total, err)
		}
		a.Spend(tokens, q.Analyzer)
		if a.Budget != tokens || a.LeftOut != 12-len(a.Hits) || tokens > 200 && a.LeftOut > 0 {
			t.Errorf("budget %d: %+v", tokens, *a.Budgeted)
		}
		var all strings.Builder
		sum := 0
		for i, h := range a.Hits {
			if (h.Content == nil) == (h.Snippet == nil) {
				t.Fatalf("budget %d: hit %d has both texts or none", tokens, i)
			}
			text := ""
			if h.Content != nil {
				text = *h.Content
			} else if text = *h.Snippet; len(text) > 40 && !strings.Contains(text, "lighthouse") {
				t.Errorf("budget %d: hit %d: the snippet lacks the match: %q", tokens, i, text)
			}
			all.WriteString(h.Name + "\n" + text + "\n")
			sum += *h.Tokens
		}
		if a.Tokens != sum || sum > tokens || budget.Count(all.String()) > tokens {
			t.Errorf("budget %d: %d tokens, %d of the hits, %d of their texts", tokens, a.Tokens, sum, budget.Count(all.String()))
		}
	}
}
