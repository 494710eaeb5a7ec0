package budget

import (
	"strings"
	"unicode/utf8"

	"crabmem/bm25/snippet"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// An excerpt selects parts of a text around its matches.
type excerpt struct {
	edges
	matches []snippet.Match // those in a block of code are as long as the block
}

func newExcerpt(text string, ms []snippet.Match) *excerpt {
	x := &excerpt{newEdges(text), ms}
	for i := range ms {
		if f := x.fence(ms[i].Start); ms[i].Start < f.to {
			ms[i].Start, ms[i].End = f.from, f.to
		}
	}
	return x
}

// fit returns a part of at most limit tokens, including a line end, and close
// to that limit. It returns "" if no part is short enough.
func (x *excerpt) fit(limit int) (part string, tokens int) {
	low, high := 0, len(x.text) // bytes that fit, and that do not
	for n, try := 4*limit, 0; try < 8; try++ {
		if n <= low || n >= high {
			n = (low + high) / 2
		}
		if n == low {
			break
		}
		text := x.render(x.window(n))
		c := 0
		if text != "" {
			c = Count(text + "\n")
		}
		if c > limit {
			high = n
		} else {
			low = n
			if c > tokens {
				part, tokens = text, c
			}
			if c >= limit-limit/100 {
				break
			}
		}
		n = int(int64(n) * int64(limit) / int64(max(c, 1)))
	}
	return part, tokens
}

const blank = " \t\r\n"

// window returns a span of at most n bytes: the one with the highest weight of
// matches, or else the beginning. If a block of code does not fit at the
// beginning, the span starts after it.
func (x *excerpt) window(n int) span {
	start, end := snippet.Best(x.matches, n)
	if end == 0 {
		from := 0
		for _, f := range x.fences {
			if s := x.trim(span{from, min(from+n, f.from)}); s.from < s.to {
				return s
			}
			from = f.to
		}
		return x.trim(span{from, from + n})
	}
	from := max(start-(n-(end-start))/2, 0) // as much before it as after
	to := from + n
	if to > len(x.text) {
		from, to = max(len(x.text)-n, 0), len(x.text)
	}
	const word = 24 // how far an edge is moved to where a word ends
	if from > 0 {
		if i := strings.IndexAny(x.text[from:min(start, from+word)], blank); i >= 0 {
			from += i
		}
	}
	if at := max(end, to-word); to < len(x.text) && at < to {
		if i := strings.LastIndexAny(x.text[at:to], blank); i >= 0 {
			to = at + i
		}
	}
	return x.trim(span{from, to})
}

// trim moves the ends of s to edges, inwards, and past white space.
func (x *excerpt) trim(s span) span {
	_, s.from = x.around(s.from)
	s.to, _ = x.around(s.to)
	if s.from > 0 && s.from < s.to {
		rest := x.text[s.from:s.to]
		space := rest[:len(rest)-len(strings.TrimLeft(rest, blank))]
		if i := strings.LastIndexByte(space, '\n'); i >= 0 {
			s.from += i + 1 // the indentation stays
		} else if x.text[s.from-1] != '\n' {
			s.from += len(space)
		}
		_, s.from = x.around(s.from)
	}
	if s.to < len(x.text) && s.from < s.to {
		s.to = s.from + len(strings.TrimRight(x.text[s.from:s.to], blank))
		s.to, _ = x.around(s.to)
	}
	return s
}

// render returns the text of a span with marks where text is left out. A mark
// is never on the line of a fence, which it would corrupt.
func (x *excerpt) render(s span) string {
	if s.from >= s.to {
		return ""
	}
	before, after := "", ""
	if s.from > 0 {
		before = "…"
		if x.text[s.from-1] == '\n' {
			before = "…\n"
		}
	}
	if s.to < len(x.text) {
		after = "…"
		if c := x.text[s.to]; c == '\n' || c == '\r' {
			after = "\n…"
		}
	}
	return before + x.text[s.from:s.to] + after
}

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
