package bm25

import "testing"

// SetTailDocs makes tails of indexes freeze at n documents for the time of a
// test.
func SetTailDocs(t testing.TB, n int) {
	old := tailDocs
	tailDocs = n
	t.Cleanup(func() { tailDocs = old })
}

// SetFewTerms makes indexes of n terms forget those that are gone for the time of
// a test.
func SetFewTerms(t testing.TB, n int) {
	old := fewTerms
	fewTerms = n
	t.Cleanup(func() { fewTerms = old })
}

// Terms is how many terms and forms of words an index has numbers for.
func (x *Index) Terms() int { return x.lexer.Dict().Len() }

// PostingLists is how many posting lists the segments of an index have.
func (x *Index) PostingLists() int {
	n := 0
	for _, s := range x.segments {
		n += len(s.start) - 1
	}
	return n
}

// Letters is the set of the letters of a word.
var Letters = letters
