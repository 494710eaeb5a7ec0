package snippet_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"crabmem/bm25"
	"crabmem/snippet"
)

// TestCut looks for the part with most of the query.
func TestCut(t *testing.T) {
	filler := strings.Repeat("nothing of note happens here. ", 30)
	for _, c := range []struct{ query, text, want string }{
		{"amber fuse", filler + "amber. " + filler + "the amber fuse is in rack seven. " + filler, "the amber fuse is"},
		{"start", "start here. " + filler, "start here."},
		{"finish", filler + "and finish", "and finish"},
		{"砂糖", strings.Repeat("今日は天気がいい。", 40) + "味噌と砂糖を混ぜる。" + strings.Repeat("また明日。", 40), "砂糖"},
		{"running", filler + "she ran and runs, " + filler, "runs"},
	} {
		terms := make(map[string]float64)
		for term := range bm25.Standard.Tokens(c.query) {
			terms[term] = 1
		}
		for n := 40; n < 400; n += 7 {
			got := snippet.Cut(c.text, bm25.Standard, terms, n)
			if !strings.Contains(got, c.want) || len(got) > n || len(got) < n-28 || !utf8.ValidString(got) {
				t.Errorf("%q in %d bytes: %d bytes %q", c.query, n, len(got), got)
			}
		}
	}
	if got := snippet.Cut("short", bm25.Standard, nil, 5); got != "short" {
		t.Errorf("a text that fits is %q", got)
	}
	if got := snippet.Cut(strings.Repeat("é", 50), bm25.Standard, nil, 7); got != "ééé" {
		t.Errorf("a tiny budget gives %q", got)
	}
}

// TestCutLongWord searches words that are longer than the snippet.
func TestCutLongWord(t *testing.T) {
	word := strings.Repeat("x", 900)
	for _, text := range []string{"a " + word, word + " b", "a " + word + " b " + strings.Repeat("y ", 100)} {
		for _, n := range []int{0, 1, 3, 6, 12, 40, 800, 899} {
			got := snippet.Cut(text, bm25.Plain, map[string]float64{word: 1}, n)
			if len(got) > n || !utf8.ValidString(got) {
				t.Errorf("%d bytes: %q", n, got)
			}
		}
	}
}
