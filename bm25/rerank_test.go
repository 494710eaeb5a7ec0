package bm25_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/fuzz/race"
)

// library is an index of texts by ID, from 1.
type library struct {
	x     *bm25.Index
	texts [][]string
}

func newLibrary(t *testing.T, texts ...[]string) *library {
	t.Helper()
	l := &library{bm25.New(analysis.Standard), texts}
	err := l.x.Build(context.Background(), len(texts), func(i int) bm25.Doc {
		return bm25.Doc{ID: uint64(i + 1), Class: uint8(i % 2), Fields: texts[i]}
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *library) query(text string, limit int, named ...uint64) bm25.Query {
	return bm25.Query{Text: text, Limit: limit, Named: named, Correct: true, Texts: func(id uint64) []string { return l.texts[id-1] }}
}

func (l *library) ids(q bm25.Query) []uint64 {
	var ids []uint64
	for _, h := range l.x.Search(q).Hits {
		ids = append(ids, h.ID)
	}
	return ids
}

func TestNear(t *testing.T) {
	l := newLibrary(t,
		[]string{"green is a colour and so is blue, and a rollout is none"},
		[]string{"a rollout is none and blue green colour is a so is, and"},
		[]string{"size and then the many other things of databases"},
		[]string{"then the many other things and size of databases"},
	)
	for query, want := range map[string][]uint64{
		"blue green":        {2, 1},
		"green blue":        {2, 1}, // the other order is near, too
		"size of databases": {4, 3}, // "of" is between them in the query
		"databases size":    {4, 3},
	} {
		if got := l.ids(l.query(query, 0)); !slices.Equal(got, want) {
			t.Errorf("%q finds %v, want %v", query, got, want)
		}
	}
	e, _ := l.x.Explain(l.query("size of databases", 0), 4)
	if len(e.Near) != 1 || e.Near[0].Distance != 1 {
		t.Errorf("near: %+v, want distance 1", e.Near)
	}
}

// TestReadLimitCountsAllFields puts two adjacent query words into the second field,
// before and after the limit of re-ranking.
func TestReadLimitCountsAllFields(t *testing.T) {
	const limit = 8 << 10
	for size, want := range map[int]bool{limit / 2: true, limit - 4: false, limit: false, 2 * limit: false} {
		filler := strings.Repeat("filler ", size/7)
		filler += strings.Repeat("x", size-len(filler))
		l := newLibrary(t, []string{filler, "blue green"}, []string{"other"})
		e, ok := l.x.Explain(l.query("blue green", 0), 1)
		if near := len(e.Near) > 0; !ok || near != want {
			t.Errorf("after %d bytes: near: %v, want %v", size, near, want)
		}
	}
	l := newLibrary(t, []string{"word"})
	for _, id := range []uint64{0, 2} {
		if e, ok := l.x.Explain(l.query("word", 0), id); ok {
			t.Errorf("document %d, which does not exist: %+v", id, e)
		}
	}
}

func TestNearInOneField(t *testing.T) {
	l := newLibrary(t, []string{"aaa blue", "green aab"}, []string{"aac aad", "blue green"})
	if e, _ := l.x.Explain(l.query("blue green", 0), 1); len(e.Near) != 0 || !e.Read {
		t.Errorf("words of two fields are near: %+v", e)
	}
	if e, _ := l.x.Explain(l.query("blue green", 0), 2); len(e.Near) != 1 {
		t.Errorf("words of one field are not near: %+v", e)
	}
}

func TestEarly(t *testing.T) {
	filler := strings.Repeat("filler ", 40)
	l := newLibrary(t, []string{filler + "deploy"}, []string{"deploy " + filler})
	if got := l.ids(l.query("deploy", 0)); !slices.Equal(got, []uint64{2, 1}) {
		t.Errorf("found %v, want the early one first", got)
	}
	if got := l.ids(bm25.Query{Text: "deploy"}); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("without texts found %v, want the order of IDs", got)
	}
	e, _ := l.x.Explain(l.query("deploy", 0), 1)
	if e.Terms[0].Place != 41 {
		t.Errorf("place %d, want 41", e.Terms[0].Place)
	}
}

func TestNamed(t *testing.T) {
	var texts [][]string
	for range 100 {
		texts = append(texts, []string{"coffee, coffee and more coffee"})
	}
	texts = append(texts, []string{"coffee", strings.Repeat("a long text of other things ", 400)}, []string{"tea"})
	l := newLibrary(t, texts...)
	for _, limit := range []int{1, 10, 50, 0} {
		got := l.ids(l.query("coffee", limit, 101, 102, 999))
		if got[0] != 101 || slices.Contains(got[1:], 101) || slices.Contains(got, 102) || limit > 0 && len(got) != limit || limit == 0 && len(got) != 101 {
			t.Errorf("limit %d: found %v", limit, got)
		}
	}
	q := l.query("coffee", 10, 101)
	q.Classes = 1 << 1
	if got := l.ids(q); slices.Contains(got, 101) { // which is of class 0
		t.Errorf("found %v, of which the filter takes 101", got)
	}
	if e, _ := l.x.Explain(l.query("coffee", 10, 101), 101); e.Named == 0 {
		t.Errorf("explained as %+v", e)
	}
}

// TestScoresEqualExplanations compares searches of random texts with their
// explanations.
func TestScoresEqualExplanations(t *testing.T) {
	race.Skip(t)
	words := strings.Fields("alpha beta gamma delta alphaBeta Gamma7 the of 東京 都 naïve naive café e-mail x")
	r := rand.New(rand.NewPCG(1, 1))
	text := func(n int) string {
		var b strings.Builder
		for range 1 + r.IntN(n) {
			b.WriteString(words[r.IntN(len(words))])
			b.WriteString([]string{" ", " ", ", ", "-", ""}[r.IntN(5)])
		}
		return b.String()
	}
	near := 0
	for round := range 30 {
		var texts [][]string
		for range 2 + r.IntN(90) {
			texts = append(texts, []string{text(3), text(60)})
		}
		l := newLibrary(t, texts...)
		for range 8 {
			query := text(5)
			named := []uint64{uint64(1 + r.IntN(len(texts)))}
			all := l.x.Search(l.query(query, 0, named...)).Hits
			what := fmt.Sprintf("round %d, query %q", round, query)
			limit := 1 + r.IntN(len(texts))
			if got := l.x.Search(l.query(query, limit, named...)).Hits; !slices.Equal(got, all[:min(limit, len(all))]) {
				t.Fatalf("%s: limit %d gives %v, all are %v", what, limit, got, all)
			}
			if !slices.IsSortedFunc(all, func(a, b bm25.Hit) int {
				if a.Score > b.Score || a.Score == b.Score && a.ID < b.ID {
					return -1
				}
				return 1
			}) {
				t.Fatalf("%s: not in order: %v", what, all)
			}
			q := l.query(query, limit, named...)
			q.Explain = true
			explained := l.x.Search(q).Explanations
			if len(explained) != min(limit, len(all)) {
				t.Fatalf("%s: %d of %d hits explained", what, len(explained), min(limit, len(all)))
			}
			for i, h := range all {
				if i < limit {
					if e, _ := l.x.Explain(q, h.ID); !reflect.DeepEqual(explained[i], e) {
						t.Fatalf("%s: the search explains hit %d as %+v, Explain as %+v", what, i, explained[i], e)
					}
				}
				if i > 2 && r.IntN(8) > 0 && i != bm25.RerankLimit {
					continue
				}
				e, ok := l.x.Explain(l.query(query, limit, named...), h.ID)
				sum := 0.0
				for _, line := range e.Terms {
					sum += line.Contribution
				}
				for _, line := range e.Near {
					sum += line.Contribution
					near++
				}
				for _, line := range e.Terms {
					sum += line.Early
				}
				for _, line := range e.Terms {
					sum += line.Exact
				}
				sum += e.Named
				if !ok || e.Score != h.Score || sum != h.Score || e.Read && i >= bm25.RerankLimit {
					t.Fatalf("%s: hit %d scores %v, explained as %+v, which sums to %v", what, i, h.Score, e, sum)
				}
			}
		}
	}
	if near == 0 {
		t.Error("no words were near")
	}
}

func TestExact(t *testing.T) {
	l := newLibrary(t, []string{"the connections of it"}, []string{"the connect of it"})
	if got := l.ids(l.query("Connect", 0)); !slices.Equal(got, []uint64{2, 1}) {
		t.Errorf("found %v, want the word as it is in the query first", got)
	}
	if got := l.ids(l.query("connections", 0)); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("found %v, want the word as it is in the query first", got)
	}
}

// TestPlaceIgnoresHistory reads a word after a word of two terms. The place is the
// same whether or not the index analyzed the word before.
func TestPlaceIgnoresHistory(t *testing.T) {
	l := newLibrary(t, []string{"הספר word"})
	for _, before := range []string{"הספר", "הבית", "aéé"} {
		q := bm25.Query{Text: "word", Texts: func(uint64) []string { return []string{before + " word"} }}
		if e, _ := l.x.Explain(q, 1); e.Terms[0].Place != 2 {
			t.Errorf("word is at place %d after %q, want 2", e.Terms[0].Place, before)
		}
	}
}
