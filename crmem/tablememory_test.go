package crmem

import (
	"fmt"
	"testing"
)

// TestTableDropsRemovedRecords removes all but one of many entries. More than
// half of a table of over 64 records are live, and the table is rebuilt only
// when it shrinks to half.
func TestTableDropsRemovedRecords(t *testing.T) {
	s := New(nil)
	const n = 2000
	var ops []Op
	for i := range n {
		ops = append(ops, Add{Name: fmt.Sprint("entry ", i)})
	}
	noErr(t, s.Apply(ops...))
	rebuilt, before := 0, len(s.t.recs)
	for i := range n - 1 {
		noErr(t, s.Apply(Remove{fmt.Sprint("entry ", i)}))
		all, live := len(s.t.recs), s.t.live
		if live != n-1-i || all > 64 && live < all/2 {
			t.Fatalf("%d entries: %d of %d records are live", n-1-i, live, all)
		}
		if all != before {
			rebuilt++
		}
		before = all
	}
	if rebuilt == 0 || rebuilt > 8 {
		t.Errorf("rebuilt %d times for %d removals", rebuilt, n-1)
	}
	if e, err := s.Get(fmt.Sprint("entry ", n-1)); err != nil || e.ID != n {
		t.Errorf("%+v, %v", e, err)
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
		if len(sn.t.loaded) != 1 || sn.t.loaded[0].left != int64(len(db)-headerSize) {
			t.Errorf("%+v", sn.t.loaded)
		}
	}
	sn.t.loadedFrom([]byte("another file"))
	if len(sn.t.loaded) != 0 {
		t.Errorf("%+v", sn.t.loaded)
	}
}
