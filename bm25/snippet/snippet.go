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
// of a term counts fully, each further one a sixteenth. The span neither begins nor ends
// with a match of a term that it contains again, so that a cut around it shows all terms.
func Best(ms []Match, n int) (start, end int) {
	const again = 1.0 / 16
	count := make(map[string]int)
	sum, best := 0.0, 0.0
	lo, first, last := 0, 0, -1
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
			best, first, last = sum, lo, hi
		}
	}
	if last < 0 {
		return 0, 0
	}
	clear(count)
	for _, m := range ms[first : last+1] {
		count[m.Term]++
	}
	for ; count[ms[first].Term] > 1; first++ {
		count[ms[first].Term]--
	}
	for ; count[ms[last].Term] > 1; last-- {
		count[ms[last].Term]--
	}
	return ms[first].Start, ms[last].End
}
