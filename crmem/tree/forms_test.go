package tree_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// formTree is a Tree that changes each name to a normal form.
type formTree struct {
	vfs.Tree
	form norm.Form
}

func (t formTree) Open(name string) (vfs.File, error) { return t.Tree.Open(t.form.String(name)) }

func (t formTree) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	return t.Tree.OpenFile(t.form.String(name), flag, perm)
}

func (t formTree) Pending(name string, perm fs.FileMode) (vfs.Pending, error) {
	return t.Tree.Pending(t.form.String(name), perm)
}

func (t formTree) Rename(from, to string) error {
	return t.Tree.Rename(t.form.String(from), t.form.String(to))
}

func (t formTree) Remove(name string) error { return t.Tree.Remove(t.form.String(name)) }

func (t formTree) Lstat(name string) (fs.FileInfo, error) { return t.Tree.Lstat(t.form.String(name)) }

// formFS is a file system whose trees change names, as macOS does.
type formFS struct {
	*faultfs.Mem
	form norm.Form
}

func (f formFS) Root(dir string) (vfs.RootDir, error) {
	root, err := f.Mem.Root(dir)
	if err != nil {
		return nil, err
	}
	return struct {
		formTree
		closer
	}{formTree{root, f.form}, root}, nil
}

type closer interface{ Close() error }

// spelled are names of which several have one canonical form.
var spelled = []string{"café", "cafe\u0301", "Zo\u00eb M", "Zoe\u0308 M", "\u1ec7", "e\u0323\u0302", "\u1eb9\u0302", "10 K", "10 \u212a", "\u212b", "A\u030a", "plain", "Ça/va", "C\u0327a/va", "caf\u00e9:", "con\u0302"}

// spellEntries returns entries with spelled names, ascending by ID.
func spellEntries(rng *rand.Rand) (list []Entry) {
	for i, n := range rng.Perm(len(spelled))[:1+rng.IntN(len(spelled))] {
		e := Entry{ID: uint64(3*i + 1), Name: spelled[n], Kind: Kind(rng.IntN(2)), CreatedAt: april, Content: fmt.Sprint("text ", i)}
		if rng.IntN(2) == 0 {
			e.Aliases = []string{spelled[rng.IntN(len(spelled))]}
		}
		list = append(list, e)
	}
	return list
}

// renamePages gives each page of a tree the name in a form, as a copy through another
// file system does.
func renamePages(t *testing.T, m *faultfs.Mem, form norm.Form) {
	for _, dir := range []string{"/b/notes", "/b/archives"} {
		list, err := m.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, f := range list {
			if to := form.String(f.Name()); to != f.Name() {
				ok(t, m.Rename(dir+"/"+f.Name(), dir+"/"+to))
			}
		}
	}
}

// editPages appends a text to some pages of a tree, and returns the number.
func editPages(t *testing.T, m *faultfs.Mem, rng *rand.Rand, text string) (edited int) {
	for _, dir := range []string{"/b/notes", "/b/archives"} {
		list, err := m.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, f := range list {
			if rng.IntN(3) == 0 {
				appendTo(t, m, dir+"/"+f.Name(), text+"\n")
				edited++
			}
		}
	}
	return edited
}

