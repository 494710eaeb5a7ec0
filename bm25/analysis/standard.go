package analysis

import (
	"bytes"
	_ "embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"golang.org/x/text/unicode/norm"
)

// unicodeFolder contains the buffers of the analyzers.
type unicodeFolder struct {
	out   []byte // current term
	text  []byte // a run, normalized
	word  []byte
	lower []byte // an identifier in lower case
	parts []int

	snowball *snowballstem.Env // made at first use
}

// standardStop contains the terms, including stems, that Standard omits from a
// query with other terms.
var standardStop = sync.OnceValue(func() map[string]bool {
	m := map[string]bool{}
	var u unicodeFolder
	more := []string{
		"i", "am", "us", "him", "them", "their", "there", "these", "those", "were", "being", "will",
		"would", "can", "could", "should", "may", "might", "must", "shall", "what", "which", "who",
		"whom", "whose", "when", "where", "why", "how", "about",
		"don", "doesn", "didn", "isn", "wasn", "aren", "weren", "won", "couldn", "wouldn", "shouldn",
		"hasn", "haven", "hadn", "mine", "yours", "ours", "hers", "theirs", "myself", "yourself",
	}
	for _, words := range [][]string{plainStopWords, more} {
		for _, w := range words {
			u.standard([]byte(w), func(t []byte) { m[string(t)] = true })
		}
	}
	return m
})

// IsStopWord reports whether Standard omits a term from a query with other terms.
func IsStopWord(term []byte) bool { return standardStop()[string(term)] }

// maxStem is the length of the longest word that has a stem, in letters. Longer ones
// are not words, and the stemmer's cost grows with the square of the length.
const maxStem = 40

// maxParts is the largest number of parts of an identifier whose parts are terms.
// One with more parts is a hash or similar.
const maxParts = 8

// standard emits the terms of a run under Standard.
func (u *unicodeFolder) standard(run []byte, emit func([]byte)) {
	if IsASCII(run) {
		u.identifier(run, emit)
		return
	}
	u.fold(run)
	text := u.text
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case IsUnspaced(r):
			end := span(text, func(r rune) bool { return IsUnspaced(r) || unicode.IsMark(r) })
			pairs(text[:end], emit)
			text = text[end:]
		case alphanumeric(r):
			end := span(text, func(r rune) bool { return !IsUnspaced(r) && (alphanumeric(r) || unicode.IsMark(r)) })
			u.mixed(text[:end], emit)
			if y, m, d := unspacedDate(text); validDay(y, m, d) {
				u.out = appendDay(u.out[:0], y, m, d)
				emit(u.out)
			}
			text = text[end:]
		case emoji(r):
			if flagLetter(r) {
				if r, more := utf8.DecodeRune(text[size:]); flagLetter(r) {
					size += more
				}
			}
			emit(text[:size])
			text = text[size:]
		default:
			text = text[size:]
		}
	}
}

// span returns the length of the longest prefix of text of which each character is
// in a set.
func span(text []byte, in func(rune) bool) int {
	return len(text) - len(bytes.TrimLeftFunc(text, in))
}

// emoji reports whether r is a symbol that people search for. Skin tones are not,
// and fold has replaced letters and digits in circles.
func emoji(r rune) bool {
	return r >= 0x2300 && unicode.Is(unicode.So, r) &&
		(r < 0x2400 || 0x2600 <= r && r < 0x27C0 || 0x2B00 <= r && r < 0x2C00 || 0x1F000 <= r)
}

// flagLetter reports whether r is one of the two letters of a flag.
func flagLetter(r rune) bool { return '🇦' <= r && r <= '🇿' }

// mixed emits a folded word of a run that was not ASCII. If a digit directly
// precedes the first non-ASCII letter, it emits the part before and the rest.
func (u *unicodeFolder) mixed(word []byte, emit func([]byte)) {
	n := span(word, func(r rune) bool { return r < utf8.RuneSelf })
	switch {
	case n == len(word):
		u.identifier(word, emit)
	case n > 0 && digit(word[n-1]):
		u.identifier(word[:n], emit)
		u.stem(word[n:], emit)
	default:
		u.stem(word, emit)
	}
}

