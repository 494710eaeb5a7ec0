package analysis

import (
	"fmt"
	"strings"
	"testing"
)

// TestDict adds terms of fewer and more than eight bytes, enough that hashes share
// slot and tag. All keep their numbers and their bytes.
func TestDict(t *testing.T) {
	const n = 200_000
	d := newDict()
	term := func(i int) []byte {
		return fmt.Appendf(nil, "%s%x", strings.Repeat("w", i%12), i)
	}
	for i := range n {
		if id := d.add(term(i)); id != uint32(i) {
			t.Fatalf("term %d, %q, gets the number %d", i, term(i), id)
		}
	}
	d.clip()
	for i := range n {
		id, ok := d.Find(term(i))
		if again := d.add(term(i)); !ok || id != uint32(i) || again != id {
			t.Fatalf("term %d, %q, is found as %d, %t, and added again as %d", i, term(i), id, ok, again)
		}
		if got := d.AppendTerm(nil, id); string(got) != string(term(i)) {
			t.Fatalf("term %d comes back as %q, want %q", i, got, term(i))
		}
	}
	for _, absent := range []string{"", "w", "wwwwwwwwwwwww", "0x", strings.Repeat("w", 300)} {
		if id, ok := d.Find([]byte(absent)); ok {
			t.Errorf("%q is found as %d", absent, id)
		}
	}
}
