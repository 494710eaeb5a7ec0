package tree_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// TestBaseOfRestoredStore dumps entries, and then restores an older copy of the
// store. The base does not apply: a dump deletes no page, and a merge adds the
// entries again.
func TestBaseOfRestoredStore(t *testing.T) {
	m := faultfs.NewMem()
	old := snapshotOf(t, 2, noteIn("a", 1, "one"))
	must(DumpSnapshot(m, "/b", snapshotOf(t, 3, noteIn("a", 1, "one"), noteIn("b", 2, "two")), DumpOptionsFor("/b")))
	if _, err := DumpSnapshot(m, "/b", old, DumpOptionsFor("/b")); err == nil || !strings.Contains(err.Error(), "neither dumped nor loaded by this store: notes/b.md") {
		t.Errorf("dump: %v", err)
	}
	s := storeOf(t, m, old)
	must(Load(s, "/b", &LoadOptions{Merge: true, Bases: BasesFor("/b")}))
	if got := contents(s.Snapshot()); got != "a=one;b=two;" {
		t.Errorf("after the merge: %s", got)
	}
}

// TestBaseOfOtherStore puts another store at the path of a store that exchanged
// entries with a tree.
func TestBaseOfOtherStore(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m}, 0)
	ok(t, s.Apply(Add{Name: "a", Content: "one"}, Add{Name: "b", Content: "two"}))
	must(Dump(s, "/b", nil))
	ok(t, s.Close())
	for _, suffix := range []string{"", "-id", "-wal", "-wal.held", "-lock", "-reserve"} {
		_ = m.Remove("/m.db" + suffix)
	}
	s = opened(t, "/m.db", &Options{FS: m}, 0)
	ok(t, s.Apply(Add{Name: "c", Content: "three"}, Add{Name: "a", Content: "other"}, Add{Name: "d"}, Remove{Name: "d"}))
	if _, err := Dump(s, "/b", nil); err == nil || !strings.Contains(err.Error(), "notes/a.md, notes/b.md") {
		t.Errorf("dump: %v", err)
	}
	r := must(Load(s, "/b", &LoadOptions{Merge: true}))
	if got := contents(s.Snapshot()); got != "c=three;a=other;b=two;" || len(r.Conflicts) != 1 {
		t.Errorf("after the merge: %s, %+v", got, r.Conflicts)
	}
	ok(t, s.Close())
}

// TestBaseCannotBeSaved dumps from a store whose directory is read-only. The dump
// succeeds and says so. If the disk fails, the dump fails before it changes a page.
func TestBaseCannotBeSaved(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EACCES, syscall.EROFS, syscall.EIO, syscall.ENOSPC} {
		m := faultfs.NewMem()
		m.Hook = func(c faultfs.Call) error {
			if strings.HasPrefix(c.Name, BasesFor("/b")) && c.Op != "lstat" && c.Op != "open" {
				return errno
			}
			return nil
		}
		r, err := DumpSnapshot(m, "/b", snapshotOf(t, 2, noteIn("a", 1, "one")), DumpOptionsFor("/b"))
		m.Hook = nil
		_, missing := m.Lstat("/b/notes/a.md")
		if errno == syscall.EIO || errno == syscall.ENOSPC {
			if err == nil || missing == nil {
				t.Errorf("%v: %v, page: %v", errno, err, missing)
			}
			continue
		}
		if err != nil || missing != nil || len(r.Warnings) != 1 || !strings.HasSuffix(r.Warnings[0], ": the next dump or merge treats /b as the tree of another store") {
			t.Errorf("%v: %v, %v, page: %v", errno, r.Warnings, err, missing)
		}
	}
}

// TestFirstDumpErrors fails each call of a dump that creates a tree. The dump
// returns the error, and the next dump completes the tree.
func TestFirstDumpErrors(t *testing.T) {
	sn := snapshotOf(t, 2, noteIn("a", 1, "one"))
	for n := 1; ; n++ {
		m := faultfs.NewMem()
		failed := faultfs.Call{}
		m.Hook = func(c faultfs.Call) error {
			if c.N == n {
				failed = c
				return syscall.EIO
			}
			return nil
		}
		_, err := DumpSnapshot(m, "/b", sn, DumpOptionsFor("/b"))
		m.Hook = nil
		if failed.N == 0 {
			ok(t, err)
			break
		}
		if err == nil && failed.Op != "close" {
			t.Errorf("%s %s failed, the dump did not", failed.Op, failed.Name)
		}
		must(DumpSnapshot(m, "/b", sn, DumpOptionsFor("/b")))
		s := New(&Options{FS: m})
		must(Load(s, "/b", nil))
		if got := contents(s.Snapshot()); got != "a=one;" {
			t.Errorf("%s %s failed, the next dump wrote %s", failed.Op, failed.Name, got)
		}
	}
}

