package crmem

import (
	"fmt"
	"testing"

	"crabmem/crmem/internal/format"
)

// TestTableDropsRemovedRecords removes all but one entry of each table. At least
// half of a table of over 64 records are live, and the table is rebuilt only
// when it shrinks to less.
func TestTableDropsRemovedRecords(t *testing.T) {
	for _, entries := range []int{64, 65, 66, 2000} {
		s := New(nil)
		var ops []Op
		for i := range entries {
			ops = append(ops, Add{Name: fmt.Sprint("entry ", i)})
		}
		noErr(t, s.Apply(ops...))
		records := entries
		for left := entries - 1; left > 0; left-- {
			noErr(t, s.Apply(Remove{fmt.Sprint("entry ", entries-1-left)}))
			if records > 64 && 2*left < records-records%2 {
				records = left
			}
			if len(s.t.recs) != records || s.t.live != left {
				t.Fatalf("%d of %d entries: %d of %d records are live, want %d", left, entries, s.t.live, len(s.t.recs), records)
			}
		}
		if e, err := s.Get(fmt.Sprint("entry ", entries-1)); err != nil || e.ID != uint64(entries) {
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
