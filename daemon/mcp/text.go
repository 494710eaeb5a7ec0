package mcp

import (
	"strings"
	"unicode"
	"unicode/utf8"
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
	return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(clip(oneLine(text), max))
}

// clip cuts a text to n bytes, at a character.
func clip(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
