package main

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"crabmem/bm25"
)

// bytesPerToken is the estimate that budgets count with.
const bytesPerToken = 4

const ellipsis = "…"

// spend cuts the texts of the hits so that together they have at most budget
// tokens: as much as possible to each, the best first where it does not go
// round.
func (a *recallAnswer) spend(budget int, an bm25.Analyzer, explain []bm25.Explanation) {
	share := shares(a.Hits, budget*bytesPerToken)
	total, carry := 0, 0
	for i := range a.Hits {
		h := &a.Hits[i]
		n := share[i] + carry // texts end between characters: what is over goes on
		text := *h.Content
		if len(text) > n {
			text = snippet(text, an, weights(explain[i]), n)
			h.Content, h.Snippet = nil, &text
		}
		carry = n - len(text)
		total += len(text)
		t := tokens(len(text))
		h.Tokens = &t
	}
	t := tokens(total)
	a.Tokens = &t
}

func tokens(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

// shares divides bytes among the hits: nobody gets more than it has, and what
// that leaves goes to the others alike. Hits that would get less than a line
// get nothing.
func shares(hits []recalled, bytes int) []int {
	const line = 64
	share := make([]int, len(hits))
	n := max(1, min(len(hits), bytes/line))
	open := make([]int, 0, n)
	for i := range hits[:min(n, len(hits))] {
		open = append(open, i)
	}
	for len(open) > 0 {
		each := bytes / len(open)
		var rest []int
		for _, i := range open {
			if size := len(*hits[i].Content); size <= each {
				share[i] = size
				bytes -= size
			} else {
				rest = append(rest, i)
			}
		}
		if len(rest) == len(open) {
			for k, i := range open {
				share[i] = each
				if k < bytes%len(open) {
					share[i]++
				}
			}
			return share
		}
		open = rest
	}
	return share
}

// weights are the terms of an explanation and what they count for.
func weights(e bm25.Explanation) map[string]float64 {
	w := make(map[string]float64, len(e.Terms))
	for _, t := range e.Terms {
		w[t.Term] = t.IDF
	}
	return w
}

// snippet returns at most n bytes of text: the part with the most of the
// terms, marked where it was cut.
func snippet(text string, an bm25.Analyzer, terms map[string]float64, n int) string {
	if len(text) <= n {
		return text
	}
	if n < 4*len(ellipsis) {
		return cutBytes(text, n)
	}
	start, end := bestSpan(matches(text, an, terms), n-2*len(ellipsis))
	if end <= n-len(ellipsis) { // the beginning shows it
		return cutBytes(text, n-len(ellipsis)) + ellipsis
	}
	// Around what matched, as much before as after, from the start of a word.
	from := start - (n-2*len(ellipsis)-(end-start))/2
	if from >= len(text)-(n-len(ellipsis)) { // the end shows it
		from = len(text) - (n - len(ellipsis))
		for !utf8.RuneStart(text[from]) {
			from++
		}
		return ellipsis + text[from:]
	}
	for !utf8.RuneStart(text[from]) {
		from++
	}
	if i := strings.IndexAny(text[from:min(start, from+24)], " \n\t"); i >= 0 {
		from += i + 1
	}
	return ellipsis + cutBytes(text[from:], n-2*len(ellipsis)) + ellipsis
}

// match is a place of a term in a text.
type match struct {
	start, end int
	weight     float64
	term       string
}

// scanLimit bounds how much of a text is looked through for matches.
const scanLimit = 1 << 20

// matches finds the words of text that the analyzer turns into one of the
// terms. Scripts without spaces are looked at in pairs of characters.
func matches(text string, an bm25.Analyzer, terms map[string]float64) []match {
	text = cutBytes(text, scanLimit)
	known := make(map[string]string) // word → its term, or ""
	look := func(word string) string {
		term, ok := known[word]
		if !ok {
			for t := range an.Tokens(word) {
				if _, ok := terms[t]; ok {
					term = t
					break
				}
			}
			known[word] = term
		}
		return term
	}
	var ms []match
	add := func(start, end int) {
		if t := look(text[start:end]); t != "" {
			ms = append(ms, match{start, end, terms[t], t})
		}
	}
	word, wide := -1, -1 // where the present word and the last wide character began
	for i, r := range text {
		letter := unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '_' || r == '\''
		isWide := letter && runeColumns(r) == 2
		if word >= 0 && (!letter || isWide) {
			add(word, i)
			word = -1
		}
		if isWide {
			if wide >= 0 {
				add(wide, i+utf8.RuneLen(r))
			} else {
				add(i, i+utf8.RuneLen(r))
			}
			wide = i
			continue
		}
		wide = -1
		if letter && word < 0 {
			word = i
		}
	}
	if word >= 0 {
		add(word, len(text))
	}
	return ms
}

// bestSpan returns the span of at most n bytes that holds the most weight: a
// term counts in full once, and a little every time again.
func bestSpan(ms []match, n int) (start, end int) {
	count := make(map[string]int)
	var sum, best float64
	lo := 0
	for hi, m := range ms {
		if count[m.term]++; count[m.term] == 1 {
			sum += m.weight
		} else {
			sum += m.weight / 16
		}
		for lo < hi && m.end-ms[lo].start > n {
			l := ms[lo]
			if count[l.term]--; count[l.term] == 0 {
				sum -= l.weight
			} else {
				sum -= l.weight / 16
			}
			lo++
		}
		if sum > best+1e-9 {
			best, start, end = sum, ms[lo].start, m.end
		}
	}
	return start, min(end, start+n)
}

// oneLine is text with its white space made single blanks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
