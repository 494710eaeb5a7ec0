package tree_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// rootCounter is a file system that counts its open directories.
type rootCounter struct {
	*faultfs.Mem
	opened, open *int
}

type countedRoot struct {
	vfs.RootDir
	open *int
}

func (c rootCounter) Root(dir string) (vfs.RootDir, error) {
	r, err := c.Mem.Root(dir)
	if err != nil {
		return nil, err
	}
	*c.opened++
	*c.open++
	return countedRoot{r, c.open}, nil
}

func (r countedRoot) Close() error {
	*r.open--
	return r.RootDir.Close()
}

// TestTreesAreClosed uses trees with and without errors. No directory stays open.
func TestTreesAreClosed(t *testing.T) {
	base := reportTree(t)
	use := func(name string, m *faultfs.Mem, want int, do func(s *Store) (any, error)) {
		c := rootCounter{m, new(int), new(int)}
		o := reportOptions(m)
		o.FS = c
		s := must(Open("/m.db", o))
		do(s)
		m.Hook = nil
		if *c.open != 0 || *c.opened != want {
			t.Errorf("%s: opened %d directories, want %d; %d are open", name, *c.opened, want, *c.open)
		}
		ok(t, s.Close())
	}
	for _, u := range treeUses {
		want := 1
		if u.name == "merge and dump" {
			want = 2
		}
		use(u.name, base.Kill(), want, u.do)
		m := base.Kill()
		m.WriteFile("/tree/.crabmem.json", []byte("{"), 0o600)
		use(u.name+" with an invalid manifest", m, want, u.do)
	}
	dump := func(s *Store) (any, error) { return Dump(s, "/a/new", DumpOptionsFor("/a/new")) }
	use("dump to a new directory", base.Kill(), 1, dump)
	m := base.Kill()
	failCall(m, syscall.EIO, func(c faultfs.Call) bool { return c.Op == "create" })
	use("failed dump to a new directory", m, 1, dump)
	conflict := base.Kill()
	appendTo(t, conflict, "/tree/notes/changed.md", "in the tree\n")
	use("merge of a conflict", conflict.Kill(), 2, treeUses[2].do)
	m = conflict.Kill()
	failCall(m, syscall.EIO, func(c faultfs.Call) bool { return c.Op == "create" && strings.HasPrefix(c.Name, "/tree/") })
	use("merge with a failed conflict file", m, 2, treeUses[2].do)
}

// TestDumpedFilesArePrivate dumps to a new directory. It and its parents, files, and
// directories have private modes.
func TestDumpedFilesArePrivate(t *testing.T) {
	m := faultfs.NewMem()
	sn := snapshotOf(t, 3, Entry{ID: 1, Name: "a"}, Entry{ID: 2, Name: "b", Kind: Archive})
	must(DumpSnapshot(m, "/new/tree", sn, DumpOptionsFor("/new/tree")))
	want := map[string]fs.FileMode{"/new": 0, "/new/tree": 0, "/new/tree/notes": 0, "/new/tree/archives": 0}
	for dir := range want {
		if fi := must(m.Lstat(dir)); fi.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s has the mode %v", dir, fi.Mode())
		}
	}
	for _, name := range []string{"SUMMARY.md", "book.toml", ".crabmem.json", "notes/a.md", "archives/b.md"} {
		if fi := must(m.Lstat("/new/tree/" + name)); fi.Mode() != 0o600 {
			t.Errorf("%s has the mode %v", name, fi.Mode())
		}
	}
}

// TestErrorsListTenNames checks that an error lists up to ten names.
func TestErrorsListTenNames(t *testing.T) {
	for n, want := range map[int]string{1: "n1", 2: "n1, n2", 10: "n1, n2, n3, n4, n5, n6, n7, n8, n9, n10",
		11: "n1, n2, n3, n4, n5, n6, n7, n8, n9, n10 and 1 more", 13: "n1, n2, n3, n4, n5, n6, n7, n8, n9, n10 and 3 more"} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint("n", i+1))
		}
		const fix = ": nothing was changed; run crabmem load --merge to load the pages, move the other files, or run crabmem dump --force to move both aside"
		for _, c := range []struct {
			err  error
			want string
		}{
			{&EditedError{Dir: "/d", Edited: names}, "/d: edited since the last dump or load: " + want + fix},
			{&EditedError{Dir: "/d", Foreign: names}, "/d: neither dumped nor loaded by this store: " + want + fix},
			{&EditedError{Dir: "/d", Edited: names, Foreign: names}, "/d: edited since the last dump or load: " + want + ": neither dumped nor loaded by this store: " + want + fix},
			{&EditedError{Dir: "/d"}, "/d" + fix},
		} {
			if got := c.err.Error(); got != c.want {
				t.Errorf("%d names:\n got %s\nwant %s", n, got, c.want)
			}
		}
	}
}

