package budget

import (
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// Encoding is the vocabulary that tokens are counted with. Its successor,
// o200k_base, would make the program 7 MB larger, where this takes 3.8; it
// counts a little less in English and code, and much less in other scripts.
const Encoding = "cl100k_base"

// The vocabulary is in the program and takes some 15 ms to set up: only what
// counts tokens waits for it.
var encoding = sync.OnceValue(codec.NewCl100kBase)

// Count returns the number of tokens of text.
func Count(text string) int {
	n, _ := countUpTo(text, len(text))
	return n
}

// countUpTo is Count for those who want at most limit tokens: it reports
// whether text has no more, and looks at little more than those.
func countUpTo(text string, limit int) (n int, fits bool) {
	for n <= limit && text != "" {
		size := pieceSize(text)
		// There is no error: the pattern has no time limit, and what is not
		// UTF-8 is counted as it is.
		c, _ := encoding().Count(text[:size])
		n += c
		text = text[size:]
	}
	return n, n <= limit
}

// The tokenizer makes copies of what it is given, and some white space costs it
// the square of its length: it gets a long text in pieces.
const (
	minPiece = 1 << 10
	maxPiece = 2 << 10
)

// pieceSize returns how much of text to count at once: up to a blank or the
// start of a line, where a token begins in any case. A text without either is
// cut anyhow, and may come to a token more or less.
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
