package bm25_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25"
	"crabmem/fuzz/race"
)

// pairLines returns the lines of a file of testdata/pairs.
func pairLines(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/pairs/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// TestPairs searches a store of 30 notes for a word that one of them contains in another
// form, or that one contains a similar word of: everyday forms meet, other words do not.
// Readers who did not know the rules wrote the files: "# kind", then query, tab, and note. The
// unseen ones were written after the rules, whose figures they give.
func TestPairs(t *testing.T) {
	race.Skip(t)
	filler := pairLines(t, "filler.txt")[:29]
	for _, c := range []struct {
		file        string
		least, most int // percent of the pairs that meet
	}{{"meet.txt", 85, 100}, {"apart.txt", 0, 3}, {"unseen-meet.txt", 85, 100}, {"unseen-apart.txt", 0, 8}} {
		kind, all := "", 0
		var met, others []string
		for _, line := range pairLines(t, c.file) {
			query, note, ok := strings.Cut(line, "\t")
			if !ok {
				kind = strings.TrimPrefix(line, "# ")
				continue
			}
			var texts [][]string
			for _, text := range append(filler[:29:29], note) {
				texts = append(texts, []string{text})
			}
			l := newLibrary(t, texts...)
			r := l.x.Search(l.query(query, 0))
			all++
			line = fmt.Sprintf("%s: %s in %q", kind, query, note)
			if slices.ContainsFunc(r.Hits, func(h bm25.Hit) bool { return h.ID == 30 }) {
				met = append(met, line)
			} else {
				others = append(others, line)
			}
		}
		t.Logf("%s: %d of %d pairs meet", c.file, len(met), all)
		if n := 100 * len(met); n < c.least*all || n > c.most*all {
			wrong := others
			if c.least == 0 {
				wrong = met
			}
			t.Errorf("%s: %d of %d pairs meet, want %d to %d %%:\n%s", c.file, len(met), all, c.least, c.most, strings.Join(wrong, "\n"))
		}
	}
}