// TestVersion1 loads, merges, and dumps to a tree with a manifest of version 1. For
// the entries of the store it is the base.
func TestVersion1(t *testing.T) {
	const merged = "plain=some text;exact=\n text \r\n;A/b:c=odd name\n;a/B:c=same name in another case;empty=;archive=an archive;changed=in the store;new=new in the store;gone=removed later;"
	for _, c := range []struct {
		name string
		use  func(s *Store) error
		want string
	}{
		{"merge", func(s *Store) error { _, err := Load(s, "/tree", &LoadOptions{Merge: true}); return err },
			merged},
		{"dump", func(s *Store) error { _, err := Dump(s, "/tree", nil); return err }, ""},
		{"merge and dump", func(s *Store) error {
			if _, err := Load(s, "/tree", &LoadOptions{Merge: true}); err != nil {
				return err
			}
			_, err := Dump(s, "/tree", nil)
			return err
		}, merged},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := reportTree(t)
			toVersion1(t, m, stateOfDump("done"))
			s := opened(t, "/m.db", reportOptions(m), 8)
			err := c.use(s)
			if c.want == "" {
				// An entry that the store forgot may be one of another store.
				if err == nil || !strings.Contains(err.Error(), "neither dumped nor loaded by this store: notes/gone.md") {
					t.Errorf("%v", err)
				}
				return
			}
			if got := contents(s.Snapshot()); err != nil || got != c.want {
				t.Errorf("%q, %v", got, err)
			}
			if text := string(memFile(t, m, "/tree/.crabmem.json")); !strings.Contains(text, `"version":2`) {
				t.Errorf("the manifest is %s", text)
			}
			again, err := Load(s, "/tree", &LoadOptions{Merge: true})
			if err != nil || len(again.Added)+len(again.Changed)+len(again.Removed)+len(again.Conflicts) > 0 {
				t.Errorf("merged again: %+v, %v", again, err)
			}
			ok(t, s.Close())
		})
	}
}

// TestUnlimitedPagesOfOtherStores loads a page of a dump that exceeds the limits of
// new entries into another store.
func TestUnlimitedPagesOfOtherStores(t *testing.T) {
	m := faultfs.NewMem()
	long := Entry{ID: 1, Name: strings.Repeat("n", 2000), Content: "text"}
	must(DumpSnapshot(m, "/b", snapshotOf(t, 2, long), DumpOptionsFor("/b")))
	s := New(&Options{FS: m})
	if _, err := Load(s, "/b", nil); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Get(long.Name); err != nil || !e.Equal(long) {
		t.Errorf("%+v, %v", e, err)
	}
	list := must(m.ReadDir("/b/notes"))
	page := "/b/notes/" + list[0].Name()
	m.WriteFile(page, append(must(vfs.ReadFile(m, page, 1<<20)), "more"...), 0o600)
	if _, err := Load(New(&Options{FS: m}), "/b", nil); err == nil {
		t.Error("an edited page that exceeds the limits loads")
	}
}

// TestManyUnlimitedPages dumps many entries that exceed the limits of new entries.
// Another store loads them.
func TestManyUnlimitedPages(t *testing.T) {
	race.Skip(t)
	var entries []Entry
	for id := range uint64(15_000) {
		entries = append(entries, Entry{ID: id + 1, Name: fmt.Sprint(id), Aliases: []string{strings.Repeat("x", 2000)}})
	}
	m := faultfs.NewMem()
	must(DumpSnapshot(m, "/b", snapshotOf(t, 15_001, entries...), DumpOptionsFor("/b")))
	s := New(&Options{FS: m})
	must(Load(s, "/b", nil))
	if s.Len() != len(entries) {
		t.Errorf("%d entries", s.Len())
	}
}
