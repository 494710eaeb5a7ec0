// Package snippet cuts the part of a text that contains the most of a query.
package snippet

import (
	"strings"
	"unicode/utf8"

	"crabmem/bm25/analysis"
	"crabmem/bm25/clip"
)

const ellipsis = "…"

// Cut returns at most n bytes of text: the part with the largest weight of terms.
// Ellipses mark the cuts.
func Cut(text string, an analysis.Analyzer, weights map[string]float64, n int) string {
	if len(text) <= n {
		return text
	}
	room := n - 2*len(ellipsis)
	if room < 2*len(ellipsis) {
		return clip.Bytes(text, n)
	}
	start, end := Best(Matches(text, an, weights), room)
	if end <= n-len(ellipsis) { // the beginning contains it
		return clip.Marked(text, n)
	}
	from := start - (room-(end-start))/2 // as much before it as after
	if last := len(text) - room - len(ellipsis); from >= last {
		for from = last; from < len(text) && !utf8.RuneStart(text[from]); {
			from++
		}
		return ellipsis + text[from:]
	}
	for from < start && !utf8.RuneStart(text[from]) {
		from++
	}
	if i := strings.IndexAny(text[from:min(start, from+24)], " \n\t"); i >= 0 { // from the start of a word
		from += i + 1
	}
	return ellipsis + clip.Bytes(text[from:], room) + ellipsis
}

// Best returns the span of at most n bytes with the largest weight. The first match
// of a term counts fully, each further one a sixteenth.
func Best(ms []Match, n int) (start, end int) {
	const again = 1.0 / 16
	count := make(map[string]int)
	sum, best := 0.0, 0.0
	lo := 0
	for hi, m := range ms {
		if count[m.Term]++; count[m.Term] == 1 {
			sum += m.Weight
		} else {
			sum += m.Weight * again
		}
		for lo <= hi && m.End-ms[lo].Start > n {
			l := ms[lo]
			if count[l.Term]--; count[l.Term] == 0 {
				sum -= l.Weight
			} else {
				sum -= l.Weight * again
			}
			lo++
		}
		if sum > best+1e-9 {
			best, start, end = sum, ms[lo].Start, m.End
		}
	}
	return start, end
}
