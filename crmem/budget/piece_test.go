package budget

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestPieceSize takes texts apart that a tokenizer may need the square of their
// length for: no piece is long, and no piece splits a character.
func TestPieceSize(t *testing.T) {
	for _, hostile := range []string{" ", "a", "=", "\n", "\u3000", " \n", "é", "\xff", "🦀", "a b\n"} {
		text := strings.Repeat(hostile, 20_000/len(hostile))
		valid := utf8.ValidString(text)
		pieces := 0
		for rest := text; rest != ""; pieces++ {
			n := pieceSize(rest)
			if n < 1 || n > 2<<10 || valid && !utf8.ValidString(rest[:n]) {
				t.Fatalf("%q: a piece of %d bytes", hostile, n)
			}
			rest = rest[n:]
		}
		if pieces > 1+len(text)>>10 {
			t.Errorf("%q: %d pieces of %d bytes", hostile, pieces, len(text))
		}
		if n := Count(text); n < len(text)/maxToken || n > len(text) {
			t.Errorf("%q: %d tokens of %d bytes", hostile, n, len(text))
		}
	}
}

// TestCountUpTo stops soon after the limit.
func TestCountUpTo(t *testing.T) {
	text := strings.Repeat("word ", 100_000)
	if n, fits := countUpTo(text, 100); fits || n > 1000 {
		t.Errorf("%d tokens, %v", n, fits)
	}
	if n, fits := countUpTo("two words", 2); !fits || n != 2 {
		t.Errorf("%d tokens, %v", n, fits)
	}
	if n, fits := countUpTo("two words", 1); fits || n != 2 {
		t.Errorf("%d tokens, %v", n, fits)
	}
}
