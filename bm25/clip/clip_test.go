package clip

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCuts(t *testing.T) {
	for name, f := range map[string]struct {
		cut   func(string, int) string
		cases []cutCase
	}{
		"Bytes": {Bytes, []cutCase{
			{"", 0, ""}, {"abc", 3, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""}, {"abc", -1, ""},
			{"93 °C", 4, "93 °C"[:3]}, {"93 °C", 5, "93 °"}, {"日本語", 3, "日"}, {"日本語", 5, "日"}, {"日本語", 8, "日本"},
			{"a🦀", 4, "a"}, {"🦀", 3, ""}, {"🦀🦀", 7, "🦀"},
			{"\x80\x80\x80\x80\x80\x80", 4, "\x80\x80\x80\x80"}, {"\x80\x80", 1, "\x80"}, {"a\x80\x80\x80\x80", 4, "a\x80\x80\x80"},
		}},
		"Marked": {Marked, []cutCase{
			{"abcdef", 6, "abcdef"}, {"abcdef", 5, "ab…"}, {"abcdef", 3, "…"}, {"abcdef", 2, "ab"}, {"abcdef", 0, ""}, {"日本語", 8, "日…"},
		}},
		"Chars": {Chars, []cutCase{
			{"", 1, ""}, {"a", 1, "a"}, {"ab", 1, "…"}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"日本語", 3, "日本語"}, {"日本語", 2, "日…"},
		}},
	} {
		for _, c := range f.cases {
			if got := f.cut(c.text, c.n); got != c.want {
				t.Errorf("%s(%q, %d) = %q, want %q", name, c.text, c.n, got, c.want)
			}
		}
	}
}

type cutCase struct {
	text string
	n    int
	want string
}

// TestLongest compares random texts with their definition: a result is the longest
// beginning that fits and, with a mark, an ellipsis.
func TestLongest(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, seed))
	runes := []rune("ab ä語🦀")
	for range 20_000 {
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteRune(runes[r.IntN(len(runes))])
		}
		text, n := b.String(), r.IntN(30)
		longest := func(n int, size func(string) int) string { // by characters
			best := ""
			for i := range text + "x" {
				if size(text[:i]) <= n {
					best = text[:i]
				}
			}
			return best
		}
		bytes := func(s string) int { return len(s) }
		if got, want := Bytes(text, n), longest(n, bytes); got != want {
			t.Fatalf("seed %d: Bytes(%q, %d) = %q, want %q", seed, text, n, got, want)
		}
		want := text
		if len(text) > n && n >= len(ellipsis) {
			want = longest(n-len(ellipsis), bytes) + ellipsis
		} else if len(text) > n {
			want = longest(n, bytes)
		}
		if got := Marked(text, n); got != want {
			t.Fatalf("seed %d: Marked(%q, %d) = %q, want %q", seed, text, n, got, want)
		}
		n++
		if want = text; utf8.RuneCountInString(text) > n {
			want = longest(n-1, utf8.RuneCountInString) + ellipsis
		}
		if got := Chars(text, n); got != want {
			t.Fatalf("seed %d: Chars(%q, %d) = %q, want %q", seed, text, n, got, want)
		}
	}
}
