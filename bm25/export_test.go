package bm25

import "testing"

// SetTailDocs makes tails of indexes freeze at n documents for the time of a
// test.
func SetTailDocs(t testing.TB, n int) {
	old := tailDocs
	tailDocs = n
	t.Cleanup(func() { tailDocs = old })
}
