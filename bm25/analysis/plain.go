package analysis

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// plainStopWords are the words that Plain omits.
var plainStopWords = []string{
	"a", "an", "the", "is", "it", "in", "of", "to", "and", "or", "for", "on", "at", "by", "with", "as",
	"be", "was", "are", "been", "has", "had", "have", "do", "does", "did", "but", "not", "no", "if",
	"so", "from", "that", "this", "then", "than", "into", "its", "my", "me", "we", "he", "she", "they",
	"you", "your", "our", "his", "her",
}

var plainStop = wordSet(plainStopWords)

func wordSet(words []string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}

// plain emits the terms of a run under Plain, stop words included.
func (u *unicodeFolder) plain(run []byte, emit func([]byte)) {
	for word := range bytes.FieldsFuncSeq(run, func(r rune) bool { return !alphanumeric(r) }) {
		if utf8.RuneCount(word) > 1 {
			u.out = appendLower(u.out[:0], word)
			emit(u.out)
		}
	}
}

// alphanumeric reports whether r has the Unicode property Alphabetic or is a
// number. utf8.RuneError is neither, so invalid bytes separate words.
func alphanumeric(r rune) bool {
	if r < utf8.RuneSelf {
		return wordByte(byte(r))
	}
	return unicode.In(r, unicode.L, unicode.Nl, unicode.Nd, unicode.No, unicode.Other_Alphabetic)
}

// appendLower appends the full Unicode lower case of word: İ becomes two code
// points, and a capital sigma at the end of a word becomes the final sigma.
func appendLower(dst, word []byte) []byte {
	for i := 0; i < len(word); {
		r, size := utf8.DecodeRune(word[i:])
		switch {
		case r == 'İ':
			dst = append(dst, "i\u0307"...)
		case r == 'Σ' && casedBefore(word[:i]) && !casedAfter(word[i+size:]):
			dst = append(dst, "ς"...)
		default:
			dst = utf8.AppendRune(dst, unicode.ToLower(r))
		}
		i += size
	}
	return dst
}

// casedBefore reports whether b ends in a cased letter, except for case-ignorable
// characters.
func casedBefore(b []byte) bool {
	r, _ := utf8.DecodeLastRune(bytes.TrimRightFunc(b, caseIgnorable))
	return cased(r)
}

// casedAfter reports whether b begins with a cased letter, except for
// case-ignorable characters.
func casedAfter(b []byte) bool {
	r, _ := utf8.DecodeRune(bytes.TrimLeftFunc(b, caseIgnorable))
	return cased(r)
}

func cased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

// caseIgnorable reports whether r has the Unicode property Case_Ignorable, for the
// characters that words contain.
func caseIgnorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
}
