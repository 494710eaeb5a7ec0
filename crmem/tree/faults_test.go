package tree_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// failCall fails the calls that match, and counts them.
func failCall(m *faultfs.Mem, err error, match func(faultfs.Call) bool) *int {
	n := new(int)
	m.Hook = func(c faultfs.Call) error {
		if !match(c) {
			return nil
		}
		*n++
		return err
	}
	return n
}

// TestDumpRemovesTemporaries dumps over a temporary file of an interrupted
// dump. An error of the removal ends the dump, unless the file is missing.
func TestDumpRemovesTemporaries(t *testing.T) {
	_, old, next, _ := crashSnapshots(t)
	const name = "/brain/..crabmem.json123"
	for _, cause := range []error{nil, syscall.EIO, fs.ErrNotExist} {
		m := faultfs.NewMem()
		must(DumpSnapshot(m, "/brain", old, DumpOptionsFor("/brain")))
		m.WriteFile(name, []byte("{"), 0o600)
		hits := failCall(m, cause, func(c faultfs.Call) bool { return c.Op == "remove" && c.Name == name })
		_, err := DumpSnapshot(m, "/brain", next, DumpOptionsFor("/brain"))
		if want := cause == syscall.EIO; *hits != 1 || errors.Is(err, syscall.EIO) != want || (err != nil) != want {
			t.Errorf("%v: %d removals, %v", cause, *hits, err)
		}
		if _, err := m.Lstat(name); cause == nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the temporary file after the dump: %v", err)
		}
	}
}

// editedTree returns a dumped tree with a page that was edited and a file that
// no dump wrote, and a snapshot for the next dump.
func editedTree(t *testing.T) (*faultfs.Mem, *Snapshot) {
	t.Helper()
	_, old, next, _ := crashSnapshots(t)
	m := faultfs.NewMem()
	must(DumpSnapshot(m, "/brain", old, DumpOptionsFor("/brain")))
	m.WriteFile("/brain/notes/keep.md", []byte("edited by hand"), 0o600)
	m.WriteFile("/brain/notes/mine.md", []byte("written by hand"), 0o600)
	return m, next
}

// TestForcedDumpMovesFilesAside checks the directories of the moved files.
func TestForcedDumpMovesFilesAside(t *testing.T) {
	m, next := editedTree(t)
	r := must(DumpSnapshot(m, "/brain", next, &DumpOptions{Bases: BasesFor("/brain"), Force: true}))
	if len(r.Aside) != 2 {
		t.Fatalf("%+v", r)
	}
	for name, want := range map[string]string{"keep": "edited by hand", "mine": "written by hand"} {
		if got := string(memFile(t, m, "/brain/aside-1/notes/"+name+".md")); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, dir := range []string{"/brain/aside-1", "/brain/aside-1/notes"} {
		if fi := must(m.Lstat(dir)); fi.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s has the mode %v", dir, fi.Mode())
		}
	}
}

// TestForcedDumpFailures fails the calls that move files aside. The dump
// returns the error, and writes no page.
func TestForcedDumpFailures(t *testing.T) {
	moved := false
	for _, c := range []struct {
		what  string
		match func(faultfs.Call) bool
	}{
		{"directory", func(c faultfs.Call) bool { return c.Op == "mkdir" && strings.HasPrefix(c.Name, "/brain/aside-1/") }},
		{"sync before the moves", func(c faultfs.Call) bool { return c.Op == "syncdir" && !moved }},
		{"move", func(c faultfs.Call) bool { return c.Op == "rename" && strings.HasPrefix(c.Name, "/brain/aside-1/") }},
		{"sync after the moves", func(c faultfs.Call) bool { return c.Op == "syncdir" && moved }},
	} {
		m, next := editedTree(t)
		moved = false
		created := 0
		hits := failCall(m, syscall.EIO, func(call faultfs.Call) bool {
			if c.match(call) {
				return true
			}
			moved = moved || call.Op == "rename" && strings.HasPrefix(call.Name, "/brain/aside-1/")
			if call.Op == "create" {
				created++
			}
			return false
		})
		if _, err := DumpSnapshot(m, "/brain", next, &DumpOptions{Bases: BasesFor("/brain"), Force: true}); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", c.what, err)
		}
		if *hits != 1 || created != 0 {
			t.Errorf("%s: %d failures, then %d files created", c.what, *hits, created)
		}
		m.Hook = nil
		all, _ := files(t, m, "/brain")
		text := fmt.Sprint(all)
		for _, want := range []string{"edited by hand", "written by hand"} {
			if strings.Count(text, want) != 1 {
				t.Errorf("%s: %q exists %d times", c.what, want, strings.Count(text, want))
			}
		}
	}
}

