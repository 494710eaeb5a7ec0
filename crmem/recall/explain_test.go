package recall

import (
	"strings"
	"testing"

	"crabmem/bm25"
	"crabmem/crmem"
	"crabmem/crmem/fusion"
)

// TestLines describes each kind of line, in calculation order.
func TestLines(t *testing.T) {
	cosine := 0.5
	x := Explanation{
		Score: 2, Near: []bm25.Near{{Terms: [2]string{"a", "b"}, Distance: 3, Contribution: 0.25}}, Named: 1.5,
		Boosts: []bm25.Boost{{Name: "n", Terms: []string{"c", "d"}, Weight: 1.2, Contribution: 0.75}},
		Prior:  0.7, Conversation: 0.125, Date: 1.1,
		Importance: &crmem.Importance{Explicit: 1, Access: 0.25, Recency: 0.75, Links: 0.5, Value: 0.6, Weight: 0.5, Factor: 1.3},
		Fused:      &fusion.Fused{Weight: 0.5, Words: 1, Meaning: 0.5, Cosine: &cosine}, Decay: 0.9,
		Diversity: &crmem.Diversity{Relevance: 0.8, Similarity: 0.3, Value: 0.4},
	}
	var got []string
	sum := 0.0
	for _, l := range x.Lines() {
		got = append(got, l.Label+"|"+l.Place+"|"+l.Text)
		sum += l.Value
	}
	want := []string{
		"a near b||near: a, b at distance 3: 0.250",
		"exact name||exact name match: 1.500",
		"c, d|neighbor n|neighbor n: c, d: 0.750 with weight 1.200",
		"||message of an assistant: × 0.700",
		"conversation||conversation: 0.125",
		"||time in the query: × 1.100",
		"||importance: explicit 1.00, access 0.25, recency 0.75, links 0.50: 0.600; with weight 0.5: 2.000 × 1.300 = 2.600",
		"||words 1.000, meaning 0.500 (cosine 0.500), weight of meaning 0.5: 0.750",
		"||age: × 0.900",
		"||diversity: score 0.800 of the best, similarity 0.300: 0.400",
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b || sum != 2.625 {
		t.Errorf("sum %g, lines\n%s\nwant\n%s", sum, a, b)
	}
	x = Explanation{Prior: 1, Fused: &fusion.Fused{}}
	if lines := x.Lines(); len(lines) != 1 || !strings.Contains(lines[0].Text, "no vector") {
		t.Errorf("%+v", lines)
	}
	for want, term := range map[string]Term{"": {Field: "name"}, "alias, word 2": {Field: "alias", Place: 2}} {
		if got := term.Where(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
