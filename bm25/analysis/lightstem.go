package analysis

import (
	"bytes"
	"unicode/utf8"
)

// The light stemmers of Arabic and Hindi follow Apache Lucene and bleve (Apache
// License 2.0), without their token streams.

// arabicStem removes the first prefix that fits, then each suffix that fits, in
// this order.
var (
	arabicPrefixes = [...]string{"ال", "وال", "بال", "كال", "فال", "لل", "و"}
	arabicSuffixes = [...]string{"ها", "ان", "ات", "ون", "ين", "يه", "ه", "ي"}
)

// arabicStem appends the stem of an Arabic word to dst: without vowel marks, a
// prefix, and suffixes, and with one spelling of alef, yeh, and teh marbuta. The
// word starts with a letter, so the stem is not empty.
func arabicStem(dst, word []byte) []byte {
	start := len(dst)
	for len(word) > 0 {
		r, size := utf8.DecodeRune(word)
		word = word[size:]
		switch {
		case r == '\u0622' || r == '\u0623' || r == '\u0625': // alef with madda or hamza
			r = '\u0627'
		case r == '\u0649': // dotless yeh
			r = '\u064a'
		case r == '\u0629': // teh marbuta
			r = '\u0647'
		case r == '\u0640' || r >= '\u064b' && r <= '\u0652': // tatweel, marks
			continue
		}
		dst = utf8.AppendRune(dst, r)
	}
	stem := dst[start:]
	for _, p := range arabicPrefixes {
		if bytes.HasPrefix(stem, []byte(p)) && utf8.RuneCount(stem) >= max(4, utf8.RuneCountInString(p)+2) {
			stem = stem[len(p):]
			break
		}
	}
	for _, s := range arabicSuffixes {
		if bytes.HasSuffix(stem, []byte(s)) && utf8.RuneCount(stem) >= utf8.RuneCountInString(s)+2 {
			stem = stem[:len(stem)-len(s)]
		}
	}
	return stem
}

// hindiSuffixes contains the suffixes by their number of code points.
var hindiSuffixes = [...][]string{
	5: {"ाएंगी", "ाएंगे", "ाऊंगी", "ाऊंगा", "ाइयाँ", "ाइयों", "ाइयां"},
	4: {"ाएगी", "ाएगा", "ाओगी", "ाओगे", "एंगी", "ेंगी", "एंगे", "ेंगे", "ूंगी", "ूंगा", "ातीं", "नाओं", "नाएं", "ताओं", "ताएं", "ियाँ", "ियों", "ियां"},
	3: {"ाकर", "ाइए", "ाईं", "ाया", "ेगी", "ेगा", "ोगी", "ोगे", "ाने", "ाना", "ाते", "ाती", "ाता", "तीं", "ाओं", "ाएं", "ुओं", "ुएं", "ुआं"},
	2: {"कर", "ाओ", "िए", "ाई", "ाए", "ने", "नी", "ना", "ते", "ीं", "ती", "ता", "ाँ", "ां", "ों", "ें"},
	1: {"ो", "े", "ू", "ु", "ी", "ि", "ा"},
}

// hindiStem returns a word without its longest suffix that leaves at least two code
// points.
func hindiStem(word []byte) []byte {
	letters := utf8.RuneCount(word)
	for n := min(len(hindiSuffixes)-1, letters-2); n > 0; n-- {
		for _, s := range hindiSuffixes[n] {
			if bytes.HasSuffix(word, []byte(s)) {
				return word[:len(word)-len(s)]
			}
		}
	}
	return word
}