// TestDumpWritersConcurrently counts the pages that a dump writes concurrently: one
// of a few pages, 16 of 256 or more.
func TestDumpWritersConcurrently(t *testing.T) {
	for pages, want := range map[int]int{255: 1, 256: 16} {
		synctest.Test(t, func(t *testing.T) {
			var entries []Entry
			for i := range pages {
				entries = append(entries, Entry{ID: uint64(i), Name: fmt.Sprint("entry ", i)})
			}
			m := faultfs.NewMem()
			blocked, release := make(chan struct{}, pages), make(chan struct{})
			m.Hook = func(c faultfs.Call) error {
				if c.Op == "create" && strings.HasPrefix(c.Name, "/b/notes/") {
					blocked <- struct{}{}
					<-release
				}
				return nil
			}
			done := make(chan error, 1)
			go func() {
				_, err := DumpSnapshot(m, "/b", snapshotOf(t, uint64(pages), entries...), DumpOptionsFor("/b"))
				done <- err
			}()
			synctest.Wait()
			if len(blocked) != want {
				t.Errorf("%d pages: %d concurrent writes, want %d", pages, len(blocked), want)
			}
			close(release)
			ok(t, <-done)
		})
	}
}

// TestDumpOfRenamedCase dumps an entry whose name changed only in case. If the
// file system distinguishes case, the dump removes the old page, and the new
// page has the new text.
func TestDumpOfRenamedCase(t *testing.T) {
	m := faultfs.NewMem()
	must(DumpSnapshot(m, "/b", snapshotOf(t, 2, Entry{ID: 1, Name: "Page", Content: "old"}), DumpOptionsFor("/b")))
	must(DumpSnapshot(m, "/b", snapshotOf(t, 3, Entry{ID: 2, Name: "page", Content: "new"}), DumpOptionsFor("/b")))
	pages, _ := files(t, m, "/b/notes")
	if len(pages) != 1 || !strings.Contains(fmt.Sprint(pages), "new") {
		t.Errorf("%q", pages)
	}
	if got := string(memFile(t, m, "/b/notes/page.md")); !strings.HasSuffix(got, "new\n") && !strings.HasSuffix(got, "new") {
		t.Errorf("%q", got)
	}
}

// TestDumpOfRenamedTwin dumps an entry under another spelling of the name. On a
// file system where both spellings lead to one file, the dump renames it and
// removes no page.
func TestDumpOfRenamedTwin(t *testing.T) {
	for _, c := range []struct{ old, new string }{{"Page", "page"}, {"caf\u00e9", "cafe\u0301"}} {
		m := faultfs.NewMem()
		must(DumpSnapshot(m, "/b", snapshotOf(t, 2, Entry{ID: 1, Name: c.old, Content: "old"}), DumpOptionsFor("/b")))
		oldPage, newPage := "/b/notes/"+c.old+".md", "/b/notes/"+c.new+".md"
		written, renames, removes := false, 0, 0
		m.Hook = func(call faultfs.Call) error {
			switch {
			case call.Op == "rename" && call.Name == newPage && !written:
				written = true
			case call.Op == "lstat" && call.Name == oldPage && written && renames == 0:
				hook := m.Hook
				m.Hook = nil
				ok(t, m.Remove(oldPage))
				ok(t, m.Link(newPage, oldPage))
				m.Hook = hook
			case call.Op == "rename" && call.Name == newPage:
				renames++
			case call.Op == "remove" && call.Name == oldPage:
				removes++
			}
			return nil
		}
		must(DumpSnapshot(m, "/b", snapshotOf(t, 3, Entry{ID: 2, Name: c.new, Content: "new"}), DumpOptionsFor("/b")))
		if !written || renames != 1 || removes != 0 {
			t.Errorf("%s: written %t, %d renames, %d removals", c.new, written, renames, removes)
		}
		m.Hook = nil
		if got := string(memFile(t, m, newPage)); !strings.Contains(got, "new") {
			t.Errorf("%s: %q", c.new, got)
		}
	}
}

// TestLoadOfTreeWithoutPages keeps the entries of the store.
func TestLoadOfTreeWithoutPages(t *testing.T) {
	m := faultfs.NewMem()
	must(DumpSnapshot(m, "/b", snapshotOf(t, 1), DumpOptionsFor("/b")))
	s := storeOf(t, m, snapshotOf(t, 2, Entry{ID: 1, Name: "a"}))
	for _, dry := range []bool{true, false} {
		if _, err := Load(s, "/b", &LoadOptions{Bases: BasesFor("/b"), DryRun: dry}); !errors.Is(err, ErrTree) || s.Len() != 1 {
			t.Errorf("dry run %t: %d entries, %v", dry, s.Len(), err)
		}
	}
}

