package budget

import (
	"strings"

	"crabmem/bm25/snippet"
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
