package recall

import (
	"strings"
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
)

// TestSnippetsHideFrontMatter checks that no snippet contains front matter, also if
// front matter contains the match, and that a complete content does.
func TestSnippetsHideFrontMatter(t *testing.T) {
	const front = "---\ntype: decision\ntags: [lighthouse]\n---\n"
	s := crmem.New(nil)
	defer s.Close()
	contents := make(map[string]string)
	for name, text := range map[string]string{
		"short": front + "rope and tide", "long": front + strings.Repeat("rope and tide ", 200), "match": front + strings.Repeat("rope and tide ", 100) + "lighthouse",
	} {
		contents[name] = text
		if _, err := s.Remember(name, text, nil); err != nil {
			t.Fatal(err)
		}
	}
	snippets, complete := 0, 0
	for tokens := 30; tokens < 4000; tokens += 1 + tokens/5 {
		a, err := Search(t.Context(), s, crmem.Query{Text: "lighthouse decision"}, Options{Weights: true})
		if err != nil {
			t.Fatal(err)
		}
		a.Spend(tokens, analysis.Standard)
		for _, h := range a.Hits {
			if h.Content != nil {
				complete++
				if *h.Content != contents[h.Name] {
					t.Errorf("%d tokens: the content of %s is %q", tokens, h.Name, *h.Content)
				}
				continue
			}
			snippets++
			if strings.Contains(*h.Snippet, "---") || strings.Contains(*h.Snippet, "tags") {
				t.Errorf("%d tokens: the snippet of %s is %q", tokens, h.Name, *h.Snippet)
			}
		}
	}
	if snippets < 10 || complete < 10 {
		t.Errorf("%d snippets, %d complete contents", snippets, complete)
	}
	a, err := Search(t.Context(), s, crmem.Query{Text: "lighthouse decision"}, Options{Weights: true, Explain: true})
	if err != nil || len(a.Hits) != 3 {
		t.Fatalf("%d hits, %v", len(a.Hits), err)
	}
	for _, h := range a.Hits {
		for _, n := range []int{20, 240, 4000} {
			if cut := h.Cut(analysis.Standard, n); strings.Contains(cut, "---") || len(cut) > n {
				t.Errorf("cut of %s: %q", h.Name, cut)
			}
		}
		for _, line := range h.Explain.Terms {
			if line.Field != "metadata" {
				t.Errorf("%s: the field of %s is %q", h.Name, line.Term, line.Field)
			}
		}
	}
}
