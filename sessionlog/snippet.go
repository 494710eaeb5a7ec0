package sessionlog

import (
	"strings"
	"unicode/utf8"

	"crabmem/bm25"
)

// maxText is how much of a text a snippet and a message of a window show, in
// bytes.
const maxText = 1 << 10

const ellipsis = "…"

// clip returns the beginning of s, at most n bytes, cut between characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// beginning returns at most n bytes of text from its start, marked when more
// follows.
func beginning(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return clip(text, n-len(ellipsis)) + ellipsis
}

// snippet returns at most n bytes of text: the part with the most of the terms,
// marked where it was cut.
func snippet(text string, an bm25.Analyzer, weights map[string]float64, n int) string {
	if len(text) <= n {
		return text
	}
	room := n - 2*len(ellipsis)
	start, end := bestSpan(matches(text, an, weights), room)
	from := start - (room-(end-start))/2 // as much before it as after
	if from <= len(ellipsis) {
		return beginning(text, n)
	}
	if last := len(text) - room - len(ellipsis); from >= last {
		for from = last; !utf8.RuneStart(text[from]); {
			from++
		}
		return ellipsis + text[from:]
	}
	for !utf8.RuneStart(text[from]) {
		from++
	}
	return ellipsis + clip(text[from:], room) + ellipsis
}

// A match is a word of a text that has a term.
type match struct {
	start, end int
	term       string
	weight     float64
}

// matches finds the words of text that have terms.
func matches(text string, an bm25.Analyzer, weights map[string]float64) []match {
	f := finder{analyzer: an, weights: weights, known: make(map[string]string)}
	for term := range weights {
		if term[0] >= utf8.RuneSelf {
			f.wide = append(f.wide, term)
			continue
		}
		f.seconds[term[0]] += (term + "\x00")[1:2]
	}
	var ms []match
	for at := 0; at < len(text); {
		if !wordByte(text[at]) {
			at++
			continue
		}
		end, ascii := at, true
		for end < len(text) && wordByte(text[end]) {
			ascii = ascii && text[end] < utf8.RuneSelf
			end++
		}
		for at < end {
			to := end
			if !ascii && to-at > maxPiece {
				for to = at + maxPiece; !utf8.RuneStart(text[to]); {
					to--
				}
			}
			if term := f.term(text[at:to], ascii); term != "" {
				ms = append(ms, match{at, to, term, weights[term]})
			}
			at = to
		}
	}
	return ms
}

// maxPiece is how much of a word is looked at in one go, in bytes, when it may
// be of a script without spaces.
const maxPiece = 48

func wordByte(c byte) bool {
	return c >= utf8.RuneSelf || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// A finder tells which words have one of the terms. Analysis is the judge, and
// it is dear, so words that cannot have one are not brought before it.
type finder struct {
	analyzer bm25.Analyzer
	weights  map[string]float64
	// seconds has by the first byte of the ASCII terms their second bytes, 0 for
	// those that have none: an English stem begins as its word does.
	seconds [utf8.RuneSelf]string
	wide    []string          // terms of other scripts
	known   map[string]string // term by word, "" for none
}

// term returns the first term that a word has, or "".
func (f *finder) term(word string, ascii bool) string {
	if len(word) > maxText || ascii && !f.mayHave(word) || !ascii && !f.mayHaveWide(word) {
		return ""
	}
	term, ok := f.known[word]
	if !ok {
		for t := range f.analyzer.Tokens(word) {
			if _, ok := f.weights[t]; ok {
				term = t
				break
			}
		}
		f.known[word] = term
	}
	return term
}

// mayHave reports whether the word, or a part of it that a capital or a digit
// sets off, begins as one of the terms.
func (f *finder) mayHave(word string) bool {
	for i := range len(word) {
		c := word[i]
		if i > 0 && c|0x20 == c && (c <= '9') == (word[i-1] <= '9') {
			continue
		}
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		seconds := f.seconds[c]
		if seconds == "" {
			continue
		}
		next := byte(0)
		if i+1 < len(word) {
			next = word[i+1]
			if next > '9' {
				next |= 0x20
			}
		}
		if strings.IndexByte(seconds, next) >= 0 || strings.IndexByte(seconds, 0) >= 0 {
			return true
		}
	}
	return false
}

// mayHaveWide is mayHave for a word that is not all ASCII. What is Chinese,
// Japanese or Korean from end to end has its terms as they are.
func (f *finder) mayHaveWide(word string) bool {
	for i := range len(word) {
		switch c := word[i]; {
		case 0x80 <= c && c < 0xc0: // not the first byte of a character
		case c < 0xe3, c == 0xef: // 0xef begins the full-width forms
			return true
		}
	}
	for _, term := range f.wide {
		if strings.Contains(word, term) {
			return true
		}
	}
	return false
}

// bestSpan returns the span of at most n bytes that holds the most weight: a
// term counts in full once, and a little every time again.
func bestSpan(ms []match, n int) (start, end int) {
	const again = 1.0 / 16
	count := make(map[string]int)
	sum, best := 0.0, 0.0
	lo := 0
	for _, m := range ms {
		if count[m.term]++; count[m.term] == 1 {
			sum += m.weight
		} else {
			sum += m.weight * again
		}
		for m.end-ms[lo].start > n {
			l := ms[lo]
			if count[l.term]--; count[l.term] == 0 {
				sum -= l.weight
			} else {
				sum -= l.weight * again
			}
			lo++
		}
		if sum > best+1e-9 {
			best, start, end = sum, ms[lo].start, m.end
		}
	}
	return start, end
}
