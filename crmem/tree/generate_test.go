package tree_test

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	. "crabmem/crmem"
)

const april = 1776162225 // 2026-04-14T10:23:45Z

// rounds returns the number of rounds of a random test of trees. 500 suffice for each
// case that a test counts.
func rounds() int {
	switch {
	case testing.Short():
		return 500
	case os.Getenv("CRABMEM_CRASH") == "full":
		return 10_000
	}
	return 2000
}

// hostile are parts of names, aliases, and contents that are difficult for a
// file system, HTML, Markdown, mdbook, JSON, or a reader of pages.
var hostile = []string{
	"deploy", "Deploy", "DEPLOY", "prod rollout", "a", "b", "x",
	"/", "\\", "..", "../x", "/etc/passwd", ".", ".hidden", "trailing.", "trailing ", " leading",
	"CON", "con.txt", "nul", "COM1", "LPT¹", "README", "readme", "index", "SUMMARY", "unnamed",
	"%", "%20", "%2F", "=2F", "a%20b", "#frag", "?query", ":", "*", "\"", "'", "`", "|", "~", "{{", "{{#include x}}", "{{{",
	"[x](y)", "](javascript:alert(1))", "![i](u)", "<img src=x onerror=alert(1)>", "<script>", "</script>", "<!--", "-->", "--!>",
	"<div id=\"meta\">", "</div>", "<dl>", "</dl>", "<dt>Aliases</dt>", "<dt>", "<li>", "</li>", "</ul>", "</dd>", "datetime=\"1999-01-01T00:00:00Z\"",
	"&", "&amp;", "&amp;lt;", "&lt;", "&#10;", "&copy;", "&#0;", "\\n", "\\u0041", "\"quoted\"",
	"\n", "\n\n", "\r", "\r\n", "\r\n\r\n", "\t", " ", "  ", "\v", "\f", "\x00", "\x01", "\x1b", "\x7f", "\u0080", "\u0085", "\u00a0", "\u200b", "\u200d", "\u2028", "\u2029", "\u202e", "\u3000", "\ufeff", "\ufffd", "\ufffe", "\U0010ffff",
	"é", "e\u0301", "É", "ß", "ẞ", "ss", "ſ", "s", "K", "\u212a", "İ", "i", "ı", "Å", "\u212b", "日本旅行", "数据库", "😀", "👨‍👩‍👧", "مرحبا",
	"# heading", "- item", "1. one", "    code", "\tcode", "```\nfence\n```", "---", "***", "> quote", "| a | b |", "trail  ",
}

func randomText(r *rand.Rand, most int) string {
	var b strings.Builder
	for range r.IntN(most + 1) {
		switch r.IntN(12) {
		case 0:
			b.WriteRune(randomRune(r))
		case 1:
			b.WriteString(strings.Repeat(hostile[r.IntN(len(hostile))], 1+r.IntN(90)))
		default:
			b.WriteString(hostile[r.IntN(len(hostile))])
		}
	}
	return b.String()
}

func randomRune(r *rand.Rand) rune {
	for {
		c := rune(r.IntN(0x110000))
		if r.IntN(3) == 0 {
			c %= 0x180
		}
		if c < 0xd800 || c > 0xdfff {
			return c
		}
	}
}

func randomTime(r *rand.Rand) UnixTime {
	edges := []UnixTime{0, 1, 253402300799, 253402300800, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64}
	if r.IntN(3) == 0 {
		return edges[r.IntN(len(edges))]
	}
	return 1_700_000_000 + UnixTime(r.Uint64N(1<<27))
}

func randomAliases(r *rand.Rand) []string {
	var list []string
	for range r.IntN(4) {
		list = append(list, randomText(r, 3))
	}
	return list
}

// randomSnapshot is any snapshot that a file can hold.
func randomSnapshot(t *testing.T, r *rand.Rand, most int) *Snapshot {
	t.Helper()
	id := uint64(r.IntN(3))
	seen := map[string]bool{}
	var entries []Entry
	for range r.IntN(most + 1) {
		name := randomText(r, 3)
		if seen[name] {
			continue
		}
		seen[name] = true
		entries = append(entries, Entry{ID: id, Name: name, Kind: Kind(r.IntN(2)), CreatedAt: randomTime(r), Content: randomText(r, 8), Aliases: randomAliases(r)})
		id += 1 + uint64(r.IntN(3))
	}
	next := id + uint64(r.IntN(3)) + 1
	if r.IntN(20) == 0 {
		next = math.MaxUint64
	}
	sn, err := NewSnapshot(next, entries)
	if err != nil {
		t.Fatal(err)
	}
	return sn
}

func encoded(t *testing.T, sn *Snapshot) string {
	t.Helper()
	b, err := sn.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
