package analysis

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// A Phrase is a sequence of adjacent words. Comparisons ignore case, width, and
// accents, and treat all characters between words as one space.
type Phrase struct{ words []byte }

// NewPhrase returns the phrase of a text. Every text contains a phrase without
// words.
func NewPhrase(text string) Phrase {
	var u unicodeFolder
	return Phrase{u.spaced(text)}
}

// In reports whether one of the texts contains the phrase.
func (p Phrase) In(texts ...string) bool {
	if len(p.words) == 0 {
		return true
	}
	var u unicodeFolder
	for _, t := range texts {
		if len(t) < len(p.words)/11 { // compatibility folding makes a text at most 11 times longer
			continue
		}
		text := u.spaced(t)
		for from := 0; ; {
			i := bytes.Index(text[from:], p.words)
			if i < 0 {
				break
			}
			i += from
			before, _ := utf8.DecodeLastRune(text[:i])
			after, _ := utf8.DecodeRune(text[i+len(p.words):])
			first, _ := utf8.DecodeRune(p.words)
			last, _ := utf8.DecodeLastRune(p.words)
			if edge(before, first) && edge(last, after) {
				return true
			}
			_, size := utf8.DecodeRune(text[i:])
			from = i + size
		}
	}
	return false
}

// edge reports whether a word may end between two characters.
func edge(a, b rune) bool { return !inWord(a) || !inWord(b) || IsUnspaced(a) || IsUnspaced(b) }

func inWord(r rune) bool {
	return r != utf8.RuneError && (alphanumeric(r) || unicode.Is(unicode.M, r))
}

// spaced returns a text folded, with one space between words.
func (u *unicodeFolder) spaced(text string) []byte {
	u.fold([]byte(text))
	out := make([]byte, 0, len(u.text))
	for _, r := range string(u.text) {
		if inWord(r) {
			out = utf8.AppendRune(out, r)
		} else if len(out) > 0 && out[len(out)-1] != ' ' {
			out = append(out, ' ')
		}
	}
	return bytes.TrimSuffix(out, []byte(" "))
}
