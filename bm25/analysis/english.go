package analysis

import (
	_ "embed"
	"sort"
	"strings"
)

// endings are the steps of Porter's paper of 1980 that follow inflections: endings and
// their replacements. Of the endings that its last step removes, these remain: builder,
// readable, movement, connection, tokenize. The others give one stem to general and
// generate, and to universe and university.
var endings = [...][]string{
	strings.Split("ational ate tional tion enci ence anci ance izer ize logi log bli ble alli al entli ent eli e ousli ous "+
		"ization ize ation ate ator ate alism al iveness ive fulness ful ousness ous aliti al iviti ive biliti ble", " "),
	strings.Split("icate ic ative  alize al iciti ic ical ic ful  ness ", " "),
	strings.Split("er  able  ible  ement  ment  ion  ize ", " "),
}

// porter returns the stem of a word of 3 to maxStem lower-case ASCII letters, which it
// overwrites.
func porter(word []byte) []byte {
	if base, ok := cut(word, "s"); ok && base[len(base)-1] != 's' && regular(word) == "" {
		if word = base; ends(base, "sse") || ends(base, "ie") {
			word = base[:len(base)-1]
		}
	}
	if regular(word) != "" {
		return word // it has no ending
	}
	word = present(word)
	if n := len(word) - 1; n > 0 && word[n] == 'y' && !isVowel(word, n-1) && hasVowel(word[:n]) {
		word[n] = 'i' // a y after a vowel stays: deploy, deployment
	}
	for step, list := range endings {
		for i := 0; i < len(list); i += 2 {
			base, ok := cut(word, list[i])
			if !ok {
				continue
			}
			if last := base[len(base)-1]; measure(base) > step/2 && (list[i] != "ion" || last == 's' || last == 't') {
				word = append(base, list[i+1]...)
			}
			break
		}
	}
	if base, ok := cut(word, "e"); ok && (measure(base) > 1 || measure(base) == 1 && !isShort(base)) {
		word = base
	}
	if base, ok := cut(word, "l"); ok && base[len(base)-1] == 'l' && measure(base) > 1 {
		word = base
	}
	return word
}

// present removes the ending of a past or participle.
func present(word []byte) []byte {
	if base, ok := cut(word, "eed"); ok {
		if measure(base) > 0 {
			word = word[:len(word)-1]
		}
		return word
	}
	base, ok := cut(word, "ed")
	if !ok || !hasVowel(base) {
		if base, ok = cut(word, "ing"); !ok || !hasVowel(base) {
			return word
		}
	}
	last := base[len(base)-1]
	switch {
	case ends(base, "at"), ends(base, "bl"), ends(base, "iz"), measure(base) == 1 && isShort(base):
		base = append(base, 'e')
	case len(base) > 3 && last == base[len(base)-2] && !isVowel(base, len(base)-1) && strings.IndexByte("lsz", last) < 0:
		base = base[:len(base)-1]
	}
	return base
}

// cut returns a longer word without an ending.
func cut(word []byte, ending string) (base []byte, ok bool) {
	n := len(word) - len(ending)
	if n > 0 && string(word[n:]) == ending {
		return word[:n], true
	}
	return nil, false
}

func ends(word []byte, ending string) bool {
	_, ok := cut(word, ending)
	return ok
}

// isVowel reports whether letter i is a vowel. A y is one after a consonant, and a u is one
// except after a q.
func isVowel(word []byte, i int) bool {
	switch word[i] {
	case 'a', 'e', 'i', 'o':
		return true
	case 'u':
		return i == 0 || word[i-1] != 'q'
	case 'y':
		return i > 0 && !isVowel(word, i-1)
	}
	return false
}

func hasVowel(word []byte) bool {
	for i := range word {
		if isVowel(word, i) {
			return true
		}
	}
	return false
}

// measure returns how often a consonant follows a vowel. Words of another meaning than
// these have longer endings: organ and organize.
func measure(word []byte) (n int) {
	for _, beginning := range [...]string{"organ", "author", "patron", "colon", "canon"} {
		if len(word) >= len(beginning) && string(word[:len(beginning)]) == beginning {
			word, n = word[len(beginning)-1:], 1
		}
	}
	for i := range word[1:] {
		if isVowel(word, i) && !isVowel(word, i+1) {
			n++
		}
	}
	return n
}

// isShort reports whether a word ends in consonant, vowel, and a consonant except w, x,
// and y, or consists of the latter two.
func isShort(word []byte) bool {
	n := len(word)
	return n > 1 && (n == 2 || !isVowel(word, n-3)) && isVowel(word, n-2) && !isVowel(word, n-1) && strings.IndexByte("wxy", word[n-1]) < 0
}

// english lists the stems of usual English words, ascending, each with the words that a
// search for it may also mean: those derived from the same word, its shorter and longer
// forms, and its other spellings. DESIGN.md describes its sources.
//
//go:embed english.txt
var english string

// Related returns the words that a query word with a stem may also mean. It reports whether
// a usual English word has the stem.
func Related(stem string) (words []string, isUsual bool) {
	at := sort.Search(len(english), func(i int) bool {
		line, _, _ := strings.Cut(english[strings.LastIndexByte(english[:i], '\n')+1:], "\n")
		key, _, _ := strings.Cut(line, " ")
		return key >= stem
	})
	line, _, _ := strings.Cut(english[strings.LastIndexByte(english[:at], '\n')+1:], "\n")
	words = strings.Fields(line)
	if len(words) == 0 || words[0] != stem {
		return nil, false
	}
	return words[1:], true
}
