package bm25_test

import (
	"fmt"
	"strings"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"

	"github.com/google/go-cmp/cmp"
)

// TestVocabularyShrinks checks that an index drops the terms of removed documents.
func TestVocabularyShrinks(t *testing.T) {
	race.Skip(t)
	for _, a := range []analysis.Analyzer{analysis.Plain, analysis.Standard} {
		x := bm25.New(a)
		x.Add(bm25.Doc{ID: 1, Fields: []string{"what stays"}})
		most := int64(0)
		for i := range uint64(1500) {
			var b strings.Builder
			for k := range 500 {
				fmt.Fprintf(&b, "w%dx%d ", i, k)
			}
			x.Add(bm25.Doc{ID: 2 + i, Fields: []string{b.String()}})
			x.Remove(2 + i)
			most = max(most, x.Stats().Bytes)
		}
		t.Logf("%v: %d bytes at most, %d terms at the end", a, most, x.Terms())
		if most > 24<<20 {
			t.Errorf("%v: %d bytes for one document", a, most)
		}
		if n := x.Search(bm25.Query{Text: "stays", Limit: 1, Count: true}).Total; n != 1 {
			t.Errorf("%v: %d found", a, n)
		}
	}
}

// TestVocabularyShrinksAgain checks that, after a large vocabulary has shrunk, the
// next check happens when the remaining vocabulary has doubled.
func TestVocabularyShrinksAgain(t *testing.T) {
	bm25.SetTailDocs(t, 1)
	bm25.SetFewTerms(t, 100)
	x := bm25.New(analysis.Plain)
	id := uint64(0)
	add := func(from, words int) {
		var b strings.Builder
		for i := range words {
			fmt.Fprintf(&b, "w%d ", from+i)
		}
		id++
		x.Add(bm25.Doc{ID: id, Fields: []string{b.String()}})
	}
	add(0, 5000)
	x.Remove(id)
	for large := x.Terms(); x.Terms() == large; { // then only the last document's terms remain
		add(0, 100)
		x.Remove(id)
	}
	add(5000, 60)
	x.Remove(id)
	left := x.Terms()
	for i := range 2 * left {
		add(6000+i, 1)
	}
	if n := x.Terms(); n >= 3*left {
		t.Errorf("%d terms after %d: the index dropped too few", n, left)
	}
}

// TestShrunkIndexEqualsNew compares searches of an index that dropped terms with
// searches of a new index of the same documents.
func TestShrunkIndexEqualsNew(t *testing.T) {
	race.Skip(t)
	for _, a := range []analysis.Analyzer{analysis.Plain, analysis.Standard} {
		for _, tailDocs := range []int{3, 40, 2048} {
			t.Run(fmt.Sprintf("%v-%d", a, tailDocs), func(t *testing.T) {
				bm25.SetTailDocs(t, tailDocs)
				bm25.SetFewTerms(t, 100)
				r := seed.Random(t)
				words := func(from int) string {
					var b strings.Builder
					for range r.IntN(12) {
						n := from + r.IntN(60)
						b.WriteString([]string{"", "running", "don't ", "foo-Bar", "long/unusual/path", "вода", "記憶"}[r.IntN(7)])
						fmt.Fprintf(&b, "%x%s ", n*n*7919, []string{"", "ing", "ed", "s", "'s"}[r.IntN(5)])
					}
					return b.String() + text(r, 3)
				}
				x, docs := bm25.New(a), make(map[uint64]bm25.Doc)
				shrunk, last := 0, 0
				for step := range 3000 {
					id := uint64(r.IntN(60))
					if d := (bm25.Doc{ID: id, Fields: []string{words(step / 4)}}); r.IntN(3) > 0 {
						x.Add(d)
						docs[id] = d
					} else {
						x.Remove(id)
						delete(docs, id)
					}
					if n := x.Terms(); n < last {
						shrunk++
						last = 0
					}
					last = x.Terms()
					if step%50 > 0 {
						continue
					}
					fresh := bm25.New(a)
					for _, d := range docs {
						fresh.Add(d)
					}
					for range 10 {
						q := bm25.Query{Text: words(step / 4), Limit: 20, Count: true}
						if diff := cmp.Diff(fresh.Search(q), x.Search(q)); diff != "" {
							t.Fatalf("step %d, %q:\n%s", step, q.Text, diff)
						}
					}
				}
				if shrunk < 2 && tailDocs < 2048 { // a long tail keeps all documents
					t.Errorf("the index dropped terms %d times", shrunk)
				}
				t.Logf("%d times, %d terms", shrunk, x.Terms())
			})
		}
	}
}

// TestBuildListsOnlyTerms checks that Build makes posting lists for terms, but not
// for word forms that are not terms.
func TestBuildListsOnlyTerms(t *testing.T) {
	x := bm25.New(analysis.Standard)
	doc := bm25.Doc{ID: 1, Fields: []string{"walking talking"}}
	if err := x.Build(t.Context(), 1, func(int) bm25.Doc { return doc }); err != nil {
		t.Fatal(err)
	}
	if lists, terms := x.PostingLists(), x.Stats().Terms; lists != terms || x.Terms() <= terms {
		t.Errorf("%d posting lists of %d terms, with %d words and terms", lists, terms, x.Terms())
	}
}