const diaeresis = '\u0308'

// plainLetters replaces letters that have no Unicode decomposition.
var plainLetters = map[rune]string{
	'ς': "σ", 'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'ł': "l", 'đ': "d", 'ð': "d", 'þ': "th", 'ħ': "h", 'ı': "i", 'ŧ': "t",
}

// fold stores the run in u.text in compatibility composition (full-width letters
// become narrow, half-width kana wide), in lower case, and without the marks of
// scripts that people also write without marks. Katakana become hiragana, and the
// Catalan l·l becomes ll.
func (u *unicodeFolder) fold(run []byte) {
	u.word = norm.NFKD.Append(u.word[:0], run...)
	u.out = u.out[:0]
	strip, last := false, rune(0)
	for b := u.word; len(b) > 0; {
		r, size := utf8.DecodeRune(b)
		b = b[size:]
		switch {
		case unicode.Is(unicode.Mn, r):
			if strip || unicode.Is(unicode.Variation_Selector, r) || r == diaeresis && last == 'е' { // ё is mostly written е
				continue
			}
		case unicode.In(r, unicode.Cf, unicode.Me): // soft hyphens, joiners, keycaps
			continue
		case unicode.Is(unicode.Nd, r):
			r = decimal(r)
		case r == utf8.RuneError && size == 1:
			r = ' '
		case r == '·' && last == 'l' && len(b) > 0 && b[0]|0x20 == 'l':
			continue
		case 'ァ' <= r && r <= 'ヶ', r == 'ヽ', r == 'ヾ':
			r -= 'ァ' - 'ぁ'
			strip = false
		default:
			strip = unicode.In(r, unicode.Latin, unicode.Greek, unicode.Arabic, unicode.Hebrew)
		}
		last = unicode.ToLower(r)
		if f, ok := plainLetters[last]; ok {
			u.out = append(u.out, f...)
			continue
		}
		u.out = utf8.AppendRune(u.out, last)
	}
	u.text = norm.NFC.Append(u.text[:0], u.out...)
}

// decimal returns the ASCII digit with the value of r, a digit of any script.
// Unicode gives the digits of a script ten consecutive code points.
func decimal(r rune) rune {
	for _, t := range unicode.Nd.R16 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return '0' + (r-rune(t.Lo))%10
		}
	}
	for _, t := range unicode.Nd.R32 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return '0' + (r-rune(t.Lo))%10
		}
	}
	return r
}

// IsUnspaced reports whether r belongs to an unspaced script or to Hangul, which
// attaches particles to words.
func IsUnspaced(r rune) bool {
	return r >= 0x0E00 && (r == 'ー' || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana,
		unicode.Hangul, unicode.Bopomofo, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar))
}

// pairs emits each character of text with its marks, and each two adjacent
// characters.
func pairs(text []byte, emit func([]byte)) {
	first := character(text)
	for first < len(text) {
		emit(text[:first])
		second := character(text[first:])
		emit(text[:first+second])
		text, first = text[first:], second
	}
	emit(text)
}

// character returns the length of the first character of text with its marks.
func character(text []byte) int {
	_, size := utf8.DecodeRune(text)
	return size + span(text[size:], unicode.IsMark)
}

// identifier emits the stem of an ASCII run. If it is a camelCase name or mixes
// letters and digits, it also emits the stems of the parts.
func (u *unicodeFolder) identifier(run []byte, emit func([]byte)) {
	u.parts = u.parts[:0]
	for i := 1; i < len(run); i++ {
		a, b := run[i-1], run[i]
		switch {
		case digit(a) != digit(b),
			(lowerCase(a) && upperCase(b) || upperCase(a) && upperCase(b) && i+1 < len(run) && lowerCase(run[i+1])) && longerThanUnit(run, i):
			u.parts = append(u.parts, i)
		}
	}
	u.lower = appendASCIILower(u.lower[:0], run)
	u.stem(u.lower, emit)
	if len(u.parts) == 0 || len(u.parts) >= maxParts {
		return
	}
	start := 0
	for _, end := range append(u.parts, len(run)) {
		u.stem(u.lower[start:end], emit)
		start = end
	}
}

