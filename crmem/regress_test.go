package crmem

import (
	"testing"

	"crabmem/crmem/vfs"
)

// Each test here was a bug.

func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened opens a store and counts what it holds.
func opened(t *testing.T, path string, o *Options, want int) *Store {
	t.Helper()
	s, err := Open(path, o)
	noErr(t, err)
	if s.Len() != want {
		t.Fatalf("%d entries, want %d", s.Len(), want)
	}
	return s
}

// TestRestoreOfAnAddedID restores, in a batch on an empty store, the id that an
// Add of the same batch was given.
func TestRestoreOfAnAddedID(t *testing.T) {
	m := vfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, FoldOnClose: FoldNever}, 0)
	noErr(t, s.Apply(Add{Name: "b"}, Restore{Entry{ID: 1, Name: "c"}}))
	noErr(t, s.Close())
	opened(t, "/m.db", &Options{FS: m}, 2)
}