// TestConflictFilesArePrivate merges a conflict. Its file and directories have
// private modes.
func TestConflictFilesArePrivate(t *testing.T) {
	m, s := dumpOne(t, Entry{ID: 1, Name: "a", CreatedAt: 7, Content: "dumped"})
	editPage(t, m, "dumped", "tree")
	must(s.Remember("a", "store", nil))
	r := must(Load(s, "/brain", &LoadOptions{Bases: BasesFor("/brain"), Merge: true}))
	if len(r.Conflicts) != 1 {
		t.Fatalf("%+v", r)
	}
	for name, want := range map[string]fs.FileMode{
		"/brain/conflicts":              fs.ModeDir | 0o700,
		"/brain/conflicts/notes":        fs.ModeDir | 0o700,
		"/brain/" + r.Conflicts[0].File: 0o600,
	} {
		if fi := must(m.Lstat(name)); fi.Mode() != want {
			t.Errorf("%s has the mode %v, want %v", name, fi.Mode(), want)
		}
	}
}

// TestRestoredPageAfterLoad removes an entry from store and tree, loads, and
// restores the page. Both sides agreed on the removal, so a later merge adds the
// entry again.
func TestRestoredPageAfterLoad(t *testing.T) {
	for _, merge := range []bool{false, true} {
		m := faultfs.NewMem()
		sn := snapshotOf(t, 3, Entry{ID: 1, Name: "a", Content: "text"}, Entry{ID: 2, Name: "b"})
		must(DumpSnapshot(m, "/brain", sn, DumpOptionsFor("/brain")))
		s := storeOf(t, m, sn)
		ok(t, s.Forget("a"))
		page := memFile(t, m, "/brain/notes/a.md")
		ok(t, m.Remove("/brain/notes/a.md"))
		must(Load(s, "/brain", &LoadOptions{Bases: BasesFor("/brain"), Merge: merge}))
		m.WriteFile("/brain/notes/a.md", page, 0o600)
		must(Load(s, "/brain", &LoadOptions{Bases: BasesFor("/brain"), Merge: true}))
		if _, err := s.Get("a"); err != nil {
			t.Errorf("merge %t: then %v", merge, err)
		}
	}
}

// TestRemovalAfterRestoringLoad replaces the store with a tree that has a page
// of a removed entry. The store then removes the entry again. A merge keeps
// that removal, because the page still has the dumped text.
func TestRemovalAfterRestoringLoad(t *testing.T) {
	m := faultfs.NewMem()
	sn := snapshotOf(t, 3, Entry{ID: 1, Name: "a", Content: "text"}, Entry{ID: 2, Name: "b"})
	must(DumpSnapshot(m, "/brain", sn, DumpOptionsFor("/brain")))
	s := storeOf(t, m, sn)
	ok(t, s.Forget("a"))
	must(Load(s, "/brain", LoadOptionsFor("/brain")))
	if _, err := s.Get("a"); err != nil {
		t.Fatal(err)
	}
	ok(t, s.Forget("a"))
	must(Load(s, "/brain", &LoadOptions{Bases: BasesFor("/brain"), Merge: true}))
	if _, err := s.Get("a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("after the merge: %v", err)
	}
}

// listing is a file system whose directories of pages list n files that do not
// exist.
type listing struct {
	*faultfs.Mem
	n int
}

type listingRoot struct {
	vfs.RootDir
	n int
}

type missingFile struct{ fs.DirEntry }

func (missingFile) Info() (fs.FileInfo, error) { return nil, fs.ErrNotExist }
func (missingFile) Name() string               { return "a.md" }

func (l listing) Root(dir string) (vfs.RootDir, error) {
	r, err := l.Mem.Root(dir)
	return listingRoot{r, l.n}, err
}

func (r listingRoot) ReadDir(name string) ([]fs.DirEntry, error) {
	if name != "notes" {
		return r.RootDir.ReadDir(name)
	}
	list := make([]fs.DirEntry, r.n)
	for i := range list {
		list[i] = missingFile{}
	}
	return list, nil
}

// TestLoadLimitsFilesOfDirectory lists as many files as a directory of pages
// may have, and one more.
func TestLoadLimitsFilesOfDirectory(t *testing.T) {
	for _, c := range []struct {
		files int
		want  string
	}{
		{200_000, "no pages"},
		{200_001, "200001 files, at most 200000"},
	} {
		m := faultfs.NewMem()
		must(DumpSnapshot(m, "/b", snapshotOf(t, 2, Entry{ID: 1, Name: "a"}), DumpOptionsFor("/b")))
		s := storeOf(t, listing{m, c.files}, snapshotOf(t, 2, Entry{ID: 1, Name: "a"}))
		if _, err := Load(s, "/b", LoadOptionsFor("/b")); !errors.Is(err, ErrTree) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d files: %v", c.files, err)
		}
	}
}
