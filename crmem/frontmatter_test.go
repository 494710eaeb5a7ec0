package crmem_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/metadata"
)

// hitNames returns the names of the hits of a query, best first.
func hitNames(t *testing.T, s *crmem.Store, q crmem.Query) []string {
	t.Helper()
	r, err := s.Search(t.Context(), q)
	ok(t, err)
	list := []string{}
	for _, h := range r.Hits {
		list = append(list, h.Name)
	}
	return list
}

// TestFrontMatterInIndex checks which words of front matter an index contains, after
// a build and after changes.
func TestFrontMatterInIndex(t *testing.T) {
	const front = "---\ntype: decision\ntags: [harbor, 'tide table']\nsupersedes: \"[[lighthouse|old one]]\"\nplace:\n- quay\ncrabmem: 1\n---\n"
	s := crmem.New(nil)
	defer s.Close()
	add := func(name, content string) {
		_, err := s.Remember(name, content, nil)
		ok(t, err)
	}
	add("built", front+"rope")
	for _, name := range []string{"built", "changed"} {
		for query, want := range map[string]struct{ standard, plain bool }{
			"decision": {true, true}, "harbor": {true, true}, "table": {true, true}, "lighthouse": {true, true}, "quay": {true, true}, "rope": {true, true}, "old": {true, true},
			"tags": {false, true}, "supersedes": {false, true}, "crabmem": {false, true}, "place": {false, true}, "nothing": {false, false},
		} {
			for a, want := range map[analysis.Analyzer]bool{analysis.Standard: want.standard, analysis.Plain: want.plain} {
				if got := hitNames(t, s, crmem.Query{Text: query, Analyzer: a}); slices.Contains(got, name) != want {
					t.Errorf("%s, %v: %q finds %q", name, a, query, got)
				}
			}
		}
		add("changed", front+"rope")
	}
	// Clauses search what the index contains.
	for query, want := range map[string][]string{
		`rope -tags`: {"built", "changed"}, `rope -harbor`: {}, `"tide table"`: {"built", "changed"}, `"type decision"`: {},
	} {
		if got := hitNames(t, s, crmem.Query{Text: query, Syntax: true}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if got := hitNames(t, s, crmem.Query{Text: `rope -tags`, Syntax: true, Analyzer: analysis.Plain}); len(got) != 0 {
		t.Errorf("plain: %q", got)
	}
}

// TestTagsWeighLikeNames checks that a word has the same score as a tag, as the
// target of a relation, and as an alias, and a lower one as another value, which
// follows the text.
func TestTagsWeighLikeNames(t *testing.T) {
	s := crmem.New(nil)
	defer s.Close()
	text := strings.Repeat("coil of rope on the quay ", 8)
	for _, e := range []struct{ name, content, alias string }{
		{"a", "---\ntags: [beacon]\n---\n" + text, ""}, {"b", "---\npart_of: \"[[beacon]]\"\n---\n" + text, ""},
		{"c", text, "beacon"}, {"d", "---\nsource: beacon\n---\n" + text, ""}, {"e", text + "beacon", ""},
	} {
		aliases := []string{}
		if e.alias != "" {
			aliases = append(aliases, e.alias)
		}
		_, err := s.Remember(e.name, e.content, aliases)
		ok(t, err)
	}
	// Without the bonus for the name of the entry.
	r, err := s.Search(t.Context(), crmem.Query{Text: "beacon light"})
	ok(t, err)
	score := map[string]float64{}
	for _, h := range r.Hits {
		score[h.Name] = h.Score
	}
	if len(score) != 5 || score["a"] != score["c"] || score["b"] != score["c"] || score["d"] != score["e"] || score["d"] >= score["a"] {
		t.Errorf("scores %v", score)
	}
	for _, h := range r.Hits {
		x, _, err := s.Explain(t.Context(), crmem.Query{Text: "beacon light"}, h.ID)
		if err != nil || x.Score != h.Score {
			t.Errorf("%s: explained as %v, score %v, %v", h.Name, x.Score, h.Score, err)
		}
	}
}

// TestPlainIgnoresFrontMatter compares the plain analyzer's scores of contents with
// front matter with those of the same words without it.
func TestPlainIgnoresFrontMatter(t *testing.T) {
	with, without := crmem.New(nil), crmem.New(nil)
	defer with.Close()
	defer without.Close()
	for i := range 20 {
		content := fmt.Sprintf("---\ntype: kind%d\ntags: [rope, quay%d]\n---\nrope %s", i%3, i, strings.Repeat("tide ", i))
		_, err := with.Remember(fmt.Sprint(i), content, nil)
		ok(t, err)
		_, err = without.Remember(fmt.Sprint(i), strings.ReplaceAll(content, "---", "+++"), nil)
		ok(t, err)
	}
	for _, text := range []string{"rope", "tags", "type kind1", "tide quay7"} {
		q := crmem.Query{Text: text, Analyzer: analysis.Plain}
		a, err := with.Search(t.Context(), q)
		ok(t, err)
		b, err := without.Search(t.Context(), q)
		ok(t, err)
		if len(a.Hits) == 0 || !slices.EqualFunc(a.Hits, b.Hits, func(x, y crmem.Hit) bool { return x.ID == y.ID && x.Score == y.Score }) {
			t.Errorf("%s: %v, without front matter %v", text, a.Hits, b.Hits)
		}
	}
}

// TestConcurrentMetadata changes one note from several goroutines: each sets a key of
// its own, and another one replaces the text. No metadata is lost.
func TestConcurrentMetadata(t *testing.T) {
	s := crmem.New(nil)
	defer s.Close()
	const writers, rounds = 8, 50
	var wg sync.WaitGroup
	errs := make(chan error, writers+1)
	for i := range writers + 1 {
		wg.Go(func() {
			for round := range rounds {
				e := &metadata.Edit{}
				if i < writers {
					e.Set = []metadata.Field{{Key: fmt.Sprint("key", i), Values: []string{fmt.Sprint(round)}}}
				}
				if _, _, err := s.Overwrite(crmem.Remember{Name: "a", Content: fmt.Sprint("text ", i), Metadata: e}); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	e, err := s.Get("a")
	ok(t, err)
	m, body, _ := metadata.Parse(e.Content)
	for i := range writers {
		if got := m.Values(fmt.Sprint("key", i)); !slices.Equal(got, []string{fmt.Sprint(rounds - 1)}) {
			t.Errorf("key%d: %q", i, got)
		}
	}
	if !m.Adopted() || !strings.HasPrefix(e.Content[body:], "text ") {
		t.Errorf("content %q", e.Content)
	}
}

// TestMetadataLimits checks that a change beyond a limit changes nothing, and that
// operations without metadata are literal.
func TestMetadataLimits(t *testing.T) {
	s := crmem.New(nil)
	defer s.Close()
	set := func(key string, bytes int) error {
		_, _, err := s.Overwrite(crmem.Remember{Name: "a", Content: "text", Metadata: &metadata.Edit{Set: []metadata.Field{{Key: key, Values: []string{strings.Repeat("x", bytes)}}}}})
		return err
	}
	ok(t, set("a", 3000))
	before, err := s.Get("a")
	ok(t, err)
	for _, bytes := range []int{2000, 5000} { // too much with a, and alone
		err := set("b", bytes)
		after, gerr := s.Get("a")
		if ok(t, gerr); !errors.Is(err, crmem.ErrInvalid) || !after.Equal(before) {
			t.Errorf("%d bytes: %v, content of %d bytes", bytes, err, len(after.Content))
		}
	}
	if e, err := s.Remember("a", "text", nil); err != nil || e.Content != "text" {
		t.Errorf("literal: %q, %v", e.Content, err)
	}
	ok(t, s.Apply(crmem.Add{Name: "archive", Kind: crmem.Archive}))
	if _, _, err := s.Overwrite(crmem.Remember{Name: "archive", Metadata: &metadata.Edit{}}); !errors.Is(err, crmem.ErrKind) {
		t.Errorf("archive: %v", err)
	}
}
