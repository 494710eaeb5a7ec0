package crmem_test

import (
	"slices"
	"testing"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/metadata"
)

// linkedStore returns a store of a day in 2026, whose index is built before or after
// the writes.
func linkedStore(t *testing.T, indexed bool) *crmem.Store {
	now := time.Date(2026, 4, 14, 12, 0, 0, 0, time.UTC)
	s := crmem.New(&crmem.Options{Now: func() time.Time { now = now.Add(time.Hour); return now }})
	t.Cleanup(func() { s.Close() })
	if indexed {
		hitNames(t, s, crmem.Query{Text: "rope"})
	}
	for _, e := range []struct{ name, content string }{
		{"v1", "rope rope rope on the quay"},
		{"v2", "---\ntype: decision\ntags: [infra]\nsupersedes: \"[[v1]]\"\ncrabmem: 1\n---\na long text about the harbor, with a rope somewhere near its end"},
		{"v3", "---\nsupersedes: \"[[second]]\"\nimportance: 0.9\ncrabmem: 1\n---\nanother long text about tides, ships and sails, and one rope of many, see [[chart]]"},
		{"foreign", "---\nsupersedes: \"[[plain]]\"\nexpires: 2020-01-01\n---\nrope in a text of another program, longer than most"},
		{"plain", "rope and tide"},
		{"gone", "---\nexpires: 2026-04-13\ncrabmem: 1\n---\nrope rope rope rope"},
		{"today", "---\nexpires: 2026-04-15\ntags: [infra, Release]\ncrabmem: 1\n---\nrope rope"},
		{"rival", "---\ncontradicts: \"[[plain]]\"\n---\nno rope at all, said the keeper of the lighthouse"},
		{"chart", "a map"},
	} {
		var aliases []string
		if e.name == "v2" {
			aliases = []string{"second"}
		}
		_, err := s.Remember(e.name, e.content, aliases)
		ok(t, err)
	}
	return s
}

// TestSuccessorsRankFirst checks the order and the marks of hits with relations, with
// every limit.
func TestSuccessorsRankFirst(t *testing.T) {
	for _, indexed := range []bool{false, true} {
		s := linkedStore(t, indexed)
		all := hitNames(t, s, crmem.Query{Text: "rope"})
		at := func(name string) int { return slices.Index(all, name) }
		if len(all) != 8 || at("v3") != 0 || at("v2") != 1 || at("v1") != 2 || at("gone") != 7 || at("foreign") < at("plain") {
			t.Errorf("hits %q", all)
		}
		for limit := 1; limit <= 9; limit++ {
			r, err := s.Search(t.Context(), crmem.Query{Text: "rope", Limit: limit, Count: true, Explain: true})
			ok(t, err)
			if len(r.Hits) != min(limit, 8) || r.Total != 8 || len(r.Explanations) != len(r.Hits) {
				t.Fatalf("limit %d: %d hits of %d", limit, len(r.Hits), r.Total)
			}
			for i, h := range r.Hits {
				if h.Name != all[i] || r.Explanations[i].Score != h.Score || r.Explanations[i].ID != h.ID {
					t.Errorf("limit %d: hit %d is %s, want %s", limit, i, h.Name, all[i])
				}
				want := map[string][]string{"v1": {"superseded by v2"}, "v2": {"superseded by v3"}, "plain": {"contradicts rival"}, "rival": {"contradicts plain"},
					"gone": {"expired 2026-04-13"}}[h.Name]
				if got := h.Marks.Notes(); !slices.Equal(got, want) {
					t.Errorf("%s: marks %q, want %q", h.Name, got, want)
				}
			}
		}
		// Without the successor, its predecessor is a hit like others.
		if got := hitNames(t, s, crmem.Query{Text: "quay"}); !slices.Equal(got, []string{"v1"}) {
			t.Errorf("quay: %q", got)
		}
		if got := hitNames(t, s, crmem.Query{Text: "rope", Analyzer: analysis.Plain}); slices.Index(got, "gone") == 7 {
			t.Errorf("plain: %q", got)
		}
		// After a change, and after a removal.
		_, _, err := s.Overwrite(crmem.Remember{Name: "gone", Content: "rope rope rope rope", Metadata: &metadata.Edit{Set: []metadata.Field{{Key: "expires"}}}})
		ok(t, err)
		ok(t, s.Forget("v3"))
		if got := hitNames(t, s, crmem.Query{Text: "rope"}); slices.Index(got, "v2")+1 != slices.Index(got, "v1") || slices.Index(got, "gone") == len(got)-1 {
			t.Errorf("after changes: %q", got)
		}
	}
}

