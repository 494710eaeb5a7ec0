package tree_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"
)

// TestTreeRoundTrip dumps a snapshot and loads it into an empty store: the
// snapshots are equal, and a second dump changes no file.
func TestTreeRoundTrip(t *testing.T) {
	race.Skip(t)
	r := seed.Random(t)
	rounds := rounds()
	pages := 0
	for n := range rounds {
		sn := randomSnapshot(t, r, 6)
		mem := faultfs.NewMem()
		if _, err := DumpSnapshot(mem, "/brain", sn, DumpOptionsFor("/brain")); err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
		s := New(&Options{FS: mem})
		if _, err := Load(s, "/brain", LoadOptionsFor("/brain")); err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
		if got, want := encoded(t, s.Snapshot()), encoded(t, sn); got != want {
			t.Fatalf("round %d: (-want +got)\n%s", n, diffEntries(sn, s.Snapshot()))
		}
		calls, before := mem.Calls(), mem.Hash()
		report, err := DumpSnapshot(mem, "/brain", sn, DumpOptionsFor("/brain"))
		if err != nil {
			t.Fatalf("round %d: second dump: %v", n, err)
		}
		if after := mem.Hash(); after != before || len(report.Written)+len(report.Deleted) > 0 {
			t.Fatalf("round %d: a dump of the same store changed the tree: %+v (%d calls)", n, report, mem.Calls()-calls)
		}
		pages += sn.Len()
	}
	if pages < rounds {
		t.Fatalf("only %d pages in %d rounds", pages, rounds)
	}
	t.Logf("stores dumped and loaded: %d, pages: %d", rounds, pages)
}

func diffEntries(a, b *Snapshot) string {
	list := func(s *Snapshot) []string {
		out := []string{fmt.Sprintf("next_id %d", s.NextID)}
		for e := range s.All() {
			out = append(out, fmt.Sprintf("%d %+q %v %d %+q %+q", e.ID, e.Name, e.Kind, e.CreatedAt, e.Content, e.Aliases))
		}
		return out
	}
	return cmp.Diff(list(a), list(b))
}
