package corpus

import (
	"math"
	"strings"
	"testing"
)

func TestZipfShape(t *testing.T) {
	z := NewZipf(1)
	docs := z.Docs(20_000)
	words, bytes := 0, 0
	counts := map[string]int{}
	for _, d := range docs {
		bytes += len(d)
		for _, w := range strings.Fields(d) {
			words++
			counts[w]++
		}
	}
	if mean := float64(words) / float64(len(docs)); math.Abs(mean-meanLen) > 1 {
		t.Errorf("%.1f words per document, want about %v", mean, meanLen)
	}
	if mean := float64(bytes) / float64(len(docs)); mean < 480 || mean > 550 {
		t.Errorf("%.0f bytes per document, want about 505", mean)
	}
	for _, rank := range []int{0, 9, 99} {
		got := float64(counts[z.words[rank]]) / float64(counts[z.words[0]])
		if want := math.Pow(float64(rank+1), -exponent); math.Abs(got/want-1) > 0.1 {
			t.Errorf("rank %d has %.4f of the frequency of rank 1, want %.4f", rank+1, got, want)
		}
	}
	if z.Doc(7) != docs[7] || NewZipf(2).Doc(7) == docs[7] {
		t.Error("Doc does not depend only on seed and number")
	}
}

func TestQueries(t *testing.T) {
	z := NewZipf(1)
	frequent := map[string]bool{}
	for _, w := range z.words[:stopRanks] {
		frequent[w] = true
	}
	terms := 0
	for _, q := range z.Queries(1000) {
		f := strings.Fields(q)
		if len(f) < 2 || len(f) > 8 {
			t.Errorf("query %q has %d terms", q, len(f))
		}
		terms += len(f)
		for _, w := range f {
			if frequent[w] {
				t.Errorf("query %q contains one of the most frequent words", q)
			}
		}
	}
	if terms < 4700 || terms > 5300 {
		t.Errorf("%d terms in 1000 queries, want about 5000", terms)
	}
}

func TestSynthetic(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range syntheticWords {
		seen[w] = true
	}
	if len(seen) != 109 {
		t.Errorf("%d distinct words, want 109", len(seen))
	}
	for _, w := range strings.Fields(SyntheticQuery) {
		if !seen[w] {
			t.Errorf("%q is not in the vocabulary", w)
		}
	}
	if n := len(strings.Fields(Synthetic(1))); n != 27 {
		t.Errorf("document 1 has %d words, want 27", n)
	}
}