// TestPagesChangedDuringDump changes a page after the dump compared the page. The
// dump neither overwrites nor deletes the page, unless another program removed it.
func TestPagesChangedDuringDump(t *testing.T) {
	const name = "/b/notes/a.md"
	for _, c := range []struct {
		name   string
		change func(m *faultfs.Mem)
		passes bool
	}{
		{"edited", func(m *faultfs.Mem) { m.WriteFile(name, []byte("edited"), 0o600) }, false},
		{"emptied", func(m *faultfs.Mem) { m.WriteFile(name, nil, 0o600) }, false},
		{"too large", func(m *faultfs.Mem) { m.WriteFile(name, make([]byte, 64<<20), 0o600) }, false},
		{"a link", func(m *faultfs.Mem) { m.Symlink("other.md", name) }, false},
		{"removed", func(m *faultfs.Mem) { m.WriteFile(name, nil, 0o600); m.Hook = nil; _ = m.Remove(name) }, true},
	} {
		for _, next := range [][]Entry{{{ID: 1, Name: "a", Content: "new"}}, {{ID: 2, Name: "b"}}} {
			m := faultfs.NewMem()
			must(DumpSnapshot(m, "/b", snapshotOf(t, 2, Entry{ID: 1, Name: "a", Content: "old"}), DumpOptionsFor("/b")))
			changed := false
			m.Hook = func(call faultfs.Call) error {
				if call.Op == "rename" && strings.HasPrefix(call.Name, "/b/.crabmem/") && !changed {
					changed = true
					c.change(m)
				}
				return nil
			}
			_, err := DumpSnapshot(m, "/b", snapshotOf(t, 3, next...), DumpOptionsFor("/b"))
			m.Hook = nil
			if c.passes {
				ok(t, err)
				continue
			}
			if e, is := errors.AsType[*Error](err); !is || e.Path != "notes/a.md" || e.Msg != "was edited during the dump" || !changed {
				t.Errorf("%s, then %s: %v", c.name, next[0].Name, err)
			}
			if c.name == "edited" && string(memFile(t, m, name)) != "edited" {
				t.Errorf("%s, then %s: the page is overwritten", c.name, next[0].Name)
			}
		}
	}
}

// TestLoadBeforeEpoch loads a page without a date. Before 1970 the entry gets time 0.
func TestLoadBeforeEpoch(t *testing.T) {
	for now, want := range map[int64]UnixTime{-5: 0, 0: 0, 1: 1, 7: 7} {
		m := faultfs.NewMem()
		ok(t, vfs.MkdirAll(m, "/b/notes", 0o700))
		m.WriteFile("/b/notes/a.md", []byte("text"), 0o600)
		s := New(&Options{FS: m, Now: func() time.Time { return time.Unix(now, 0) }})
		must(Load(s, "/b", LoadOptionsFor("/b")))
		if e := must(s.Get("a")); e.CreatedAt != want {
			t.Errorf("at %d: created at %d", now, e.CreatedAt)
		}
	}
}

// TestLoadLimitsBytesOfTree loads a tree whose pages have exactly as many bytes as
// the store permits, and one byte less.
func TestLoadLimitsBytesOfTree(t *testing.T) {
	m := faultfs.NewMem()
	ok(t, vfs.MkdirAll(m, "/b/notes", 0o700))
	m.WriteFile("/b/notes/a.md", []byte(strings.Repeat("x", 3000)), 0o600)
	m.WriteFile("/b/notes/b.md", []byte(strings.Repeat("y", 2000)), 0o600)
	for limit, want := range map[int64]string{5001: "", 5000: "", 4999: "notes/b.md: with this page the tree has more than 4999 bytes"} {
		_, err := Load(New(&Options{FS: m, MaxBytes: limit}), "/b", &LoadOptions{Bases: BasesFor("/b"), DryRun: true})
		if (err != nil) != (want != "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

// TestErrorsOfDirectories loads trees that cannot be opened.
func TestErrorsOfDirectories(t *testing.T) {
	m := faultfs.NewMem()
	ok(t, m.Mkdir("/dir", 0o700))
	m.WriteFile("/file", nil, 0o600)
	m.Symlink("/file", "/link")
	m.Mkfifo("/fifo")
	for _, c := range []struct {
		dir, failed, want string
	}{
		{"/missing", "", "/missing: no such directory"},
		{"/file", "", "/file: is a file, not a directory"},
		{"/fifo", "", "/fifo: is a FIFO, not a directory"},
		{"/link", "", "root /link: not a directory"},
		{"/dir", "root", "root /dir: input/output error"},
		{"/file", "root lstat", "root /file: input/output error"},
	} {
		m.Hook = func(call faultfs.Call) error {
			if strings.Contains(c.failed, call.Op) {
				return errors.New("input/output error")
			}
			return nil
		}
		_, err := Load(New(&Options{FS: m}), c.dir, LoadOptionsFor(c.dir))
		m.Hook = nil
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s, fails %q: %v, want %s", c.dir, c.failed, err, c.want)
		}
	}
}
