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
)

// nearTies returns documents of words of equal document frequency. A document
// contains them, or some of them, with the same frequencies in another order, so that
// the summands of many scores are equal and only the order of addition differs. The
// scores then differ in the last bits.
func nearTies(r *rand.Rand, words []string) []bm25.Doc {
	n := len(words)
	most := 1 + r.IntN(16) // above 14, a posting is escaped
	frequencies := make([]int, n)
	for i := range frequencies {
		frequencies[i] = 1 + r.IntN(most)
		if r.IntN(8) == 0 {
			frequencies[i] = 0
		}
	}
	filler := []int{0, 1, 5, 40}[r.IntN(4)]
	var docs []bm25.Doc
	for range 1 + r.IntN(100/n+3) {
		order := r.Perm(n)
		for turn := range n { // all rotations: each word occurs in the same number of documents
			var b strings.Builder
			for i, w := range words {
				b.WriteString(strings.Repeat(w+" ", frequencies[order[(i+turn)%n]]))
			}
			b.WriteString(strings.Repeat("filler ", filler))
			docs = append(docs, bm25.Doc{ID: uint64(len(docs)), Class: uint8(r.IntN(8)), Fields: []string{b.String()}})
		}
	}
	switch r.IntN(6) {
	case 0: // a frequency and a length beyond the codes
		docs[r.IntN(len(docs))].Fields[0] += strings.Repeat(words[r.IntN(n)]+" ", 70_000)
	case 1: // duplicates
		for range len(docs) {
			d := docs[r.IntN(len(docs))]
			d.ID = uint64(len(docs))
			docs = append(docs, d)
		}
	case 2, 3: // rare words
		for i := range 5 {
			for range 1 + r.IntN(30) {
				docs[r.IntN(len(docs))].Fields[0] += fmt.Sprintf("rare%c ", 'a'+i)
			}
		}
	}
	for i, id := range r.Perm(len(docs)) {
		docs[i].ID = uint64(id)
	}
	return docs
}

// TestNearTies compares 10,000 random queries with the model, to the bit, where
// approximate scores have another order than the exact ones.
func TestNearTies(t *testing.T) {
	race.Skip(t)
	r := seed.Random(t)
	indexes := 30
	if testing.Short() {
		indexes = 20
	}
	for n := range indexes {
		words := make([]string, 1+n%64)
		for i, at := range r.Perm(26 * 26)[:len(words)] {
			words[i] = fmt.Sprintf("%c%cz", 'a'+at/26, 'a'+at%26)
		}
		docs := nearTies(r, words)
		bm25.SetTailDocs(t, 1+r.IntN(400))
		if n%3 > 0 {
			bm25.SetPruning(t, []int{0, 1, 16}[r.IntN(3)])
		}
		x, m := bm25.New(analysis.Plain), index.NewModel(analysis.Plain)
		if n%2 == 0 {
			if err := x.Build(t.Context(), len(docs), func(i int) bm25.Doc { return docs[i] }); err != nil {
				t.Fatal(err)
			}
		}
		for i, d := range docs {
			m.Add(d)
			if n%2 == 1 || r.IntN(10) == 0 {
				x.Add(docs[i])
			}
			if r.IntN(10) == 0 {
				x.Remove(d.ID)
				m.Remove(d.ID)
			}
		}
		for range 50 {
			var text strings.Builder
			for _, i := range r.Perm(len(words))[:1+r.IntN(len(words))] {
				text.WriteString(words[i] + " ")
			}
			if r.IntN(2) == 0 {
				text.WriteString("raree rarea rarec filler")
			}
			q := bm25.Query{Text: text.String(), Limit: r.IntN(12), Count: r.IntN(2) == 0}
			if r.IntN(4) == 0 {
				q.Limit = r.IntN(len(docs) + 2)
			}
			if r.IntN(3) == 0 {
				q.Classes = uint8(r.IntN(256))
			}
			if r.IntN(3) == 0 {
				mod := 1 + r.Uint64N(4)
				q.Filter = func(id uint64) bool { return id%mod == 0 }
			}
			if err := m.Compare(x, q); err != nil {
				t.Fatalf("index %d: %v", n, err)
			}
		}
	}
}
