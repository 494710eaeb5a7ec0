package search

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestInOrderComparesNeighbors changes one entry of lists in order, some of
// which have removed entries, and compares inOrder with the whole list.
func TestInOrderComparesNeighbors(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for n := range 2000 {
		x := &Index{}
		for i := range r.IntN(7) + 1 {
			e := &entry{ord: uint32(i), name: fmt.Sprintf("%02d.jsonl", 2*i+1), id: "id"}
			if r.IntN(3) == 0 {
				e = nil
			}
			x.entries = append(x.entries, e)
		}
		e := &entry{ord: uint32(r.IntN(len(x.entries))), id: "id"}
		e.name = fmt.Sprintf("%02d.jsonl", 2*e.ord+1)
		switch r.IntN(4) {
		case 0:
			e.name = fmt.Sprintf("%02d.jsonl", r.IntN(8)*2)
		case 1:
			e.id = []string{"ia", "ie", "i", "idd"}[r.IntN(4)]
		case 2:
			e.created = time.Unix(1, 0)
		}
		x.entries[e.ord] = e
		want := true
		var before *entry
		for _, e := range x.entries {
			if e == nil {
				continue
			}
			if before != nil && before.compare(e) > 0 {
				want = false
			}
			before = e
		}
		if got := x.inOrder(e); got != want {
			t.Fatalf("case %d: inOrder = %t, want %t", n, got, want)
		}
	}
}

// TestChangesDuringBuildAreLate reports changes to an index that is being built,
// and to a closed one: neither reads a file, and the build reads them at its end.
func TestChangesDuringBuildAreLate(t *testing.T) {
	for i, change := range []func(w watcher){
		func(w watcher) { w.Wrote("a.jsonl", 0, []byte("text\n")) },
		func(w watcher) { w.Renamed("a.jsonl", "b.jsonl") },
		func(w watcher) { w.Removed("a.jsonl") },
		func(w watcher) { w.Changed("a.jsonl") },
	} {
		x := &Index{building: true} // without a folder
		if change(watcher{x}); !x.late {
			t.Errorf("change %d is not late", i)
		}
		x = &Index{closed: true}
		if change(watcher{x}); x.late || x.byName["a.jsonl"] != nil {
			t.Errorf("change %d of a closed index is late", i)
		}
	}
}

// TestRenameBeyondRemoved removes the newest of two files with one id, and gives the
// other a later name than a file that is then created. The created file has the name
// of the removed one, or a name between the two.
func TestRenameBeyondRemoved(t *testing.T) {
	for _, created := range []string{"crab_user_1_m", "crab_user_1_n"} {
		text := metaLine("crab", "") + messageLine("user", "needle")
		f := newMemFolder(t, map[string]string{"crab_user_1_a.jsonl": text, "crab_user_1_m.jsonl": text})
		x := f.index(nil)
		f.check(f.m.Remove("/s/crab_user_1_m.jsonl"))
		f.check(x.Refresh())
		f.check(f.m.Rename("/s/crab_user_1_a.jsonl", "/s/crab_user_1_z.jsonl"))
		f.check(x.Refresh())
		f.write(created+".jsonl", text)
		f.check(x.Refresh())
		if got, want := found(t, x, Query{Text: "needle"}), `2 of 4; crab_user_1_z:2 "needle"; `+created+`:2 "needle"`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
