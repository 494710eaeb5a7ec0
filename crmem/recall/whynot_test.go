package recall

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"crabmem/crmem"
)

// TestWhyNotRank compares the rank of --why-not with a search of that limit,
// whose last hit must be the entry.
func TestWhyNotRank(t *testing.T) {
	compareRanks(t, "../../testdata/recall/cases", 1000, 1000)
	compareRanks(t, "../../testdata/recall/conversations", 200, 20)
}

// compareRanks is TestWhyNotRank for the cases of dir. It expects least numbers of ranks
// and of entries that do not match.
func compareRanks(t *testing.T, dir string, ranks, missing int) {
	s := crmem.New(nil)
	var names []string
	for line := range strings.Lines(read(t, dir+"/store.jsonl")) {
		var e crmem.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(crmem.Add{Name: e.Name, Content: e.Content, Aliases: e.Aliases, Kind: e.Kind}); err != nil {
			t.Fatal(err)
		}
		names = append(names, e.Name)
	}
	ranked, absent := 0, 0
	for i, line := range strings.Split(read(t, dir+"/cases.tsv"), "\n") {
		fields := strings.Split(line, "\t")
		if len(fields) < 3 || len(fields[1]) > 2000 {
			continue
		}
		all, err := s.Search(t.Context(), crmem.Query{Text: fields[1]})
		if err != nil {
			t.Fatal(err)
		}
		for k := range 8 {
			q := crmem.Query{Text: fields[1], Limit: 5}
			name := names[(i*31+k*7)%len(names)]
			if n := len(all.Hits); k < 5 && k < n {
				name = all.Hits[k*(n-1)/4].Entry.Name
			}
			w, err := whyNot(t.Context(), s, q, name)
			if err != nil {
				t.Fatal(err)
			}
			q.Limit = w.Rank
			r, err := s.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if w.Rank > 0 {
				ranked++
				if last := r.Hits[len(r.Hits)-1]; len(r.Hits) != w.Rank || last.Entry.Name != name || last.Score != w.Score || w.Explain.Score != w.Score {
					t.Errorf("%.80q: %s: why-not reports match %d with %v; the search has %s there with %v", fields[1], name, w.Rank, w.Score, last.Entry.Name, last.Score)
				}
				continue
			}
			absent++
			for _, h := range r.Hits {
				if h.Entry.Name == name {
					t.Errorf("%.80q: %s: why-not reports no match", fields[1], name)
				}
			}
		}
	}
	if ranked < ranks || absent < missing {
		t.Errorf("%d ranks, %d entries that do not match: too few to say anything", ranked, absent)
	}
	t.Logf("--why-not: %d ranks as in the full ranking, %d entries that do not match", ranked, absent)
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
