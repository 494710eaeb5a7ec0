package snippet

import (
	"strings"
	"unicode/utf8"

	"crabmem/bm25/analysis"
)

// A Match is a part of a text, text[Start:End], that contains a term.
type Match struct {
	Start, End int
	Term       string
	Weight     float64
}

// Matches returns the words of text with a term in weights, in order.
func Matches(text string, an analysis.Analyzer, weights map[string]float64) []Match {
	f := finder{analyzer: an, weights: weights, terms: make(map[string]string)}
	for term := range weights {
		if term == "" {
			continue
		}
		if term[0] >= utf8.RuneSelf {
			f.wide = append(f.wide, term)
			continue
		}
		f.seconds[term[0]] += (term + "\x00")[1:2]
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
			if !ascii && to-at > maxPiece {
				for to = at + maxPiece; !utf8.RuneStart(text[to]) && to > at+maxPiece-utf8.UTFMax; {
					to--
				}
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

// maxPiece is the length of the parts, in bytes, into which Matches splits a word
// that may be of an unspaced script.
const maxPiece = 48

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
	wide    []string          // terms of other scripts
	terms   map[string]string // cache: term by word, or ""
}

// term returns the first term of a word that is in weights, or "".
func (f *finder) term(word string, ascii bool) string {
	if len(word) > maxWord || ascii && !f.mayHave(word) || !ascii && !f.mayHaveWide(word) {
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

// mayHaveWide is mayHave for a word that is not ASCII. A word of Chinese, Japanese,
// or Korean characters only contains its terms literally.
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