// TestPagesInOtherForms dumps random stores with twins to file systems that decompose or
// compose names, or renames the pages so, edits pages, and loads them: the same store, a
// store without a base, and an empty store keep every entry with its name and ID.
func TestPagesInOtherForms(t *testing.T) {
	race.Skip(t)
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 46))
		m := faultfs.NewMem()
		form := []norm.Form{norm.NFC, norm.NFD}[seed%2]
		var fsys vfs.FS = formFS{m, form}
		renamed := seed%3 == 0 // a plain file system, and a rename of the pages
		if renamed {
			fsys = m
		}
		s := storeOf(t, fsys, snapshotOf(t, 100, spellEntries(rng)...))
		fails := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, what, err)
			}
		}
		dump := func() DumpReport {
			t.Helper()
			r, err := Dump(s, "/b", DumpOptionsFor("/b"))
			fails("dump", err)
			return r
		}
		dump()
		for round := range 3 {
			if !renamed {
				if r := dump(); len(r.Written)+len(r.Deleted) > 0 {
					t.Fatalf("seed %d: the second dump changed %q, %q", seed, r.Written, r.Deleted)
				}
			} else {
				renamePages(t, m, form)
			}
			was := s.Snapshot()
			edited := editPages(t, m, rng, fmt.Sprint("edit ", round))
			other := storeOf(t, fsys, was)
			o := LoadOptions{Bases: BasesFor("/b"), Merge: rng.IntN(2) == 0}
			r, err := Load(s, "/b", &o)
			fails("load", err)
			if len(r.Changed) != edited || len(r.Added)+len(r.Removed)+len(r.Conflicts) > 0 {
				t.Fatalf("seed %d: %+v after %d edits", seed, r, edited)
			}
			empty := storeOf(t, fsys, snapshotOf(t, 1))
			for what, s := range map[string]*Store{"the store": s, "a store without a base": other, "an empty store": empty} {
				if what != "the store" {
					_, err := Load(s, "/b", &LoadOptions{Bases: "/none"})
					fails(what, err)
				}
				sameNames(t, fmt.Sprintf("seed %d: %s", seed, what), was, s.Snapshot(), edited, fmt.Sprint("edit ", round))
			}
			if was.Len() > 1 && rng.IntN(2) == 0 {
				fails("forget", s.Apply(Remove{Name: slices.Collect(was.All())[0].Name}))
			}
			dump()
		}
	}
}

// sameNames checks that a snapshot has the entries of another, of which some have a text
// at the end.
func sameNames(t *testing.T, where string, was, now *Snapshot, edited int, text string) {
	t.Helper()
	if now.Len() != was.Len() {
		t.Fatalf("%s: %d entries, want %d", where, now.Len(), was.Len())
	}
	for e := range was.All() {
		got, ok := now.Get(e.Name)
		if !ok || got.ID != e.ID || !slices.Equal(got.Aliases, e.Aliases) || !strings.HasPrefix(got.Content, e.Content) {
			t.Fatalf("%s: %+q is %+v, want %+v", where, e.Name, got, e)
		}
		if strings.HasSuffix(got.Content, text) {
			edited--
		}
	}
	if edited != 0 {
		t.Fatalf("%s: %d edits are missing", where, edited)
	}
}

// TestPagesByHandInOtherForms loads pages without a metadata block: a page whose name is
// equivalent to that of one entry is the entry's, unless another page has exactly the
// name. New names stay as they are.
func TestPagesByHandInOtherForms(t *testing.T) {
	m := faultfs.NewMem()
	load := func(entries []Entry, pages ...string) string {
		t.Helper()
		ok(t, m.Mkdir("/h", 0o700))
		ok(t, m.Mkdir("/h/notes", 0o700))
		for _, p := range pages {
			m.WriteFile("/h/notes/"+p+".md", []byte("by hand"), 0o600)
		}
		s := storeOf(t, m, snapshotOf(t, 10, entries...))
		_, err := Load(s, "/h", &LoadOptions{})
		ok(t, err)
		for _, p := range pages {
			ok(t, m.Remove("/h/notes/"+p+".md"))
		}
		ok(t, m.Remove("/h/notes"))
		ok(t, m.Remove("/h"))
		text := ""
		for e := range s.All() {
			text += fmt.Sprintf("%d %+q;", e.ID, e.Name)
		}
		return text
	}
	nfc, nfd := "café", "cafe\u0301"
	one := []Entry{{ID: 4, Name: nfc}}
	twins := []Entry{{ID: 4, Name: nfc}, {ID: 6, Name: nfd}}
	for _, c := range []struct {
		entries []Entry
		pages   []string
		want    string
	}{
		{one, []string{nfd}, `4 "caf\u00e9";`},
		{one, []string{nfc, nfd}, `4 "caf\u00e9";10 "cafe\u0301";`},
		{twins, []string{nfd}, `6 "cafe\u0301";`},
		{twins, []string{nfc, nfd}, `4 "caf\u00e9";6 "cafe\u0301";`},
		{nil, []string{nfc, nfd}, `10 "cafe\u0301";11 "caf\u00e9";`},
	} {
		if got := load(c.entries, c.pages...); got != c.want {
			t.Errorf("%+q: %s, want %s", c.pages, got, c.want)
		}
	}
}
