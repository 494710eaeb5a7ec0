// Package metatest generates contents with front matter for tests.
package metatest

import (
	"math/rand/v2"
	"strings"
)

// Pieces are parts of lines of random front matter, valid or not.
var Pieces = []string{
	"a", "b", "key", "type", "tags", "crabmem", "my key", "ä", "x/y", ":", ": ", ":  ", " ", "  ", "- ", "-", "# c", " # c", "#", "[", "]", ", ", ",", "[]",
	"'", "''", "\"", "\\n", "\\x41", "\\u00e4", "\\", "[[n]]", "\"[[n]]\"", "0.8", "2026-04-14", "true", "null", "~", "é", "日本", "http://x/y", "*x", "&x", "!t",
	"{", "}", "|", ">", "%", "@", "`", "?", "\t", "\x00", "\u2028", "\u0085", "\ufeff", "\r", "---", "...", "text with words", "it's", "5%", "a:b", "a#b",
}

// Front returns a content with front matter of random lines. Most of it follows the
// grammar.
func Front(rng *rand.Rand) string {
	eol := []string{"\n", "\n", "\n", "\r\n"}[rng.IntN(4)]
	word := func() string { return Pieces[rng.IntN(len(Pieces))] }
	safe := []string{"a", "it is", "0.8", "'it''s'", "\"[[n]]\"", "\"a\\n\\x41\"", "-1", "a:b", "2026-04-14", "'a # b'", "\"\"", "日本 é", "a, b"}
	scalar := func() string { return safe[rng.IntN(len(safe))] }
	var b strings.Builder
	b.WriteString("---" + eol)
	for i := range rng.IntN(8) {
		key := []string{"type", "tags", "a", "my key", "x/y", "ä", "crabmem", "k_2"}[(i+rng.IntN(2))%8]
		comment := []string{"", "", " # c", "  #"}[rng.IntN(4)]
		switch rng.IntN(8) {
		case 0:
			b.WriteString(key + ":" + comment + eol)
			indent := strings.Repeat(" ", rng.IntN(3))
			for range rng.IntN(4) {
				b.WriteString(indent + "- " + scalar() + comment + eol)
			}
		case 1:
			b.WriteString(key + ": [" + strings.Join([]string{"a", "'b, c'", "\"d\"", "e f"}[:rng.IntN(5)], ", ") + "]" + comment + eol)
		case 2:
			b.WriteString([]string{"# comment", "", "  ", "  # indented"}[rng.IntN(4)] + eol)
		case 3:
			if rng.IntN(3) == 0 {
				b.WriteString(word() + word() + word() + word() + eol)
				break
			}
			fallthrough
		default:
			b.WriteString(key + ": " + scalar() + comment + eol)
		}
	}
	b.WriteString("---" + []string{eol, eol, eol, "", " "}[rng.IntN(5)])
	return b.String() + []string{"", "text", "\n# Title\n\n[[n]]\n", "---\na: b\n---\n"}[rng.IntN(4)]
}
