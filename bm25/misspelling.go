package bm25

import "math/bits"

// A pattern matches the terms and word forms that may replace a word.
type pattern struct {
	word    string
	runes   []rune // of word
	letters uint32
	edits   int      // most edits of a misspelling
	text    []rune   // of the last candidate
	rows    [3][]int // of the last comparison
}

// newPattern returns the pattern of a word of n letters.
func newPattern(word string, n int) *pattern {
	p := &pattern{word: word, runes: []rune(word), letters: letters([]byte(word)), edits: 1}
	if n >= 8 {
		p.edits = 2
	}
	return p
}

// mayMatch reports whether a text with this set of letters may match.
func (p *pattern) mayMatch(letters uint32) bool {
	return p.letters&^letters == 0 || bits.OnesCount32(p.letters^letters) <= 2*p.edits
}

// match reports whether the word begins a longer text, and otherwise whether the word is
// a misspelling of the text, with so many edits.
func (p *pattern) match(text []byte) (begun, misspelled bool, edits int) {
	if len(text) > len(p.word) && string(text[:len(p.word)]) == p.word {
		return true, false, 0
	}
	p.text = p.text[:0]
	for _, r := range string(text) {
		if len(p.text) == len(p.runes)+p.edits {
			return false, false, 0
		}
		p.text = append(p.text, r)
	}
	edits = p.distance(p.runes, p.text)
	return false, edits <= p.edits, edits
}

// distance returns the number of edits between two texts, or a larger number than
// p.edits. An edit inserts, removes, or replaces a letter, or swaps two neighbors that no
// other edit changes.
func (p *pattern) distance(a, b []rune) int {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) == 0 || len(b) == 0 {
		return len(a) + len(b)
	}
	// row[j] is the distance of a[:i] and b[:j]. The rows before it are last and older.
	older, last, row := p.row(0, len(b)), p.row(1, len(b)), p.row(2, len(b))
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, last, row = last, row, older
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			d := min(replaced, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, older[j-2]+1)
			}
			row[j] = d
			least = min(least, d)
		}
		if least > p.edits {
			return least // a later row is not less: a swap adds 1 to a row that is at most 1 less
		}
	}
	return row[len(b)]
}

// row returns a row for texts of n letters.
func (p *pattern) row(i, n int) []int {
	if cap(p.rows[i]) <= n {
		p.rows[i] = make([]int, n+1, 2*(n+1))
	}
	return p.rows[i][:n+1]
}
