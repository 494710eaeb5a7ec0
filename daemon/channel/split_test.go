package channel

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  []string
	}{
		{"", 10, nil},
		{" \n ", 10, nil},
		{"short", 10, []string{"short"}},
		{"one two three", 10, []string{"one", "two three"}},
		{"paragraph\n\nline\nline two", 20, []string{"paragraph", "line\nline two"}},
		{"aaaaaaaaaaaaaaaaaaaaaa", 14, []string{"aaaaaaaaaa", "aaaaaaaaaaaa"}},
		{strings.Repeat("🦀", 10), 14, []string{strings.Repeat("🦀", 5), strings.Repeat("🦀", 5)}},
		{"aaaaaa👩‍👩‍👧‍👦bbbbb", 16, []string{"aaaaaa", "👩‍👩‍👧‍👦bbbbb"}},
		{"text\n```go\none\ntwo\n```\nend of it", 26, []string{"text\n```go\none\ntwo\n```", "end of it"}},
		{"```go\nfirst line\nsecond line\n```", 28, []string{"```go\nfirst line\n```", "```go\nsecond line\n```"}},
		{"\xff\xfe" + strings.Repeat("x", 8), 30, []string{"\ufffd" + strings.Repeat("x", 8)}},
	} {
		if got := Split(c.text, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("Split(%q, %d) = %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}

// TestSplitRandom checks properties of random texts: each part fits and has closed blocks of
// code, and the parts have the visible characters of the text.
func TestSplitRandom(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	words := []string{"a", "word ", "\n", "\n\n", "🦀", "日本語", "e\u0301", "👩‍👩‍👧‍👦", "```\n", "\n```go\n", "\n```\n", " ", strings.Repeat("long", 40)}
	visible := func(s string) string {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "```go", ""), "```", "")
		return strings.Join(strings.Fields(s), "")
	}
	for range 5_000 {
		var b strings.Builder
		for range r.IntN(60) {
			b.WriteString(words[r.IntN(len(words))])
		}
		text, limit := b.String(), 60+r.IntN(100)
		parts := Split(text, limit)
		for _, part := range parts {
			if n := len(utf16.Encode([]rune(part))); n > limit || strings.TrimSpace(part) == "" {
				t.Fatalf("seed %d: a part of %d units, limit %d: %q of %q", seed, n, limit, part, text)
			}
			if len(parts) > 1 && part != parts[len(parts)-1] && openFence(part) != "" {
				t.Fatalf("seed %d: a part with an open block of code: %q of %q", seed, part, text)
			}
		}
		if got, want := visible(strings.Join(parts, "")), visible(text); got != want {
			t.Fatalf("seed %d: limit %d: %q became %q", seed, limit, text, parts)
		}
	}
}

func TestParseBoundary(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	at := func(day, hour int) time.Time { return time.Date(2026, 11, day, hour, 0, 0, 0, zone) }
	for _, c := range []struct {
		text        string
		active, now time.Time
		want        bool
	}{
		{"one", at(1, 0), at(30, 0), false},
		{"daily 04:00", time.Time{}, at(2, 5), false},
		{"daily 04:00", at(1, 23), at(2, 3), false},
		{"daily 04:00", at(1, 23), at(2, 4), true},
		{"daily 04:00", at(2, 4), at(2, 23), false},
		{"daily 04:00", at(1, 3), at(1, 5), true},
		{"daily 04:00", at(1, 3), at(9, 2), true},
		{"idle 8h", at(1, 0), at(1, 7), false},
		{"idle 8h", at(1, 0), at(1, 8), true},
	} {
		b, err := ParseBoundary(c.text)
		if got := b.crossed(c.active, c.now); err != nil || got != c.want {
			t.Errorf("%s: %v to %v: %v, %v", c.text, c.active, c.now, got, err)
		}
	}
	for _, text := range []string{"", "two", "one ", "daily", "daily 24:00", "daily 4", "idle", "idle 8", "idle 1s", "idle -8h"} {
		if _, err := ParseBoundary(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
