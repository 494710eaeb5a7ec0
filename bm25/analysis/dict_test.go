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
		if id := d.Add(term(i)); id != uint32(i) {
			t.Fatalf("term %d, %q, gets the number %d", i, term(i), id)
		}
	}
	d.clip()
	for i := range n {
		id, ok := d.Find(term(i))
		if again := d.Add(term(i)); !ok || id != uint32(i) || again != id {
			t.Fatalf("term %d, %q, is found as %d, %t, and added again as %d", i, term(i), id, ok, again)
		}
		if got := d.AppendTerm(nil, id); string(got) != string(term(i)) {
			t.Fatalf("term %d comes back as %q, want %q", i, got, term(i))
		}
	}
	for _, absent := range []string{"", "w", "wwwwwwwwwwwww", "0x", strings.Repeat("w", 300)} {
		if id, ok := d.Find([]byte(absent)); ok || id != 0 {
			t.Errorf("%q is found as %d", absent, id)
		}
	}
}

// TestDictSize checks that the size of the table depends only on the number of
// terms, after growth, clip, and Renumber, and that clip keeps a table of this size.
func TestDictSize(t *testing.T) {
	for n, want := range map[int]int{0: 256, 1: 256, 204: 256, 205: 512, 409: 512, 410: 1024, 819: 1024, 820: 2048, 1638: 2048, 1639: 4096} {
		l := NewLexer(Standard)
		d := l.Dict()
		for i := range n {
			d.Add(fmt.Append(nil, i))
		}
		grown := len(d.slots)
		d.resize(16 * want)
		d.clip()
		clipped := len(d.slots)
		table := &d.slots[0]
		if d.clip(); &d.slots[0] != table {
			t.Errorf("%d terms: clip copies a table of %d slots", n, clipped)
		}
		to := make([]uint32, n)
		for i := range to {
			to[i] = uint32(i)
		}
		l.Renumber(func(uint32) bool { return true }, to, n)
		if renumbered := len(l.Dict().slots); grown != want || clipped != want || renumbered != want {
			t.Errorf("%d terms: %d slots after growth, %d after clip, %d after Renumber, want %d", n, grown, clipped, renumbered, want)
		}
	}
}
