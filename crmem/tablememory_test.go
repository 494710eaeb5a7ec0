package crmem

import (
	"fmt"
	"testing"

	"crabmem/crmem/internal/format"
)

// TestTableDropsRemovedRecords removes all but one entry of each table. At least
// half of a table of over 64 records are live, and the table is rebuilt only
// when it shrinks to half.
func TestTableDropsRemovedRecords(t *testing.T) {
	for _, c := range []struct{ entries, least, most int }{{64, 0, 0}, {65, 1, 1}, {2000, 4, 6}} {
		s := New(nil)
		var ops []Op
		for i := range c.entries {
			ops = append(ops, Add{Name: fmt.Sprint("entry ", i)})
		}
		noErr(t, s.Apply(ops...))
		last, rebuilt, before := c.entries-1, 0, len(s.t.recs)
		for i := range last {
			noErr(t, s.Apply(Remove{fmt.Sprint("entry ", i)}))
			all, live := len(s.t.recs), s.t.live
			if live != last-i || all > 64 && live < all/2 {
				t.Fatalf("%d entries: %d of %d records are live", last-i, live, all)
			}
			if all != before {
				rebuilt++
			}
			before = all
		}
		if rebuilt < c.least || rebuilt > c.most {
			t.Errorf("rebuilt %d times for %d removals", rebuilt, last)
		}
		if e, err := s.Get(fmt.Sprint("entry ", last)); err != nil || e.ID != uint64(c.entries) {
			t.Errorf("%+v, %v", e, err)
		}
	}
}

// TestLoadedFilesAreReplaced calls loadedFrom again: the table then refers to
// the files of the last call only.
func TestLoadedFilesAreReplaced(t *testing.T) {
	db := encodedStore(t, 3, "a", "b")
	sn, err := Decode(db)
	noErr(t, err)
	for range 2 {
		sn.t.loadedFrom(db, nil)
		if len(sn.t.loaded) != 1 || sn.t.loaded[0].left != int64(len(db)-format.HeaderSize) {
			t.Errorf("%+v", sn.t.loaded)
		}
	}
	sn.t.loadedFrom([]byte("another file"))
	if len(sn.t.loaded) != 0 {
		t.Errorf("%+v", sn.t.loaded)
	}
}
