package tree_test

import (
	"errors"
	"strings"
	"testing"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// dumpOne returns a store that contains one note, and its tree.
func dumpOne(t *testing.T, e Entry) (*faultfs.Mem, *Store) {
	t.Helper()
	sn, err := NewSnapshot(e.ID+1, []Entry{e})
	if err != nil {
		t.Fatal(err)
	}
	mem := faultfs.NewMem()
	if _, err := DumpSnapshot(mem, "/brain", sn, DumpOptionsFor("/brain")); err != nil {
		t.Fatal(err)
	}
	return mem, storeOf(t, mem, sn)
}

// editPage replaces a text in the only page of a tree.
func editPage(t *testing.T, mem *faultfs.Mem, from, to string) {
	t.Helper()
	const name = "/brain/notes/a.md"
	b, err := vfs.ReadFile(mem, name, 1<<20)
	if err != nil || !strings.Contains(string(b), from) {
		t.Fatalf("%s has no %q: %v: %s", name, from, err, b)
	}
	mem.WriteFile(name, []byte(strings.Replace(string(b), from, to, 1)), 0o600)
}

// TestLoadAgainWithoutDump edits and loads a tree twice. A side that still has the
// entries of the first load is unchanged.
func TestLoadAgainWithoutDump(t *testing.T) {
	for _, test := range []struct {
		name        string
		store, tree string // content after the first load; "" keeps it
		want        string // of the store, after a merge
		conflict    bool
		guarded     bool // a guarded replacement refuses
	}{
		{"only the tree changes again", "", "third", "third", false, false},
		{"only the store changes", "late", "", "late", false, true},
		{"both change", "late", "third", "late", true, true},
		{"the store returns to the dumped text", "dumped", "third", "dumped", true, true},
		{"the store changes, the tree returns to the dumped text", "late", "dumped", "late", true, true},
		{"no side changes", "", "", "loaded", false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, merge := range []bool{true, false} {
				mem, s := dumpOne(t, Entry{ID: 1, Name: "a", CreatedAt: 7, Content: "dumped"})
				editPage(t, mem, "dumped", "loaded")
				if r, err := Load(s, "/brain", &LoadOptions{Bases: BasesFor("/brain"), Merge: merge, Guard: true}); err != nil || len(r.Changed) != 1 {
					t.Fatalf("first load: %+v, %v", r, err)
				}
				if test.store != "" {
					if err := s.Apply(Update{Name: "a", Content: test.store}); err != nil {
						t.Fatal(err)
					}
				}
				if test.tree != "" {
					editPage(t, mem, "loaded", test.tree)
				}
				r, err := Load(s, "/brain", &LoadOptions{Bases: BasesFor("/brain"), Merge: merge, Guard: true})
				e, gerr := s.Get("a")
				if gerr != nil {
					t.Fatal(gerr)
				}
				if merge {
					if err != nil || e.Content != test.want || len(r.Conflicts) > 0 != test.conflict {
						t.Errorf("merge: store has %q, %d conflicts, %v; want %q, conflict %t", e.Content, len(r.Conflicts), err, test.want, test.conflict)
					}
					continue
				}
				var changed *ChangedError
				if errors.As(err, &changed) != test.guarded || err != nil && changed == nil {
					t.Errorf("guarded replacement: %v, want a refusal: %t", err, test.guarded)
				}
			}
		})
	}
}

// TestLimitsOfTouchedPages loads a page that exceeds the limits of an entry. An
// older store may contain such an entry: only an edited page, or a page that no
// dump wrote, is refused.
func TestLimitsOfTouchedPages(t *testing.T) {
	long := Entry{ID: 1, Name: "a", CreatedAt: 7, Content: "dumped", Aliases: []string{strings.Repeat("x", MaxName+1)}}
	for _, test := range []struct {
		name    string
		touch   func(mem *faultfs.Mem)
		refused bool
	}{
		{"as it was dumped", func(*faultfs.Mem) {}, false},
		{"edited", func(mem *faultfs.Mem) { editPage(t, mem, "dumped", "edited") }, true},
		{"without a manifest", func(mem *faultfs.Mem) {
			if err := mem.Remove("/brain/.crabmem.json"); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		mem, s := dumpOne(t, long)
		test.touch(mem)
		_, err := Load(s, "/brain", LoadOptionsFor("/brain"))
		var refused *Error
		if errors.As(err, &refused) != test.refused || err != nil && refused == nil {
			t.Errorf("%s: %v, want a refusal: %t", test.name, err, test.refused)
		}
		if refused != nil && (refused.Path == "" || refused.Remedy != "shorten or correct it") {
			t.Errorf("%s: %+v", test.name, refused)
		}
	}
	// A valid edit of a page within the limits loads.
	mem, s := dumpOne(t, Entry{ID: 1, Name: "a", CreatedAt: 7, Content: "dumped"})
	editPage(t, mem, "dumped", "edited")
	if r, err := Load(s, "/brain", LoadOptionsFor("/brain")); err != nil || len(r.Changed) != 1 {
		t.Errorf("edited within the limits: %+v, %v", r, err)
	}
}

// TestFrontMatterInTree dumps and loads contents with front matter, also after an
// edit of the page, and compares every byte.
func TestFrontMatterInTree(t *testing.T) {
	for _, content := range []string{
		"---\ntype: fact\n---\ntext", "---\r\ntags:  [ a ,b ] # c\r\n---\r\n\r\ntext\r\n", "---\na: 1\n---", "---\na: {}\n---\n", "---\n---\n---\na: 1\n---\n",
	} {
		mem, s := dumpOne(t, Entry{ID: 1, Name: "a", CreatedAt: 7, Content: content})
		for _, more := range []string{"", "e"} {
			if more != "" {
				editPage(t, mem, content, content+more)
				content += more
			}
			o := LoadOptions{}
			if _, err := Load(s, "/brain", &o); err != nil {
				t.Fatal(err)
			}
			if e, err := s.Get("a"); err != nil || e.Content != content {
				t.Errorf("loaded %q, want %q, %v", e.Content, content, err)
			}
		}
	}
}