func appendASCIILower(dst, word []byte) []byte {
	n := len(dst)
	dst = append(dst, word...)
	for i, c := range dst[n:] {
		if upperCase(c) {
			dst[n+i] = c | 0x20
		}
	}
	return dst
}

// longerThanUnit reports whether more than three letters are around position i of
// an identifier: GiB, kWh, and iOS have no parts.
func longerThanUnit(run []byte, i int) bool {
	from, to := i, i
	for from > 0 && i-from < 4 && !digit(run[from-1]) {
		from--
	}
	for to < len(run) && to-i < 4 && !digit(run[to]) {
		to++
	}
	return to-from > 3
}

func digit(c byte) bool     { return '0' <= c && c <= '9' }
func lowerCase(c byte) bool { return 'a' <= c && c <= 'z' }
func upperCase(c byte) bool { return 'A' <= c && c <= 'Z' }

// stem emits the stem of a folded word: the English stem if it consists of ASCII
// letters.
func (u *unicodeFolder) stem(word []byte, emit func([]byte)) {
	if word[0] >= utf8.RuneSelf {
		emit(u.stemForeign(word))
		hebrew(word, emit)
		return
	}
	if len(word) < 3 || len(word) > maxStem || !lowerCaseWord(word) {
		emit(word)
		return
	}
	if w := regular(word); w != "" {
		u.out = append(u.out[:0], w...)
	} else {
		u.out = append(u.out[:0], word...)
	}
	emit(englishStem(u.out))
}

// englishStem returns the stem of a word of 2 to maxStem lower-case ASCII letters,
// which it overwrites.
func englishStem(word []byte) []byte {
	if !inflected(word) {
		return word
	}
	return porter(word)
}

// stemmed reports whether a run consists of lower-case ASCII letters and is certain
// to be its own stem and only term.
func stemmed(run []byte) bool {
	return lowerCaseWord(run) && (len(run) < 3 || !inflected(run) && regular(run) == "")
}

func lowerCaseWord(b []byte) bool {
	for _, c := range b {
		if !lowerCase(c) {
			return false
		}
	}
	return true
}

// inflected reports whether a word may end in a suffix of Porter's rules. The
// stemmer returns any other word unchanged.
func inflected(word []byte) bool {
	before := word[len(word)-2]
	switch word[len(word)-1] {
	case 'e', 's', 'y':
		return true
	case 'c':
		return before == 'i'
	case 'd':
		return before == 'e'
	case 'g', 't':
		return before == 'n'
	case 'i':
		return before == 'c' || before == 'g' || before == 'l' || before == 't'
	case 'l':
		return before == 'a' || before == 'l' || before == 'u'
	case 'm':
		return before == 's'
	case 'n', 'u':
		return before == 'o'
	case 'r':
		return before == 'e' || before == 'o'
	}
	return false
}

// irregularWords lists English words with irregular forms: each line is a word and
// the forms that give its terms. It omits forms that are as often another word
// (left, led, lives, saw, spring). A word without forms is its own stem: it has no ending,
// or one that gives it another meaning.
//
//go:embed irregular.txt
var irregularWords string

// regularWords returns each form's word. A word without forms is its own form.
var regularWords = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(irregularWords) {
		words := strings.Fields(line)
		forms := words[1:]
		if len(forms) == 0 {
			forms = words
		}
		for _, form := range forms {
			m[form] = words[0]
		}
	}
	return m
})

// irregular returns each word's irregular forms by the word's stem.
var irregular = sync.OnceValue(func() map[string][]string {
	m := map[string][]string{}
	for line := range strings.Lines(irregularWords) {
		words := strings.Fields(line)
		stem := string(englishStem([]byte(words[0])))
		m[stem] = append(m[stem], words[1:]...)
	}
	return m
})

// IrregularForms returns the irregular forms of the word with a stem.
func IrregularForms(stem []byte) []string { return irregular()[string(stem)] }

// regular returns the word of an irregular form, or "".
func regular(form []byte) string { return regularWords()[string(form)] }
