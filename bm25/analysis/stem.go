package analysis

import (
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/russian"
)

// Words of scripts other than Latin are stemmed by script, as no text says what
// language it is in. Other languages of the same script lose little: their
// words are stemmed alike in documents and queries.

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
		if stem := arabicStem(u.out[:0], word); len(stem) > 0 {
			return stem
		}
	case unicode.Is(unicode.Devanagari, r):
		return hindiStem(word)
	}
	return word
}

// hebrew emits a Hebrew word without the first letter, and without two, where
// these may be the article, a preposition or a conjunction that is written
// together with it. Which they are no rule can tell, so the whole is kept.
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
