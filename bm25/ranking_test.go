package bm25_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25"
)

// TestRanking compares the steps of a ranking with explanations: a hit gets the
// weighted scores of its neighbors for the terms that it lacks, then the bonuses of
// its text.
func TestRanking(t *testing.T) {
	words := strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa alphaBeta 東京 naïve")
	r := rand.New(rand.NewPCG(2, 2))
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(words[min(r.IntN(len(words)), r.IntN(len(words)))] + " ")
		}
		return b.String()
	}
	var texts [][]string
	for i := range 400 {
		n := 1 + r.IntN(12)
		if i%50 == 0 {
			n = 5000 // beyond the codes of postings
		}
		texts = append(texts, []string{text(n)})
	}
	l := newLibrary(t, texts...)
	for i := range 20 { // in the tail
		l.texts = append(l.texts, []string{text(1 + i)})
		l.x.Add(bm25.Doc{ID: uint64(len(l.texts)), Fields: l.texts[len(l.texts)-1]})
	}
	neighbors := func(list []bm25.Neighbor, id uint64) []bm25.Neighbor {
		return append(list, bm25.Neighbor{ID: id - 1, Weight: 0.5}, bm25.Neighbor{ID: id + 1, Weight: 0.25}, bm25.Neighbor{ID: id + 7, Weight: 0.1})
	}
	byScore := func(a, b bm25.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) }
	lent, read, rounds, enough := 0, 0, 300, 1000
	if testing.Short() {
		rounds, enough = 60, 200
	}
	for range rounds {
		q := bm25.Query{Text: text(1 + r.IntN(5)), Limit: bm25.BoostLimit + r.IntN(50), Count: true}
		found := l.x.Search(q)
		rank := l.x.Rank(q)
		if !slices.Equal(found.Hits, rank.Hits) || rank.Total != found.Total {
			t.Fatalf("%q: the first step is not the search", q.Text)
		}
		rank.BoostByNeighbors(neighbors)
		want := slices.Clone(found.Hits)
		for i := range want[:min(len(want), bm25.BoostLimit)] {
			h := &want[i]
			own, _ := l.x.Explain(q, h.ID)
			most := make(map[string]float64)
			for _, n := range neighbors(nil, h.ID) {
				e, _ := l.x.Explain(q, n.ID)
				for _, line := range e.Terms {
					if !slices.ContainsFunc(own.Terms, func(o bm25.Term) bool { return o.Term == line.Term }) {
						most[line.Term] = max(most[line.Term], float64(n.Weight*line.Contribution))
					}
				}
			}
			terms := make([]string, 0, len(most))
			for term := range most {
				terms = append(terms, term)
			}
			slices.Sort(terms)
			for _, term := range terms {
				h.Score += most[term]
				lent++
			}
		}
		slices.SortFunc(want[:min(len(want), bm25.BoostLimit)], byScore)
		if !slices.Equal(rank.Hits, want) {
			t.Fatalf("%q: %v\nwant %v", q.Text, rank.Hits[:min(5, len(want))], want[:min(5, len(want))])
		}

		var best [][]string
		for _, h := range want[:min(len(want), bm25.RerankLimit)] {
			best = append(best, l.texts[h.ID-1])
		}
		before := slices.Clone(rank.Hits)
		rank.Read(best)
		for _, h := range rank.Hits {
			i := slices.IndexFunc(before, func(b bm25.Hit) bool { return b.ID == h.ID })
			if gain := h.Score - before[i].Score; gain < 0 || gain > 0 && i >= bm25.RerankLimit {
				t.Fatalf("%q: document %d was at %d and gains %v", q.Text, h.ID, i, gain)
			} else if gain > 0 {
				read++
			}
		}
		if !slices.IsSortedFunc(rank.Hits[:min(len(rank.Hits), bm25.RerankLimit)], byScore) {
			t.Fatalf("%q: not in order: %v", q.Text, rank.Hits)
		}
		for _, h := range rank.Hits[:min(len(rank.Hits), 3)] {
			e, _ := l.x.Explain(q, h.ID)
			if got := rank.Weights(h.ID); len(got) != len(e.Terms) {
				t.Fatalf("%q: weights %v of %+v", q.Text, got, e.Terms)
			}
		}
	}
	if lent < enough || read < enough/2 {
		t.Errorf("only %d boosted terms and %d texts with an effect", lent, read)
	}
}

// TestRead checks the bonus for words near each other, and that spelling has none.
func TestRead(t *testing.T) {
	texts := [][]string{
		{"green is one and blue another"}, {"another one is blue green and"}, {"deploying"}, {"deployed"},
	}
	l := newLibrary(t, texts...)
	for query, want := range map[string][]uint64{"blue green": {2, 1}, "deployed": {3, 4}} {
		r := l.x.Rank(bm25.Query{Text: query, Limit: 10})
		var best [][]string
		var got []uint64
		for _, h := range r.Hits {
			best = append(best, texts[h.ID-1])
		}
		r.Read(best)
		for _, h := range r.Hits {
			got = append(got, h.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
}

// TestRankingAfterRemoval continues a ranking after the removal of its documents.
func TestRankingAfterRemoval(t *testing.T) {
	l := newLibrary(t, []string{"blue green"}, []string{"blue"}, []string{"green"})
	r := l.x.Rank(bm25.Query{Text: "blue green", Limit: 10})
	before := slices.Clone(r.Hits)
	for id := range uint64(3) {
		l.x.Remove(id + 1)
	}
	r.BoostByNeighbors(func(list []bm25.Neighbor, id uint64) []bm25.Neighbor {
		return append(list, bm25.Neighbor{ID: id + 1, Weight: 1})
	})
	if !slices.Equal(r.Hits, before) {
		t.Errorf("%v, want %v", r.Hits, before)
	}
	r.Read([][]string{{"blue green"}, {"blue"}, {"green"}})
	if len(r.Weights(1)) != 0 || len(r.Hits) != 3 {
		t.Errorf("%v", r.Hits)
	}
}
