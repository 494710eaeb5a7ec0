package mcp

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"crabmem/bm25/clip"
)

// Limits of a server's messages and of work for it.
const (
	maxFrame = 8 << 20 // bytes of a message
	maxBusy  = 100     // messages being written to a server
)

// oneLine returns a server's text on one line, without invisible characters.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r), r == utf8.RuneError:
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// data returns a text of a server for a prompt or a list: one line that cannot
// begin or end a tag of the prompt.
func data(text string, max int) string {
	return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(clipped(oneLine(text), max))
}

// clipped cuts a text to n bytes of valid UTF-8.
func clipped(text string, n int) string {
	return clip.Marked(strings.ToValidUTF8(text, "\uFFFD"), n)
}