// TestMutualSuccessors checks that each hit of a cycle is returned once.
func TestMutualSuccessors(t *testing.T) {
	s := crmem.New(nil)
	defer s.Close()
	for a, b := range map[string]string{"a": "b", "b": "c", "c": "a", "d": "a", "e": "e"} {
		_, err := s.Remember(a, "---\nsupersedes: \"[["+b+"]]\"\ncrabmem: 1\n---\nrope", nil)
		ok(t, err)
	}
	got := hitNames(t, s, crmem.Query{Text: "rope"})
	if slices.Sort(got); !slices.Equal(got, []string{"a", "b", "c", "d", "e"}) {
		t.Errorf("hits %q", got)
	}
}

// TestFilters checks that each filter applies before the limit.
func TestFilters(t *testing.T) {
	s := linkedStore(t, false)
	created := func(name string) uint64 {
		e, err := s.Get(name)
		ok(t, err)
		return uint64(e.CreatedAt)
	}
	for _, row := range []struct {
		what string
		q    crmem.Query
		want []string
	}{
		{"type", crmem.Query{Filter: crmem.Filter{Type: "Decision"}}, []string{"v2"}},
		{"tag", crmem.Query{Filter: crmem.Filter{Tags: []string{"infra"}}}, []string{"today", "v2"}},
		{"tags", crmem.Query{Filter: crmem.Filter{Tags: []string{"release", "infra"}}}, []string{"today"}},
		{"key", crmem.Query{Filter: crmem.Filter{Fields: []metadata.Field{{Key: "importance", Values: []string{"0.9"}}}}}, []string{"v3"}},
		{"after", crmem.Query{Filter: crmem.Filter{After: created("rival")}}, []string{"rival"}},
		{"before", crmem.Query{Filter: crmem.Filter{Before: created("v2")}}, []string{"v1"}},
		{"recent", crmem.Query{Sort: crmem.ByRecent, Filter: crmem.Filter{After: created("today")}}, []string{"rival", "today"}},
		{"important", crmem.Query{Sort: crmem.ByImportant, Filter: crmem.Filter{Tags: []string{"infra"}}}, []string{"v2", "today"}},
		{"none", crmem.Query{Filter: crmem.Filter{Type: "goal"}}, []string{}},
	} {
		for limit := 1; limit <= 3; limit++ {
			row.q.Text, row.q.Limit = "rope", limit
			if got := hitNames(t, s, row.q); !slices.Equal(got, row.want[:min(limit, len(row.want))]) {
				t.Errorf("%s, limit %d: %q, want %q", row.what, limit, got, row.want)
			}
		}
	}
	all, err := s.Search(t.Context(), crmem.Query{Text: "rope"})
	ok(t, err)
	best := 0.0
	for _, h := range all.Hits {
		best = max(best, h.Score)
	}
	for _, share := range []float64{0.2, 0.5, 0.9, 1} {
		r, err := s.Search(t.Context(), crmem.Query{Text: "rope", MinShare: share})
		ok(t, err)
		want := 0
		for _, h := range all.Hits {
			if h.Score >= share*best {
				want++
			}
		}
		if len(r.Hits) != want || want == 0 {
			t.Errorf("share %v: %d hits, want %d", share, len(r.Hits), want)
		}
	}
}

// TestExpand checks the entries that hits link to.
func TestExpand(t *testing.T) {
	s := linkedStore(t, false)
	r, err := s.Search(t.Context(), crmem.Query{Text: "sails", Limit: 1, Expand: 1, Explain: true})
	ok(t, err)
	var got []string
	for _, h := range r.Hits {
		got = append(got, h.Name)
	}
	if !slices.Equal(got, []string{"v3", "v2", "chart"}) || len(r.Explanations) != 3 || *r.Hits[1].Marks.Linked != (crmem.Linked{From: "v3", Relation: "supersedes"}) ||
		*r.Hits[2].Marks.Linked != (crmem.Linked{From: "v3", Relation: "related"}) {
		t.Errorf("hits %q", got)
	}
}
