package tree_test

import (
	"testing"
	"time"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs/faultfs"
)

// TestLoadDecidesAgainAfterCreate creates the store in another process after a
// load planned for an absent one. The load keeps the other process's entries.
func TestLoadDecidesAgainAfterCreate(t *testing.T) {
	m := faultfs.NewMem()
	ok(t, m.Mkdir("/d", 0o700))
	from := New(&Options{FS: m})
	ok(t, from.Apply(Add{Name: "page", Content: "of the tree"}))
	_, err := Dump(from, "/tree", DumpOptionsFor("/tree"))
	ok(t, err)
	// Without the manifest, no entry of the store counts as removed.
	ok(t, m.Remove("/tree/"+".crabmem.json"))
	s := opened(t, "/d/m.db", &Options{FS: m}, 0)
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "lock" {
			m.Hook = nil
			other := opened(t, "/d/m.db", &Options{FS: m}, 0)
			ok(t, other.Apply(Add{Name: "acknowledged"}))
			ok(t, other.Close())
		}
		return nil
	}
	_, err = Load(s, "/tree", &LoadOptions{Bases: BasesFor("/tree"), Merge: true})
	ok(t, err)
	if m.Hook != nil {
		t.Error("the load took no lock")
	}
	for range 2 {
		for _, name := range []string{"acknowledged", "page"} {
			if _, err := s.Get(name); err != nil {
				t.Errorf("%v", err)
			}
		}
		ok(t, s.Close())
		s = opened(t, "/d/m.db", &Options{FS: m}, 2)
	}
}

// TestLoadPlansOnce loads a tree into a store that does not change. It reads the
// clock once for one plan, and once for the log.
func TestLoadPlansOnce(t *testing.T) {
	m := faultfs.NewMem()
	calls := 0
	s := opened(t, "/m.db", &Options{FS: m, Now: func() time.Time {
		calls++
		return time.Unix(1_760_000_000, 0)
	}}, 0)
	ok(t, s.Apply(Add{Name: "a", Content: "text"}))
	_, err := Dump(s, "/tree", DumpOptionsFor("/tree"))
	ok(t, err)
	ok(t, s.Apply(Update{Name: "a", Content: "changed"}))
	calls = 0
	_, err = Load(s, "/tree", LoadOptionsFor("/tree"))
	ok(t, err)
	if calls != 2 {
		t.Errorf("read the clock %d times", calls)
	}
	ok(t, s.Close())
}
