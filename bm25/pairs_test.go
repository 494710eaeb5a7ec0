package bm25_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25"
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
// form, or that one contains a similar word of: everyday forms meet, other words do not. A
// reader who did not know the rules wrote the files: "# kind", then query, tab, and note.
func TestPairs(t *testing.T) {
	filler := pairLines(t, "filler.txt")[:29]
	met := func(file string) (all, found int, missed []string) {
		kind := ""
		for _, line := range pairLines(t, file) {
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
			if slices.ContainsFunc(r.Hits, func(h bm25.Hit) bool { return h.ID == 30 }) {
				found++
			}
			if slices.ContainsFunc(r.Hits, func(h bm25.Hit) bool { return h.ID == 30 }) == (file == "apart.txt") {
				missed = append(missed, fmt.Sprintf("%s: %s in %q", kind, query, note))
			}
		}
		return all, found, missed
	}
	all, found, missed := met("meet.txt")
	t.Logf("%d of %d pairs meet", found, all)
	if found*100 < all*85 {
		t.Errorf("%d of %d pairs meet, want 85 %%:\n%s", found, all, strings.Join(missed, "\n"))
	}
	all, found, missed = met("apart.txt")
	t.Logf("%d of %d pairs of other words meet", found, all)
	if found*100 > all*3 {
		t.Errorf("%d of %d pairs of other words meet, want at most 3 %%:\n%s", found, all, strings.Join(missed, "\n"))
	}
}
