// Package tree fuzzes the readers of Markdown trees: of one page, and of complete
// directories.
package tree

import (
	"bytes"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// file is a file of a tree in text form. The text form of a file is a line
// "-- name --" and the contents.
type file struct {
	name string
	data []byte
}

func parse(text []byte) []file {
	var list []file
	for line := range bytes.Lines(text) {
		name, ok := bytes.CutPrefix(line, []byte("-- "))
		if ok {
			name, ok = bytes.CutSuffix(bytes.TrimRight(name, "\r\n"), []byte(" --"))
		}
		if ok {
			list = append(list, file{name: string(name)})
		} else if n := len(list); n > 0 {
			list[n-1].data = append(list[n-1].data, line...)
		}
	}
	return list
}

// seeds reads the trees in testdata/trees.
func seeds(f *testing.F) map[string][]byte {
	f.Helper()
	names, err := filepath.Glob(filepath.Join("..", "..", "testdata", "trees", "*.txtar"))
	if err != nil {
		f.Fatal(err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		out[filepath.Base(name)] = b
	}
	if len(out) < 5 {
		f.Fatalf("%d trees in testdata/trees", len(out))
	}
	return out
}

// FuzzPage loads any page. The load must succeed or return an error with a path
// and a remedy. A loaded entry must contain all text after the metadata, and a
// dump and a load must preserve it.
func FuzzPage(f *testing.F) {
	for _, text := range seeds(f) {
		for _, file := range parse(text) {
			if strings.HasSuffix(file.name, ".md") {
				f.Add("page", file.data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, stem string, text []byte) {
		if stem == "" || strings.ContainsAny(stem, "/\x00") || len(stem) > 200 {
			t.Skip()
		}
		mem := faultfs.NewMem()
		name := "/t/notes/" + stem + ".md"
		put(t, mem, name, func() { mem.WriteFile(name, text, 0o600) })
		s := loadOrRefuse(t, mem, "/t")
		if s == nil {
			return
		}
		if s.Len() != 1 {
			t.Fatalf("%d entries", s.Len())
		}
		for e := range s.All() {
			if body, content := words(bodyOf(text)), words(e.Content); !slices.Equal(body, content) {
				t.Fatalf("the page contains %q, the entry %q", body, content)
			}
		}
		checkRoundTrip(t, s.Snapshot())
	})
}

// bodyOf returns the text of a page after the metadata.
func bodyOf(page []byte) string {
	s := strings.TrimPrefix(string(page), "\ufeff")
	if rest, ok := strings.CutPrefix(s, `<div id="meta">`); ok {
		if _, body, ok := strings.Cut(rest, "</div>"); ok {
			return body
		}
	}
	return s
}

func words(s string) []string { return strings.FieldsFunc(s, unicode.IsSpace) }

// loadOrRefuse loads a tree into an empty store. It returns nil if the load fails,
// and checks the error and the unchanged store.
func loadOrRefuse(t *testing.T, mem *faultfs.Mem, dir string) *crmem.Store {
	t.Helper()
	s := crmem.New(&crmem.Options{FS: mem})
	_, err := tree.Load(s, dir, nil)
	if err == nil {
		return s
	}
	if s.Len() != 0 || s.NextID() != 1 {
		t.Fatalf("the load failed (%v), but the store has %d entries", err, s.Len())
	}
	te, ok := errors.AsType[*tree.Error](err)
	if !ok || te.Path == "" || te.Msg == "" || te.Remedy == "" || !utf8.ValidString(te.Msg) {
		t.Fatalf("the error has no path, message, or remedy: %#v", err)
	}
	return nil
}

// dump dumps a snapshot.
func dump(fsys vfs.FS, dir string, sn *crmem.Snapshot) (tree.DumpReport, error) {
	s := crmem.New(&crmem.Options{FS: fsys})
	if err := s.Replace(sn); err != nil {
		return tree.DumpReport{}, err
	}
	return tree.Dump(s, dir, nil)
}

// checkRoundTrip checks that a dump of a store loads to the same store, and that a
// second dump changes nothing.
func checkRoundTrip(t *testing.T, sn *crmem.Snapshot) {
	t.Helper()
	want, err := sn.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	mem := faultfs.NewMem()
	if _, err := dump(mem, "/d", sn); err != nil {
		t.Fatal(err)
	}
	s := crmem.New(&crmem.Options{FS: mem})
	if _, err := tree.Load(s, "/d", nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Snapshot().AppendBinary(nil); err != nil || string(got) != string(want) {
		t.Fatalf("dump and load of\n%q\nreturn\n%q, %v", want, got, err)
	}
	if r, err := dump(mem, "/d", sn); err != nil || len(r.Written)+len(r.Deleted) > 0 {
		t.Fatalf("a second dump changes files: %+v, %v", r, err)
	}
}

// FuzzTree loads any directory, in text form. A load must fail or return a store
// that a dump preserves. A merge into another store must not lose text of that
// store. A dump into the directory must not overwrite files of other programs.
func FuzzTree(f *testing.F) {
	for _, text := range seeds(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		list := parse(text)
		build := func() *faultfs.Mem {
			mem := faultfs.NewMem()
			taken := map[string]bool{}
			for _, file := range list {
				if !fits(file.name, taken) {
					continue
				}
				name := "/t/" + file.name
				put(t, mem, name, func() {
					if to, ok := strings.CutPrefix(string(file.data), "link: "); ok {
						mem.Symlink(strings.TrimSuffix(to, "\n"), name)
					} else {
						mem.WriteFile(name, file.data, 0o600)
					}
				})
			}
			return mem
		}
		mem := build()
		if s := loadOrRefuse(t, mem, "/t"); s != nil {
			checkRoundTrip(t, s.Snapshot())
		}

		// Merge the tree into a store with other entries.
		s := crmem.New(&crmem.Options{FS: build()})
		own := []crmem.Entry{{ID: 1, Name: "a", Content: "the store's a"}, {ID: 2, Name: "deploy", Content: "the store's deploy"}}
		sn, err := crmem.NewSnapshot(3, own)
		if err == nil {
			err = s.Replace(sn)
		}
		if err != nil {
			t.Fatal(err)
		}
		if report, err := tree.Load(s, "/t", &tree.LoadOptions{Merge: true}); err == nil && !report.Dumped {
			for _, e := range own {
				if got, err := s.Get(e.Name); err != nil || !got.Equal(e) {
					t.Fatalf("a merge without a base returns %v for %v (%v)", got, e, err)
				}
			}
		}

		// Dump into the directory.
		mem = build()
		before := files(mem, "/t")
		if _, err := dump(mem, "/t", sn); err != nil {
			if after := files(mem, "/t"); !slices.Equal(before, after) && !strings.Contains(err.Error(), "while the dump was at work") {
				t.Fatalf("a failed dump (%v) changed\n%q\nto\n%q", err, before, after)
			}
			return
		}
		if _, err := tree.Load(crmem.New(&crmem.Options{FS: mem}), "/t", nil); err != nil && !strings.Contains(err.Error(), "conflict") {
			t.Fatalf("load the dump: %v", err)
		}
	})
}

// fits reports whether a file of this name can be created next to the taken names.
// If so, it adds the name.
func fits(name string, taken map[string]bool) bool {
	name = filepath.ToSlash(name)
	if name == "" || name != filepath.ToSlash(filepath.Clean(name)) || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "..") || strings.Contains(name, "\x00") || name == "." {
		return false
	}
	for other := range taken {
		if other == name || strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/") {
			return false
		}
	}
	for _, elem := range strings.Split(name, "/") {
		if len(elem) > 250 {
			return false
		}
	}
	taken[name] = true
	return true
}

// put creates the directories of a file and then calls make.
func put(t *testing.T, mem *faultfs.Mem, name string, make func()) {
	t.Helper()
	if err := vfs.MkdirAll(mem, path.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	make()
}

// files returns the names and contents of all files in dir, recursively.
func files(fsys vfs.FS, dir string) []string {
	var out []string
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, d := range list {
		name := dir + "/" + d.Name()
		if d.IsDir() {
			out = append(out, files(fsys, name)...)
			continue
		}
		b, err := vfs.ReadFile(fsys, name, 1<<30)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		out = append(out, name+": "+string(b))
	}
	return out
}
