package bm25

import (
	"math/rand/v2"
	"testing"
)

// edits returns the number of edits between two texts by their definition.
func edits(a, b []rune) int {
	d := make([][]int, len(a)+1) // of a[:i] and b[:j]
	for i := range d {
		d[i] = make([]int, len(b)+1)
		for j := range d[i] {
			if i == 0 || j == 0 {
				d[i][j] = i + j
				continue
			}
			replaced := 1
			if a[i-1] == b[j-1] {
				replaced = 0
			}
			d[i][j] = min(d[i-1][j-1]+replaced, d[i-1][j]+1, d[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}

func TestMisspellings(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	text := func(alphabet []rune, least, most int) []rune {
		out := make([]rune, least+random.IntN(most-least+1))
		for i := range out {
			out[i] = alphabet[random.IntN(len(alphabet))]
		}
		return out
	}
	misspelled := 0
	for range 20_000 {
		alphabet := []rune("abcе東")[:2+random.IntN(4)]
		word := text(alphabet, 5, 9)
		other := append([]rune(nil), word...)
		switch random.IntN(4) {
		case 0:
			other = text(alphabet, 4, 10)
		default:
			for range random.IntN(4) {
				i := random.IntN(len(other))
				switch random.IntN(4) {
				case 0:
					other = append(other[:i:i], other[i+1:]...)
				case 1:
					other = append(other[:i:i], append(text(alphabet, 1, 1), other[i:]...)...)
				case 2:
					other[i] = alphabet[0]
				case 3:
					if i > 0 {
						other[i], other[i-1] = other[i-1], other[i]
					}
				}
			}
		}
		p := newPattern(string(word), len(word))
		if random.IntN(2) == 0 {
			p.match([]byte("another candidate")) // the pattern keeps nothing of it
		}
		begun, ok, n := p.match([]byte(string(other)))
		want := edits(word, other)
		switch isBegun := len(other) > len(word) && string(other[:len(word)]) == string(word); {
		case begun != isBegun:
			t.Fatalf("%q begins %q: %v", string(word), string(other), begun)
		case begun:
		case ok != (want <= p.edits) || ok && n != want:
			t.Fatalf("%q and %q: %v with %d edits, want %d edits", string(word), string(other), ok, n, want)
		case ok:
			misspelled++
		}
	}
	if misspelled < 5000 {
		t.Errorf("only %d pairs are misspellings", misspelled)
	}
}
