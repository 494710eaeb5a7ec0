package budget

import (
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// Encoding is the vocabulary that counts tokens. Its successor, o200k_base,
// would add 7 MB to the program instead of 3.8 MB. o200k_base counts slightly
// fewer tokens in English and code, and far fewer in other scripts.
const Encoding = "cl100k_base"

// Setting up the embedded vocabulary takes about 15 ms, so it is deferred until
// tokens are counted.
var encoding = sync.OnceValue(codec.NewCl100kBase)

// Count returns the number of tokens of text.
func Count(text string) int {
	n, _ := countUpTo(text, len(text))
	return n
}

// countUpTo counts tokens of text and reports whether there are at most limit.
// It reads only slightly more than limit tokens.
func countUpTo(text string, limit int) (n int, fits bool) {
	for n <= limit && text != "" {
		size := pieceSize(text)
		// Count returns no error: the pattern has no time limit, and invalid
		// UTF-8 is counted byte by byte.
		c, _ := encoding().Count(text[:size])
		n += c
		text = text[size:]
	}
	return n, n <= limit
}

// The tokenizer copies its input and takes quadratic time on some white space,
// so a long text is counted in pieces.
const (
	minPiece = 1 << 10
	maxPiece = 2 << 10
)

// pieceSize returns the number of bytes of text to count at once. A piece ends
// before a blank or the start of a line, where a token always begins. A text
// without either may count one token more or less per piece.
func pieceSize(text string) int {
	if len(text) <= maxPiece {
		return len(text)
	}
	for i := minPiece; i < maxPiece; i++ {
		if text[i] == ' ' && visible(text[i-1]) && visible(text[i+1]) || text[i-1] == '\n' && visible(text[i]) {
			return i
		}
	}
	end := maxPiece
	for !utf8.RuneStart(text[end]) && end > minPiece {
		end--
	}
	return end
}

// visible reports whether c is no white space of ASCII.
func visible(c byte) bool { return c > ' ' }
