package log

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
)

// FuzzHistory reads and continues a history with two segments of arbitrary bytes. Its
// bytes never affect the entries, and the next fold is readable.
func FuzzHistory(f *testing.F) {
	db := snapshot(f)
	all := seeds(f)
	for i, v := range all {
		f.Add(v.Files["wal"], all[(i+1)%len(all)].Files["wal"], byte(0xff))
		f.Add(v.Files["wal"], v.Files["wal"], byte(0))
	}
	f.Fuzz(func(t *testing.T, first, second []byte, what byte) {
		synctest.Test(t, func(t *testing.T) { continued(t, db, first, second, what) })
	})
}

// continued opens a store with a history of two segments, and writes to it.
func continued(t *testing.T, db, first, second []byte, what byte) {
	m := faultfs.NewMem()
	must(t, m.Mkdir("/d", 0o700))
	m.WriteFile("/d/m.db", db, 0o600)
	s := openHistory(t, m)
	want := slices.Collect(s.All())
	must(t, s.Apply(crmem.Add{Name: "fold"}))
	must(t, s.Checkpoint()) // makes a base and a segment
	for _, list := range []string{"00000002.log", "00000003.log"} {
		b := slices.Clone(first)
		if list == "00000003.log" {
			b = slices.Clone(second)
		}
		fix(b, db, what)
		m.WriteFile("/d/m.db-history/"+list, b, 0o600)
	}
	read(t, s)
	must(t, s.Apply(crmem.Remove{Name: "fold"}))
	must(t, s.Close())

	s = openHistory(t, m)
	must(t, s.Apply(crmem.Add{Name: "later", Content: "text"}))
	must(t, s.Checkpoint())
	must(t, s.Apply(crmem.Remove{Name: "later"}))
	got := slices.Collect(s.All())
	if !slices.EqualFunc(got, want, crmem.Entry.Equal) {
		t.Fatalf("entries %+v, want %+v", got, want)
	}
	changes := read(t, s)
	if n := len(changes); n < 1 || changes[n-1].Type != crmem.ChangeRemove || changes[n-1].Before.Name != "later" {
		t.Fatalf("the last of %d changes is not the last of the log", n)
	}
	must(t, s.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openHistory(t *testing.T, m *faultfs.Mem) *crmem.Store {
	t.Helper()
	s, err := crmem.Open("/d/m.db", &crmem.Options{FS: m, CheckpointOnClose: crmem.CheckpointNever})
	must(t, err)
	return s
}

// read lists the changes and shows earlier states. It returns the changes.
func read(t *testing.T, s *crmem.Store) (changes []crmem.Change) {
	for c, err := range s.Changes() {
		if err == nil {
			changes = append(changes, c)
		}
	}
	for _, at := range []crmem.Point{{Seq: 1}, {Seq: 2}, {Seq: 5}, {Time: time.Now()}} {
		if sn, err := s.At(at); err == nil && sn.NextID == 0 {
			t.Fatalf("%v: next_id 0", at)
		}
	}
	return changes
}
