package bm25_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/fuzz/index"
	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"

	"github.com/google/go-cmp/cmp"
)

// words contains short and long words, and some with equal first eight bytes.
var words = strings.Fields(`alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu xi omicron pi rho
	sigma tau upsilon phi chi psi omega internationalization internationalize internati internat Ελλάδα
	naïveté 記憶 東京都庁 1234567890 x2 zz abcdefgh abcdefghi Éclair GRÖSSE c e.g. E.g.`)

// text draws n words, and early words of the list more often.
func text(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(words[min(r.IntN(len(words)), r.IntN(len(words)))])
		b.WriteByte(" \n,-"[r.IntN(4)])
	}
	return b.String()
}

func randomDoc(r *rand.Rand, id uint64) bm25.Doc {
	d := bm25.Doc{ID: id, Class: uint8(r.IntN(8))}
	switch r.IntN(60) {
	case 0: // no terms
	case 1: // frequencies and lengths beyond a code
		d.Fields = []string{strings.Repeat("beta ", 14+r.IntN(3)) + text(r, 4)}
	case 2:
		d.Fields = []string{text(r, 4080+r.IntN(30))}
	default:
		d.Fields = []string{text(r, r.IntN(20))}
		for range r.IntN(3) {
			d.Fields = append(d.Fields, text(r, r.IntN(3)))
		}
	}
	return d
}

func randomQuery(r *rand.Rand) bm25.Query {
	q := bm25.Query{Text: text(r, 1+r.IntN([]int{6, 6, 6, 40}[r.IntN(4)])), Limit: r.IntN(12), Count: r.IntN(2) == 0}
	if r.IntN(3) == 0 {
		q.Classes = uint8(r.IntN(256))
	}
	if r.IntN(3) == 0 {
		odd := r.Uint64() & 1
		q.Filter = func(id uint64) bool { return id&1 == odd }
	}
	return q
}

// TestModel makes the same random changes to an index and a model, and compares
// every search to the bit.
func TestModel(t *testing.T) {
	race.Skip(t)
	for _, a := range []analysis.Analyzer{analysis.Plain, analysis.Standard} {
		for _, tailDocs := range []int{3, 16, 2048} {
			t.Run(fmt.Sprintf("%v-%d", a, tailDocs), func(t *testing.T) {
				bm25.SetTailDocs(t, tailDocs)
				if tailDocs < 100 {
					bm25.SetPruning(t, tailDocs)
				}
				r := seed.Random(t)
				x, m := bm25.New(a), index.NewModel(a)
				if r.IntN(2) == 0 {
					docs := make([]bm25.Doc, r.IntN(300))
					for i := range docs {
						docs[i] = randomDoc(r, uint64(i))
						m.Add(docs[i])
					}
					if err := x.Build(t.Context(), len(docs), func(i int) bm25.Doc { return docs[i] }); err != nil {
						t.Fatal(err)
					}
				}
				steps := 800
				if testing.Short() {
					steps = 300
				}
				for step := range steps {
					what := fmt.Sprintf("step %d", step)
					switch n := r.IntN(10); {
					case n < 5:
						d := randomDoc(r, uint64(r.IntN(400)))
						x.Add(d)
						m.Add(d)
					case n < 8:
						id := uint64(r.IntN(400))
						if got, want := x.Remove(id), m.Remove(id); got != want {
							t.Fatalf("%s: Remove(%d) = %v, want %v", what, id, got, want)
						}
					}
					if err := m.Compare(x, randomQuery(r)); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
				}
				for _, id := range m.IDs() { // down to nothing
					x.Remove(id)
					m.Remove(id)
				}
				if err := m.Compare(x, randomQuery(r)); err != nil {
					t.Fatalf("emptied: %v", err)
				}
			})
		}
	}
}

// TestScoresIgnoreHistory checks that scores depend on the set of documents, not on
// the order of changes or on removed documents.
func TestScoresIgnoreHistory(t *testing.T) {
	race.Skip(t)
	r := seed.Random(t)
	docs := make([]bm25.Doc, 5000)
	for i := range docs {
		docs[i] = bm25.Doc{ID: uint64(i) * 3, Class: uint8(i % 8), Fields: []string{text(r, r.IntN(30))}}
	}
	docs[77].Fields[0] = strings.Repeat("beta ", 5000)
	bulk := bm25.New(analysis.Plain)
	if err := bulk.Build(t.Context(), len(docs), func(i int) bm25.Doc { return docs[i] }); err != nil {
		t.Fatal(err)
	}
	bm25.SetTailDocs(t, 100)
	shuffled, detour := bm25.New(analysis.Plain), bm25.New(analysis.Plain)
	for _, i := range r.Perm(len(docs)) {
		shuffled.Add(docs[i])
	}
	for i, d := range docs {
		detour.Add(bm25.Doc{ID: d.ID, Fields: []string{text(r, 10)}})
		detour.Add(d)
		if i%3 == 0 {
			detour.Remove(docs[i/2].ID)
			detour.Add(docs[i/2])
		}
	}
	for range 200 {
		q := randomQuery(r)
		want := bulk.Search(q)
		for what, x := range map[string]*bm25.Index{"shuffled": shuffled, "detour": detour} {
			if diff := cmp.Diff(want, x.Search(q)); diff != "" {
				t.Fatalf("query %q: %s differs from bulk:\n%s", q.Text, what, diff)
			}
		}
	}
}
