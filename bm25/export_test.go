package bm25

import (
	"runtime/debug"
	"slices"
	"testing"
)

func init() { debug.SetGCPercent(400) } // the indexes are small and many

// SetTailDocs makes tails freeze at n documents until the test ends.
func SetTailDocs(t testing.TB, n int) {
	old := tailDocs
	tailDocs = n
	t.Cleanup(func() { tailDocs = old })
}

// SetFewTerms makes indexes of n terms drop unused terms until the test ends.
func SetFewTerms(t testing.TB, n int) {
	old := fewTerms
	fewTerms = n
	t.Cleanup(func() { fewTerms = old })
}

// setMaxPostings makes merges take segments of at most n postings until the test
// ends.
func setMaxPostings(t testing.TB, n int) {
	old := maxPostings
	maxPostings = n
	t.Cleanup(func() { maxPostings = old })
}

// SetPruning makes searches leave lists out as often as they can, and look up single
// postings at a cost, until the test ends.
func SetPruning(t testing.TB, cost int) {
	share, saved, old, length := restShare, leastSaved, lookUpCost, usualLength
	restShare, leastSaved, lookUpCost, usualLength = 2, 0, cost, 0
	t.Cleanup(func() { restShare, leastSaved, lookUpCost, usualLength = share, saved, old, length })
}

// Terms returns the number of terms and word forms in the dict of an index.
func (x *Index) Terms() int { return x.lexer.Dict().Len() }

// PostingLists returns the number of posting lists in the segments of an index.
func (x *Index) PostingLists() int {
	n := 0
	for _, s := range x.segments {
		n += len(s.start) - 1
	}
	return n
}

// Letters returns the set of the letters of a word.
var Letters = letters

// TestCompared compares terms without case.
func TestCompared(t *testing.T) {
	for term, want := range map[string]string{"ABMZ": "abmz", "aZ09": "az09", "@[`{": "@[`{", "ÄÖ": "äö", "\x80Ä": "\uFFFDä"} {
		if got := string(compared([]byte(term))); got != want {
			t.Errorf("%q: %q, want %q", term, got, want)
		}
	}
}

// TestBitWords compares the lengths of bit sets around the size of a word.
func TestBitWords(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 63: 1, 64: 1, 65: 2, 128: 2, 129: 3} {
		if got := bitWords(n); got != want {
			t.Errorf("%d terms: %d words, want %d", n, got, want)
		}
	}
}

// TestInitialRanges checks that the ranges of a word contain each text that initials
// lists with the word.
func TestInitialRanges(t *testing.T) {
	for r := rune(1); r < 0x30000; r++ {
		text := string(r) + "a"
		first := compared([]byte(text))[0]
		if first < 'a' || first > 'z' && first < 0x80 {
			continue // no letter, with which no corrected word begins
		}
		if !slices.ContainsFunc(initialRanges(string([]byte{first, 'a'})), func(in textRange) bool {
			return text >= in.from && (in.to == "" || text < in.to)
		}) {
			t.Errorf("%U is listed with %q, but not in its ranges", r, first)
		}
	}
}
