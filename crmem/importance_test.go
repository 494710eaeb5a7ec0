package crmem

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// weighed is the time of the tests of importance.
var weighed = time.Unix(1_000_000_000, 0)

// weighedStore returns a store with a weight at the time weighed.
func weighedStore(weight float64) *Store {
	return New(&Options{ImportanceWeight: weight, HalfLife: 10 * 24 * time.Hour, CountReads: true, Now: func() time.Time { return weighed }})
}

func searched(t *testing.T, s *Store, q Query) []Hit {
	t.Helper()
	r, err := s.Search(context.Background(), q)
	noErr(t, err)
	return r.Hits
}

// importanceOf returns the importance of the entry a.
func importanceOf(t *testing.T, s *Store) Importance {
	t.Helper()
	for _, h := range searched(t, s, Query{Text: "word", Uncounted: true}) {
		if h.Name == "a" {
			return *h.Importance
		}
	}
	t.Fatal("a is not found")
	return Importance{}
}

// TestImportanceParts checks each part of the importance of an entry.
func TestImportanceParts(t *testing.T) {
	const days = 24 * 3600
	at := uint64(weighed.Unix())
	for _, c := range []struct {
		what          string
		content       string
		created       uint64
		reads, linked int
		want          Importance
	}{
		{"new", "word", at, 0, 0, Importance{Explicit: 0.5, Recency: 1}},
		{"of the future", "word", at + 5, 0, 0, Importance{Explicit: 0.5, Recency: 1}},
		{"half-life", "word", at - 10*days, 0, 0, Importance{Explicit: 0.5, Recency: 0.5}},
		{"two half-lives", "word", at - 20*days, 0, 0, Importance{Explicit: 0.5, Recency: 0.25}},
		{"very old", "word", 0, 0, 0, Importance{Explicit: 0.5}},
		{"type", "---\ntype: decision\n---\nword", at - 10*days, 0, 0, Importance{Explicit: 0.7, Recency: 0.5}},
		{"explicit", "---\ntype: decision\nimportance: 0.1\n---\nword", at - 10*days, 0, 0, Importance{Explicit: 0.1, Recency: 0.5}},
		{"identity", "---\ntype: Identity\n---\nword", 0, 0, 0, Importance{Explicit: 0.9, Recency: 1}},
		{"read", "word", 0, 10, 0, Importance{Explicit: 0.5, Access: 0.5, Recency: 1}},
		{"linked", "word", at, 0, 3, Importance{Explicit: 0.5, Recency: 1, Links: 0.5}},
	} {
		s := weighedStore(0.3)
		noErr(t, s.Apply(Restore{Entry: Entry{ID: 1, Name: "a", CreatedAt: UnixTime(c.created), Content: c.content, Aliases: []string{"alias"}}}))
		for i := range c.linked {
			noErr(t, s.Apply(Add{Name: fmt.Sprint("l", i), Content: "see [[a]], [[alias]], and [[none]]"}))
		}
		for range c.reads {
			_, err := s.Get("a")
			noErr(t, err)
		}
		c.want.Value = 0.4*c.want.Explicit + 0.2*c.want.Access + 0.2*c.want.Recency + 0.2*c.want.Links
		c.want.Weight, c.want.Factor = 0.3, 1+0.3*c.want.Value
		got := importanceOf(t, s)
		if c.what == "very old" && got.Recency < 1e-9 {
			got.Recency, got.Value, got.Factor = 0, c.want.Value, c.want.Factor
		}
		if fmt.Sprintf("%.12f", got) != fmt.Sprintf("%.12f", c.want) {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
	s := weighedStore(1)
	noErr(t, s.Apply(Add{Name: "a", Content: "word [[a]]"}, Add{Name: "b", Content: "[[a]]"}, Add{Name: "c", Content: "[[a]]"}))
	links := func() float64 { return importanceOf(t, s).Links }
	got := []float64{links()}
	noErr(t, s.Apply(Remove{Name: "c"}))
	got = append(got, links())
	noErr(t, s.Apply(Update{Name: "b", Content: "[[alias]]"}))
	got = append(got, links())
	noErr(t, s.Apply(Alias{Name: "a", Aliases: []string{"alias"}}))
	got = append(got, links())
	if want := []float64{0.4, 0.25, 0, 0.25}; !slices.Equal(got, want) {
		t.Errorf("links after changes: %v, want %v", got, want)
	}
}

// TestImportanceOrder compares rankings of random stores with scores that are
// multiplied and sorted here. Each limit gives the first hits of that order.
func TestImportanceOrder(t *testing.T) {
	race.Skip(t)
	moved := 0
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 20 + r.IntN(600)
		var ops []Op
		for i := range n {
			text := "word other"
			if seed%2 > 0 { // else many have the same score
				text = strings.Repeat("word ", 1+r.IntN(4)) + strings.Repeat("other ", r.IntN(6))
			}
			if r.IntN(3) == 0 {
				text += fmt.Sprintf("[[e%d]]", r.IntN(n))
			}
			text = fmt.Sprintf("---\nimportance: %.2f\n---\n%s", r.Float64(), text)
			ops = append(ops, Restore{Entry: Entry{ID: uint64(i + 1), Name: fmt.Sprintf("e%d", i), CreatedAt: UnixTime(weighed.Unix() - r.Int64N(1<<22)), Content: text}})
		}
		weight := []float64{0.1, 0.3, 1}[r.IntN(3)]
		plain, s := weighedStore(0), weighedStore(weight)
		noErr(t, plain.Apply(ops...))
		noErr(t, s.Apply(ops...))
		q := Query{Text: "word other", Uncounted: true}
		before, all := searched(t, plain, q), searched(t, s, q)
		factors := map[uint64]float64{}
		for _, h := range all {
			if v := h.Importance.Value; v < 0 || v > 1 {
				t.Fatalf("seed %d: importance %v", seed, v)
			}
			factors[h.ID] = h.Importance.Factor
		}
		want := slices.Clone(before)
		for i := range want {
			if want[i].Importance != nil {
				t.Fatalf("seed %d: importance without a weight", seed)
			}
			want[i].Score *= factors[want[i].ID]
		}
		slices.SortFunc(want, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
		for _, limit := range []int{0, 1, 2, 5, 50, n, maxWeighed + 1} {
			q.Limit = limit
			got := searched(t, s, q)
			if first := len(want); limit > 0 && len(got) != min(limit, first) || limit == 0 && len(got) != first {
				t.Fatalf("seed %d, limit %d: %d hits", seed, limit, len(got))
			}
			for i, h := range got {
				if h.ID != want[i].ID || h.Score != want[i].Score {
					t.Fatalf("seed %d, limit %d: hit %d is %d with %v, want %d with %v", seed, limit, i, h.ID, h.Score, want[i].ID, want[i].Score)
				}
			}
		}
		for i := range want {
			if want[i].ID != before[i].ID {
				moved++
			}
		}
		// The analyzer of the reference ignores importance.
		q.Analyzer = analysis.Plain
		if a, b := searched(t, plain, q), searched(t, s, q); !slices.EqualFunc(a, b, func(a, b Hit) bool { return a.ID == b.ID && a.Score == b.Score && b.Importance == nil }) {
			t.Fatalf("seed %d: importance changes the analyzer plain", seed)
		}
	}
	if moved < 1000 {
		t.Errorf("%d hits moved", moved)
	}
}

// TestImportanceKeepsOrders searches entries with a successor and an expired one: marks
// and orders have precedence over importance.
func TestImportanceKeepsOrders(t *testing.T) {
	s := weighedStore(1)
	noErr(t, s.Apply(
		Restore{Entry: Entry{ID: 1, Name: "old", CreatedAt: UnixTime(weighed.Unix()), Content: "---\nimportance: 1\n---\nword"}},
		Restore{Entry: Entry{ID: 2, Name: "new", CreatedAt: 5, Content: "---\nimportance: 0\nsupersedes: '[[old]]'\ncrabmem: 1\n---\nword and other words in a long text"}},
		Restore{Entry: Entry{ID: 3, Name: "expired", CreatedAt: UnixTime(weighed.Unix()), Content: "---\nimportance: 1\nexpires: 2000-01-01\ncrabmem: 1\n---\nword"}},
		Restore{Entry: Entry{ID: 4, Name: "last", CreatedAt: 6, Content: "---\nimportance: 0\n---\na word in a very very very long text"}},
	))
	for by, want := range map[Sort]string{ByScore: "new old last expired", ByRecent: "new old last expired", ByImportant: "new old last expired"} {
		var names []string
		for _, h := range searched(t, s, Query{Text: "word", Sort: by, Uncounted: true}) {
			names = append(names, h.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("sorted by %q: %s, want %s", by, got, want)
		}
	}
}

// TestImportanceReadsCounts ranks by the counts that another process stored.
func TestImportanceReadsCounts(t *testing.T) {
	m, now := faultfs.NewMem(), int64(100)
	s, _ := counting(t, m, false, &now)
	noErr(t, s.Apply(Add{Name: "a", Content: "word"}, Add{Name: "b", Content: "word"}))
	for range 30 {
		_, err := s.Get("b")
		noErr(t, err)
	}
	noErr(t, s.Close())
	for weight, want := range map[float64]string{0: "a", 0.1: "b"} {
		s, err := Open("/m.db", &Options{FS: m, ReadOnly: true, ImportanceWeight: weight, Now: func() time.Time { return time.Unix(now, 0) }})
		noErr(t, err)
		hits := searched(t, s, Query{Text: "word", Limit: 1})
		if hits[0].Name != want || weight > 0 && hits[0].Importance.Access != 0.75 {
			t.Errorf("weight %v: %+v, want %s", weight, hits[0], want)
		}
		if s.ix[analysis.Standard].links != nil && weight == 0 {
			t.Error("links are collected without a weight")
		}
		noErr(t, s.Close())
	}
}
