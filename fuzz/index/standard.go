package index

import (
	_ "embed"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"crabmem/bm25/analysis"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/russian"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// irregularForms contains one word per line, followed by its irregular forms. The
// index replaces a form with the word.
//
//go:embed irregular.txt
var irregularForms string

var regular = func() map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(irregularForms) {
		if words := strings.Fields(line); len(words) > 0 {
			for _, form := range words[1:] {
				m[form] = words[0]
			}
		}
	}
	return m
}()

// standardTokens returns the terms of a text under analysis.Standard, in order. It
// shares no code with bm25. It covers texts whose words are separated by spaces
// and newlines. Each word must be of one kind: ASCII letters, also in camelCase;
// letters of Latin-1 and Latin Extended-A; Greek; Russian; Han and kana. ok is
// false for any other text. Digits, punctuation, dates, contractions, emoji, other
// scripts, width folding, separate marks, and query terms are not covered.
func standardTokens(s string) (tokens []string, ok bool) {
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\n' }) {
		switch {
		case only(word, asciiLetter):
			tokens = append(tokens, identifierTokens(word)...)
		case only(word, latinLetter), only(word, greekLetter):
			tokens = append(tokens, englishStem(unmarked(word)))
		case only(word, russianLetter):
			env := snowballstem.NewEnv(strings.ReplaceAll(strings.ToLower(word), "ё", "е"))
			if len(word) <= 2*longestStemmed {
				russian.Stem(env)
			}
			tokens = append(tokens, env.Current())
		case only(word, unspaced):
			prev := ""
			for _, r := range word {
				if r >= 'ァ' && r <= 'ヶ' { // katakana become hiragana
					r -= 'ァ' - 'ぁ'
				}
				if prev != "" {
					tokens = append(tokens, prev+string(r))
				}
				prev = string(r)
				tokens = append(tokens, prev)
			}
		default:
			return nil, false
		}
	}
	return tokens, true
}

func only(word string, kind func(rune) bool) bool {
	return strings.IndexFunc(word, func(r rune) bool { return !kind(r) }) < 0
}

func asciiLetter(r rune) bool { return r < 0x80 && unicode.IsLetter(r) }

// latinLetter excludes letters whose decomposition contains a non-letter.
func latinLetter(r rune) bool {
	return asciiLetter(r) || r >= 'À' && r <= 'ž' && unicode.IsLetter(r) && r != 'Ŀ' && r != 'ŀ' && r != 'ŉ'
}

func greekLetter(r rune) bool   { return r >= 'Ά' && r <= 'ώ' && unicode.IsLetter(r) }
func russianLetter(r rune) bool { return r >= 'А' && r <= 'я' || r == 'Ё' || r == 'ё' }

func unspaced(r rune) bool {
	return r >= '一' && r <= 0x9fff && unicode.Is(unicode.Han, r) || r >= 'ぁ' && r <= 'ゖ' || r >= 'ァ' && r <= 'ヶ' || r == 'ー'
}

// unmarked returns a word in lower case and without diacritical marks.
func unmarked(word string) string {
	s, _, err := transform.String(transform.Chain(norm.NFKD, runes.Remove(runes.In(unicode.Mn)), norm.NFC), word)
	if err != nil {
		panic("index: " + err.Error())
	}
	return strings.NewReplacer("ς", "σ", "ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "ł", "l", "đ", "d", "ð", "d", "þ", "th", "ħ", "h",
		"ı", "i", "ŧ", "t").Replace(strings.ToLower(s))
}

const longestStemmed = 40 // letters

// englishStem returns the stem of a lower-case word. It returns the word unchanged if
// the word is too short, too long, or not ASCII.
func englishStem(word string) string {
	if len(word) < 3 || len(word) > longestStemmed || !only(word, asciiLetter) {
		return word
	}
	if w := regular[word]; w != "" {
		word = w
	}
	for stem := range analysis.Standard.Tokens(word) {
		return stem // TestStemsOfWords checks it
	}
	return ""
}

// identifierTokens returns the stem of a word and, for a camelCase name of at
// most eight parts, the stems of the parts. It does not split words of up to three
// letters.
func identifierTokens(word string) []string {
	parts, start := []string{}, 0
	upper := func(i int) bool { return i < len(word) && word[i] <= 'Z' }
	for i := 1; i < len(word) && len(word) > 3; i++ {
		if upper(i) && (!upper(i-1) || i+1 < len(word) && !upper(i+1)) {
			parts = append(parts, word[start:i])
			start = i
		}
	}
	tokens := []string{englishStem(strings.ToLower(word))}
	if len(parts) > 0 && len(parts) < 8 {
		for _, p := range append(parts, word[start:]) {
			tokens = append(tokens, englishStem(strings.ToLower(p)))
		}
	}
	return tokens
}

// stopWords contains the stop words of the plain analyzer.
var stopWords = strings.Fields(`a an the is it in of to and or for on at by with as be was are been has had
have do does did but not no if so from that this then than into its my me we he she they you your our his her`)

// plainTokens returns the tokens of analysis.Plain. It implements the definition
// directly.
func plainTokens(s string) []string {
	lower := cases.Lower(language.Und)
	var tokens []string
	for _, word := range strings.FieldsFunc(s, func(r rune) bool {
		return r == utf8.RuneError || !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.Is(unicode.Other_Alphabetic, r)
	}) {
		if utf8.RuneCountInString(word) < 2 {
			continue
		}
		if word = lower.String(word); !slices.Contains(stopWords, word) {
			tokens = append(tokens, word)
		}
	}
	return tokens
}
