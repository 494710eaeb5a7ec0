package snippet

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"crabmem/bm25/analysis"
)

// A Match is a part of a text, text[Start:End], that contains a term.
type Match struct {
	Start, End int
	Term       string
	Weight     float64
}

// Matches returns the words of text with a term in weights, in order of their ends. In
// unspaced scripts these are characters, and pairs of characters.
func Matches(text string, an analysis.Analyzer, weights map[string]float64) []Match {
	f := finder{analyzer: an, weights: weights, terms: make(map[string]string), chars: make(map[string]string)}
	for term := range weights {
		if term != "" && term[0] < utf8.RuneSelf {
			f.seconds[term[0]] += (term + "\x00")[1:2]
		}
	}
	var ms []Match
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
			if an == analysis.Standard && !ascii {
				if to = at + unspaced(text[at:end], true); to > at {
					ms = f.pairs(ms, text, at, to)
					at = to
					continue
				}
				to = at + unspaced(text[at:end], false)
			}
			if term := f.term(text[at:to], ascii); term != "" {
				m := Match{at, to, term, weights[term]}
				if i := strings.Index(text[at:to], term); i >= 0 && !ascii {
					m.Start, m.End = at+i, at+i+len(term)
				}
				ms = append(ms, m)
			}
			at = to
		}
	}
	return ms
}

// maxWord is the length of the longest word that can match, in bytes.
const maxWord = 1 << 10

func wordByte(c byte) bool {
	return c >= utf8.RuneSelf || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// A finder finds the terms of words. Analysis is slow, so the finder first excludes
// words that cannot have one of the terms.
type finder struct {
	analyzer analysis.Analyzer
	weights  map[string]float64
	// seconds contains, by the first byte of the ASCII terms, their second bytes, or
	// 0 for terms of one byte: an English stem begins like its word.
	seconds [utf8.RuneSelf]string
	terms   map[string]string // cache: term by word, or ""
	chars   map[string]string // cache: folded character of an unspaced script, or "" if no term has it
	scanner analysis.Scanner
}

// term returns the first term of a word that is in weights, or "".
func (f *finder) term(word string, ascii bool) string {
	if len(word) > maxWord || ascii && !f.mayHave(word) {
		return ""
	}
	term, ok := f.terms[word]
	if !ok {
		for t := range f.analyzer.Tokens(word) {
			if _, ok := f.weights[t]; ok {
				term = t
				break
			}
		}
		f.terms[word] = term
	}
	return term
}

// mayHave reports whether the word, or a part of it that begins with a capital or a
// digit, begins like one of the terms.
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

// unspaced returns the length of the longest prefix of text whose characters are all of
// unspaced scripts, or all of others.
func unspaced(text string, all bool) int {
	for i, r := range text {
		if analysis.IsUnspaced(r) != all && (i == 0 || !unicode.IsMark(r)) {
			return i
		}
	}
	return len(text)
}

// pairs appends the matches in text[at:end], which is of an unspaced script.
func (f *finder) pairs(ms []Match, text string, at, end int) []Match {
	before, start := "", at
	for at < end {
		_, n := utf8.DecodeRuneInString(text[at:])
		to := end - len(strings.TrimLeftFunc(text[at+n:end], unicode.IsMark))
		c := f.char(text[at:to])
		if w, ok := f.weights[before+c]; ok && before != "" && c != "" {
			ms = append(ms, Match{start, to, before + c, w})
		}
		if w, ok := f.weights[c]; ok && c != "" {
			ms = append(ms, Match{at, to, c, w})
		}
		before, start, at = c, at, to
	}
	return ms
}

// char returns a character of an unspaced script, with its marks, as terms contain it, or
// "" if no term does.
func (f *finder) char(s string) string {
	c, ok := f.chars[s]
	if !ok {
		f.scanner.Terms([]byte(s), func(folded []byte) {
			for term := range f.weights {
				if strings.Contains(term, string(folded)) {
					c = string(folded)
				}
			}
		})
		f.chars[s] = c
	}
	return c
}
