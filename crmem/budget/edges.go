package budget

import (
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// edges finds positions where a text may be cut: between user-perceived
// characters, and outside blocks of code.
type edges struct {
	text   string
	fences []span // blocks of code with their marks, in order
}

// A span is the part text[from:to].
type span struct{ from, to int }

func newEdges(text string) edges { return edges{text, fences(text)} }

// fences finds the fenced blocks of Markdown, also in lists and quotations,
// without the line end after them. An unclosed block extends to the end of
// text.
func fences(text string) []span {
	var list []span
	open, at := "", 0
	for line := range strings.Lines(text) {
		before := " \t>"
		if open == "" {
			before = " \t>-*+"
		}
		mark, rest := fenceMark(strings.TrimLeft(line, before))
		switch {
		case open == "" && len(mark) >= 3 && (mark[0] == '~' || !strings.Contains(rest, "`")):
			open = mark
			list = append(list, span{at, len(text)})
		case open != "" && strings.HasPrefix(mark, open) && rest == "":
			open = ""
			list[len(list)-1].to = at + len(strings.TrimRight(line, "\r\n"))
		}
		at += len(line)
	}
	return list
}

// fenceMark returns the backquotes or tildes at the start of a line, and the
// rest of the line.
func fenceMark(line string) (mark, rest string) {
	if line == "" || line[0] != '`' && line[0] != '~' {
		return "", ""
	}
	rest = strings.TrimLeft(line, line[:1])
	return line[:len(line)-len(rest)], strings.TrimSpace(rest)
}

// around returns the last edge that is not after i, and the first one that is
// not before it.
func (e edges) around(i int) (before, after int) {
	if i <= 0 || i >= len(e.text) {
		i = min(max(i, 0), len(e.text))
		return i, i
	}
	if f := e.fence(i); f.from < i && i < f.to {
		return f.from, f.to
	}
	at := safe(e.text, i)
	for g := graphemes.FromString(e.text[at:]); at < i && g.Next(); {
		before = at
		at += len(g.Value())
	}
	if at == i {
		before = i
	}
	return before, at
}

// fence returns the last block that begins at i or before.
func (e edges) fence(i int) span {
	lo, hi := 0, len(e.fences)
	for lo < hi {
		if mid := (lo + hi) / 2; e.fences[mid].from <= i {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return span{}
	}
	return e.fences[lo-1]
}

// safe returns an offset at or before i where a character begins regardless of
// the preceding text: after two bytes of ASCII, or at least 4 KiB before i if
// there are none.
func safe(text string, i int) int {
	const back = 4 << 10
	for at := i; at > 0; at-- {
		if c := text[at]; c < utf8.RuneSelf && text[at-1] < utf8.RuneSelf && c != '\n' {
			return at
		}
		if i-at >= back && utf8.RuneStart(text[at]) {
			return at
		}
	}
	return 0
}
