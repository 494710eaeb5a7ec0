package tree_test

import (
	"errors"
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

// TestManifestVersion loads and dumps a tree with a manifest of another version: the
// error names the version, and no file of the tree or the store changes.
func TestManifestVersion(t *testing.T) {
	for _, version := range []string{`"version":0`, `"version":1,"state":"done","next_id":9,"pages":[]`, `"version":4`} {
		m := reportTree(t)
		replaceIn(treeManifest, `"version":2`, version)(t, m)
		s := opened(t, "/m.db", reportOptions(m), 8)
		before := m.Hash()
		for name, use := range map[string]func() error{
			"load":          func() error { _, err := Load(s, "/tree", nil); return err },
			"load --merge":  func() error { _, err := Load(s, "/tree", &LoadOptions{Merge: true}); return err },
			"load, guarded": func() error { _, err := Load(s, "/tree", &LoadOptions{Guard: true}); return err },
			"dump":          func() error { _, err := Dump(s, "/tree", nil); return err },
			"dump --force":  func() error { _, err := Dump(s, "/tree", &DumpOptions{Force: true}); return err },
		} {
			err := use()
			if !errors.Is(err, ErrVersion) || !errors.Is(err, ErrTree) || !strings.Contains(err.Error(), ".crabmem.json: version "+version[10:11]+", this program reads versions 2 and 3: ") {
				t.Errorf("%s with %.20s: %v", name, version, err)
			}
			if m.Hash() != before {
				t.Fatalf("%s with %.20s changed a file", name, version)
			}
		}
		ok(t, s.Close())
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
