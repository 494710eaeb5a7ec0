package snippet

import (
	"strings"
	"unicode/utf8"

	"crabmem/bm25/analysis"
)

// A Match is a place of a text that has a term: text[Start:End].
type Match struct {
	Start, End int
	Term       string
	Weight     float64
}

// Matches finds the words of text that have terms, in order.
func Matches(text string, an analysis.Analyzer, weights map[string]float64) []Match {
	f := finder{analyzer: an, weights: weights, known: make(map[string]string)}
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

// maxPiece is how much of a word is looked at in one go, in bytes, when it may
// be of a script without spaces.
const maxPiece = 48

// maxWord is how long a word is at most that may have a term, in bytes.
const maxWord = 1 << 10

func wordByte(c byte) bool {
	return c >= utf8.RuneSelf || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// A finder tells which words have one of the terms. Analysis is the judge, and
// it is dear, so words that cannot have one are not brought before it.
type finder struct {
	analyzer analysis.Analyzer
	weights  map[string]float64
	// seconds has by the first byte of the ASCII terms their second bytes, 0 for
	// those that have none: an English stem begins as its word does.
	seconds [utf8.RuneSelf]string
	wide    []string          // terms of other scripts
	known   map[string]string // term by word, "" for none
}

// term returns the first term that a word has, or "".
func (f *finder) term(word string, ascii bool) string {
	if len(word) > maxWord || ascii && !f.mayHave(word) || !ascii && !f.mayHaveWide(word) {
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
