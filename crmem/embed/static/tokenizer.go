package static

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	maxTokens = 512 // of a text; the rest has no effect
	maxWord   = 100 // letters of a word that is split into tokens
	maxPiece  = 256 // bytes that are normalized at a time
	continued = "##"
)

// A tokenizer splits texts as BERT does: into words and punctuation, and these into the
// longest tokens of a vocabulary.
type tokenizer struct {
	tokens map[string]uint32
	lower  bool // change letters to lower case and remove accents
}

// tokenize calls use with the number of each token of a text, up to maxTokens. Words that
// the vocabulary does not cover have none.
func (t *tokenizer) tokenize(text string, use func(token uint32)) {
	var word []byte
	var tokens []uint32
	left := maxTokens
	flush := func() {
		tokens = t.split(tokens[:0], word)
		for _, token := range tokens[:min(len(tokens), left)] {
			use(token)
		}
		left -= min(len(tokens), left)
		word = word[:0]
	}
	for len(text) > 0 && left > 0 {
		// A piece of the text, so that a long text costs no more than its first tokens.
		piece := text
		if len(piece) > maxPiece {
			end := maxPiece
			for end > maxPiece-utf8.UTFMax && !utf8.RuneStart(text[end]) {
				end--
			}
			piece = text[:end]
		}
		text = text[len(piece):]
		for _, r := range t.normalized(piece) {
			switch {
			case r == 0 || r == utf8.RuneError || isControl(r):
			case unicode.IsSpace(r):
				flush()
			case isChinese(r) || isPunctuation(r):
				flush()
				word = utf8.AppendRune(word, r)
				flush()
			default:
				word = utf8.AppendRune(word, r)
			}
			if left == 0 {
				return
			}
		}
	}
	flush()
}

// normalized returns a text in lower case without accents, if t wants that.
func (t *tokenizer) normalized(text string) string {
	if !t.lower {
		return text
	}
	if !isASCII(text) {
		text = strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Mn, r) {
				return -1
			}
			return r
		}, norm.NFD.String(text))
	}
	return strings.ToLower(text)
}

func isASCII(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// split appends the tokens of a word, or none if they do not cover it.
func (t *tokenizer) split(list []uint32, word []byte) []uint32 {
	if len(word) == 0 || utf8.RuneCount(word) > maxWord {
		return list
	}
	var key [len(continued) + maxWord*utf8.UTFMax]byte
	prefix := 0
	for from := 0; from < len(word); {
		n := prefix + copy(key[prefix:], word[from:])
		to := len(word)
		for {
			if token, ok := t.tokens[string(key[:n])]; ok {
				list = append(list, token)
				break
			}
			_, size := utf8.DecodeLastRune(word[from:to])
			to, n = to-size, n-size
			if to == from {
				return list[:0]
			}
		}
		from = to
		prefix = copy(key[:], continued)
	}
	return list
}

// isControl reports whether BERT removes a character.
func isControl(r rune) bool {
	return r != '\t' && r != '\n' && r != '\r' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs)
}

// isPunctuation reports whether BERT makes a character a word of its own.
func isPunctuation(r rune) bool {
	return r >= 33 && r <= 47 || r >= 58 && r <= 64 || r >= 91 && r <= 96 || r >= 123 && r <= 126 || unicode.Is(unicode.P, r)
}

// isChinese reports whether BERT makes an ideograph a word of its own.
func isChinese(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B73F ||
		r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B820 && r <= 0x2CEAF || r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}
