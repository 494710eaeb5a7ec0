package crmem_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
)

// The golden files were written by the reference implementation of the format.

var goldenStores = []string{"empty", "basic", "unicode", "history", "thousand"}

func goldenFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", "golden", "crmem", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGoldenFiles: every NAME.db is one of goldenStores, and the other way.
func TestGoldenFiles(t *testing.T) {
	found, err := filepath.Glob(filepath.Join("..", "testdata", "golden", "crmem", "*.db"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, strings.TrimSuffix(filepath.Base(f), ".db"))
	}
	slices.Sort(got)
	want := slices.Sorted(slices.Values(goldenStores))
	if !slices.Equal(got, want) {
		t.Fatalf("golden stores %q, want %q", got, want)
	}
}

func TestGoldenEntries(t *testing.T) {
	total := 0
	for _, name := range goldenStores {
		db := goldenFile(t, name+".db")
		var want []crmem.Entry
		if err := json.Unmarshal(goldenFile(t, name+".json"), &want); err != nil {
			t.Fatal(err)
		}
		s, err := crmem.Decode(db)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := slices.Collect(s.All()); !slices.EqualFunc(got, want, crmem.Entry.Equal) {
			t.Errorf("%s: the entries are not those of the JSON", name)
		}
		total += len(want)
		if b, err := s.AppendBinary(nil); err != nil || !bytes.Equal(b, db) {
			t.Errorf("%s: re-encoding gives other bytes (%v)", name, err)
		}
		// The same entries, from the JSON.
		again, err := crmem.NewSnapshot(s.NextID, want)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if b, err := again.AppendBinary(nil); err != nil || !bytes.Equal(b, db) {
			t.Errorf("%s: encoding the JSON gives other bytes (%v)", name, err)
		}
	}
	if total < 1013 {
		t.Errorf("%d entries compared, want 1013", total)
	}
}

// TestGoldenScores searches as the reference did. The order of equal scores is
// unspecified there, so hits are compared as names and scores.
func TestGoldenScores(t *testing.T) {
	queries, hits := 0, 0
	for _, name := range goldenStores {
		if name == "empty" {
			continue // it has no questions
		}
		var want []struct {
			Query string `json:"query"`
			Hits  []struct {
				Name  string  `json:"name"`
				Score float64 `json:"score"`
			} `json:"hits"`
		}
		if err := json.Unmarshal(goldenFile(t, name+".hits.json"), &want); err != nil {
			t.Fatal(err)
		}
		path := Place(t, map[string][]byte{"db": goldenFile(t, name+".db")})
		s, err := crmem.Open(path, &crmem.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range want {
			queries++
			r, err := s.Search(t.Context(), crmem.Query{Text: q.Query, Analyzer: analysis.Plain})
			if err != nil {
				t.Fatal(err)
			}
			scores := map[string]float64{}
			for i, h := range r.Hits {
				scores[h.Entry.Name] = h.Score
				if i > 0 {
					p := r.Hits[i-1]
					if p.Score < h.Score || p.Score == h.Score && p.Entry.ID >= h.Entry.ID {
						t.Errorf("%s: %q: hit %d is out of order", name, q.Query, i)
					}
				}
			}
			if min(len(r.Hits), 10) != len(q.Hits) {
				t.Errorf("%s: %q: %d hits, want %d", name, q.Query, len(r.Hits), len(q.Hits))
			}
			for i, h := range q.Hits {
				hits++
				// Equal scores may be cut at another entry; the ranks agree.
				if d := scores[h.Name] - h.Score; d > 1e-9 || d < -1e-9 {
					t.Errorf("%s: %q: %s has score %.12f, want %.12f", name, q.Query, h.Name, scores[h.Name], h.Score)
				}
				if i < len(r.Hits) {
					if d := r.Hits[i].Score - h.Score; d > 1e-9 || d < -1e-9 {
						t.Errorf("%s: %q: hit %d has score %.12f, want %.12f", name, q.Query, i, r.Hits[i].Score, h.Score)
					}
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if queries != 17 || hits != 63 {
		t.Errorf("%d queries and %d hits compared", queries, hits)
	}
	t.Logf("golden: %d queries, %d hits", queries, hits)
}

func TestHitAsJSON(t *testing.T) {
	b, err := json.Marshal([]crmem.Hit{{Entry: crmem.Entry{ID: 1, Name: "a"}, Score: 0.5}, {Entry: crmem.Entry{ID: 2, Name: "b", Aliases: []string{"x"}}}})
	const want = `[{"id":1,"name":"a","kind":"note","created_at":"1970-01-01T00:00:00Z","content":"","bytes":0,"aliases":[],"score":0.5},` +
		`{"id":2,"name":"b","kind":"note","created_at":"1970-01-01T00:00:00Z","content":"","bytes":0,"aliases":["x"],"score":0}]`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v\nwant %s", b, err, want)
	}
}
