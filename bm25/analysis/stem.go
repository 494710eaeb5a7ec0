package analysis

import (
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/russian"
)

// The script selects the stemmer of words that are not Latin, as the language of a
// text is unknown. Other languages of the script lose little: documents and queries
// get the same stems.

// stemForeign returns the stem of a folded word that does not start with an
// ASCII character: Russian for Cyrillic, Arabic and Hindi for their scripts,
// the word itself for others.
func (u *unicodeFolder) stemForeign(word []byte) []byte {
	if len(word) > 2*maxStem {
		return word
	}
	switch r, _ := utf8.DecodeRune(word); {
	case unicode.Is(unicode.Cyrillic, r):
		if u.snowball == nil {
			u.snowball = snowballstem.NewEnv("")
		}
		u.snowball.SetCurrent(string(word))
		russian.Stem(u.snowball)
		return append(u.out[:0], u.snowball.Current()...)
	case unicode.Is(unicode.Arabic, r):
		return arabicStem(u.out[:0], word)
	case unicode.Is(unicode.Devanagari, r):
		return hindiStem(word)
	}
	return word
}

// hebrew emits a Hebrew word without its first letter, and without its first two,
// if these may be an attached article, preposition, or conjunction. stem emits the
// complete word, because no rule identifies the prefix.
func hebrew(word []byte, emit func([]byte)) {
	for range 2 {
		if len(word) < len("הבית") || len(word) > 2*maxStem {
			return
		}
		switch r, size := utf8.DecodeRune(word); r {
		case 'ה', 'ו', 'ב', 'כ', 'ל', 'מ', 'ש':
			word = word[size:]
			emit(word)
		default:
			return
		}
	}
}
