package bm25_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
)

const (
	goldenDir = "../testdata/golden/crmem"
	// goldenError limits the difference of a score from the reference's, which has
	// 12 decimals in the files.
	goldenError = 1e-12
)

// TestGolden compares searches of the reference's stores under Plain with the hits
// that the reference computed.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(goldenDir + "/*.hits.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files in %s: %v", goldenDir, err)
	}
	queries, largest := 0, 0.0
	for _, file := range files {
		var entries []struct {
			ID      uint64
			Name    string
			Content string
			Aliases []string
		}
		readJSON(t, strings.TrimSuffix(file, ".hits.json")+".json", &entries)
		var want []struct {
			Query string
			Hits  []struct {
				Name  string
				Score float64
			}
		}
		readJSON(t, file, &want)
		x := bm25.New(analysis.Plain)
		names := map[uint64]string{}
		for _, e := range entries {
			names[e.ID] = e.Name
			x.Add(bm25.Doc{ID: e.ID, Fields: append([]string{e.Content}, e.Aliases...)})
		}
		for _, w := range want {
			queries++
			scores := map[string]float64{}
			for _, h := range x.Search(bm25.Query{Text: w.Query}).Hits {
				scores[names[h.ID]] = h.Score
			}
			got := x.Search(bm25.Query{Text: w.Query, Limit: 10}).Hits
			if len(got) != len(w.Hits) {
				t.Errorf("%s: %q: %d hits, want %d", file, w.Query, len(got), len(w.Hits))
				continue
			}
			for i, h := range w.Hits {
				largest = max(largest, math.Abs(scores[h.Name]-h.Score))
				if math.Abs(scores[h.Name]-h.Score) > goldenError {
					t.Errorf("%s: %q: %s scores %.12f, want %.12f", file, w.Query, h.Name, scores[h.Name], h.Score)
				}
				if math.Abs(got[i].Score-h.Score) > goldenError {
					t.Errorf("%s: %q: hit %d scores %.12f, want %.12f", file, w.Query, i, got[i].Score, h.Score)
				}
			}
		}
	}
	if queries < 12 {
		t.Errorf("%d golden queries, want at least 12", queries)
	}
	t.Logf("%d queries, scores differ by at most %.1e", queries, largest)
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
