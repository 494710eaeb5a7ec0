package tree_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// A directory of 100,000 pages loads; one of more than 200,000 is refused, by
// load and by dump.
func TestManyPages(t *testing.T) {
	race.Skip(t)
	mem := faultfs.NewMem()
	if err := vfs.MkdirAll(mem, "/b/notes", 0o755); err != nil {
		t.Fatal(err)
	}
	n := 0
	write := func(upTo int) {
		for ; n < upTo; n++ {
			mem.WriteFile(fmt.Sprintf("/b/notes/%06d.md", n), []byte("text"), 0o600)
		}
	}
	write(100_000)
	s := New(&Options{FS: mem})
	told := 0
	if report, err := Load(s, "/b", &LoadOptions{Bases: BasesFor("/b"), Progress: func(done, total int) { told += done / total }}); err != nil || s.Len() != n || len(report.Added) != n || told != 1 {
		t.Fatalf("%d entries, %d calls of Progress at the end, %v", s.Len(), told, err)
	}
	write(200_001)
	if _, err := Load(s, "/b", LoadOptionsFor("/b")); !errors.Is(err, ErrTree) || s.Len() != 100_000 {
		t.Fatalf("%d pages: %v", n, err)
	}
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Entry{ID: uint64(i), Name: fmt.Sprint(i)}
	}
	if _, err := DumpSnapshot(mem, "/c", snapshotOf(t, uint64(n), entries...), DumpOptionsFor("/c")); !errors.Is(err, ErrTree) || !strings.Contains(err.Error(), "more than 200000 pages") {
		t.Fatalf("%d entries: %v", n, err)
	}
	if _, err := mem.Lstat("/c"); err == nil {
		t.Fatal("a dump that refused made a directory")
	}
}

// TestManyPagesConcurrently writes many pages concurrently; calls of Progress are
// sequential.
func TestManyPagesConcurrently(t *testing.T) {
	var entries []Entry
	for i := range 3000 {
		entries = append(entries, Entry{ID: uint64(i), Name: fmt.Sprint("entry ", i), Kind: Kind(i % 2), Content: fmt.Sprint("text ", i)})
	}
	sn := snapshotOf(t, 3000, entries...)
	mem := faultfs.NewMem()
	var mu sync.Mutex
	last, top := 0, 0
	progress := func(done, total int) {
		if !mu.TryLock() {
			t.Error("two calls of Progress at once")
			return
		}
		defer mu.Unlock()
		if done < last || done > total || total < top {
			t.Errorf("progress %d of %d after %d of %d", done, total, last, top)
		}
		last, top = done, total
	}
	report, err := DumpSnapshot(mem, "/b", sn, &DumpOptions{Bases: BasesFor("/b"), Progress: progress})
	if err != nil || len(report.Written) != len(entries) || last != top || last != 6000 {
		t.Fatalf("%d written, progress %d of %d, %v", len(report.Written), last, top, err)
	}
	s := New(&Options{FS: mem})
	if _, err := Load(s, "/b", LoadOptionsFor("/b")); err != nil || encoded(t, s.Snapshot()) != encoded(t, sn) {
		t.Fatalf("loads to another store: %v", err)
	}
	// One page that cannot be written ends the dump, and the next finishes it.
	for i := range entries {
		entries[i].Content += " again"
	}
	sn = snapshotOf(t, 3000, entries...)
	failed := false
	mem.Hook = func(c faultfs.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if c.Op == "rename" && !failed && c.Name == "/b/notes/entry 2000.md" {
			failed = true
			return errors.New("no such luck")
		}
		return nil
	}
	if _, err := DumpSnapshot(mem, "/b", sn, DumpOptionsFor("/b")); err == nil || !failed {
		t.Fatalf("failed %v, and the dump: %v", failed, err)
	}
	mem.Hook = nil
	if _, err := Load(s, "/b", LoadOptionsFor("/b")); !errors.Is(err, ErrTree) {
		t.Fatalf("an unfinished tree: %v", err)
	}
	if _, err := DumpSnapshot(mem, "/b", sn, DumpOptionsFor("/b")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(s, "/b", LoadOptionsFor("/b")); err != nil || encoded(t, s.Snapshot()) != encoded(t, sn) {
		t.Fatalf("loads to another store: %v", err)
	}
}
