package tree_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// damagedPage is a page as a program leaves it.
type damagedPage struct {
	name, refused string
	change        func(page string) string
}

const pageA = "/b/notes/a.md"

var damagedPages = []damagedPage{
	{"empty", "the page is empty", func(string) string { return "" }},
	{"NUL", "NUL bytes", func(s string) string { return strings.Repeat("\x00", len(s)) }},
	{"NUL at the end", "NUL bytes", func(s string) string { return s[:len(s)-9] + strings.Repeat("\x00", 9) }},
	{"half block", "the metadata block is missing", func(s string) string { return strings.Join(strings.SplitAfter(s, "\n")[:4], "") }},
	{"first line", "the metadata block is missing", func(s string) string { return strings.SplitAfter(s, "\n")[0] }},
	{"no block", "the metadata block is missing", func(s string) string { return "first\nsecond\n" }},
	{"no rows", "has lost its rows", func(s string) string { return "<div id=\"meta\">\n</div>\n\nfirst\n" }},
	{"cut in the block", "the metadata block is missing", func(s string) string { return s[:40] }},
	{"cut in the text", "ends within a line", func(s string) string { return s[:len(s)-4] }},
	{"cut with CRLF", "ends within a line", func(s string) string {
		return strings.TrimSuffix(strings.ReplaceAll(s[:len(s)-4], "\n", "\r\n"), "\r")
	}},
	{"cut with a byte order mark", "ends within a line", func(s string) string { return "\ufeff" + s[:len(s)-4] }},
	{"cut with other rows", "ends within a line", func(s string) string {
		return strings.Replace(s[:len(s)-4], "<li>x</li>", "<li>x</li>\n<li>y</li>", 1)
	}},
	{"title", ":3: text above the metadata block", func(s string) string { return "# a\n\n" + s }},
	{"comment", ":2: text above the metadata block", func(s string) string { return "<!-- c -->\n" + s }},
	{"nested front matter", ":5: text above", func(s string) string { return "---\na:\n  b: c\n---\n" + s }},
	{"markers", "conflict markers", func(s string) string { return s + "<<<<<<< HEAD\nmine\n=======\ntheirs\n>>>>>>> other\n" }},
	{"long markers", "conflict markers", func(s string) string { return s + "<<<<<<<<<<\tmine\n==========\n" }},
	{"half resolved markers", "conflict markers", func(s string) string { return s + "=======\ntheirs\n>>>>>>> other\r\n" }},
}

// TestDamagedPages loads damaged pages in each mode: the load is refused with the name of
// the page, and changes nothing. Accept takes the page.
func TestDamagedPages(t *testing.T) {
	for _, merge := range []bool{false, true} {
		for _, d := range damagedPages {
			m := faultfs.NewMem()
			s := storeOf(t, m, snapshotOf(t, 9, Entry{ID: 1, Name: "a", CreatedAt: april, Content: "first\nsecond", Aliases: []string{"x"}}, noteIn("b", 2, "other")))
			must(Dump(s, "/b", DumpOptionsFor("/b")))
			page := d.change(string(memFile(t, m, pageA)))
			m.WriteFile(pageA, []byte(page), 0o600)
			before := encoded(t, s.Snapshot())
			o := &LoadOptions{Bases: BasesFor("/b"), Merge: merge}
			_, err := Load(s, "/b", o)
			if e, isTree := errors.AsType[*Error](err); !isTree || e.Path != "notes/a.md" || !strings.Contains(err.Error(), d.refused) || encoded(t, s.Snapshot()) != before {
				t.Errorf("%s, merge %t: %v", d.name, merge, err)
			}
			o.Accept = []string{"notes/a.md"}
			if _, err := Load(s, "/b", o); err != nil && !strings.HasPrefix(d.name, "no") && !strings.Contains(err.Error(), "NUL") {
				t.Errorf("%s, accepted: %v", d.name, err)
			}
			if e, err := s.Get("a"); d.name == "title" && (err != nil || e.Content != "# a\n\nfirst\nsecond" || len(e.Aliases) != 1) {
				t.Errorf("an accepted title: %+v, %v", e, err)
			}
			if _, err := Load(s, "/b", &LoadOptions{Accept: []string{"notes/none.md"}}); err == nil {
				t.Error("a page that does not exist was accepted")
			}
		}
	}
}

// TestEditsAreNoDamage edits pages as people do, which load takes: the text had markers or
// NUL before, a page by hand never had a block, a line is removed from the end.
func TestEditsAreNoDamage(t *testing.T) {
	marked := "<<<<<<< a\nb\n>>>>>>> c\n"
	for _, row := range []struct {
		content, old, new, want string
	}{
		{marked, "b\n", "B\n", "<<<<<<< a\nB\n>>>>>>> c\n"},
		{"x\x00y", "x", "z", "z\x00y"},
		{"one\ntwo\nthree", "two\nthree\n", "two\n", "one\ntwo"},
		{"one\ntwo", "one\ntwo\n", "one\ntwo", "one\ntwo"},
		{"one", "one\n", "Title\n=======\n", "Title\n======="},
		{"one", "  <dt>ID</dt>\n  <dd>1</dd>\n", "", "one"},
	} {
		m := faultfs.NewMem()
		s := storeOf(t, m, snapshotOf(t, 9, noteIn("a", 1, row.content)))
		must(Dump(s, "/b", DumpOptionsFor("/b")))
		page := string(memFile(t, m, pageA))
		if strings.Count(page, row.old) != 1 {
			t.Fatalf("%q is not once in %q", row.old, page)
		}
		m.WriteFile(pageA, []byte(strings.Replace(page, row.old, row.new, 1)), 0o600)
		_, err := Load(s, "/b", LoadOptionsFor("/b"))
		if e, _ := s.Get("a"); err != nil || e.Content != row.want {
			t.Errorf("%q: %q, %v; want %q", row.content, e.Content, err, row.want)
		}
	}
	m := faultfs.NewMem()
	s := storeOf(t, m, snapshotOf(t, 9, noteIn("a", 1, "one")))
	must(Dump(s, "/b", DumpOptionsFor("/b")))
	ok(t, s.Apply(Update{Name: "a", Content: "one and two"}))
	m.WriteFile(pageA, bytes.TrimSuffix(memFile(t, m, pageA), []byte("\n")), 0o600)
	if r, err := Load(s, "/b", &LoadOptions{Bases: BasesFor("/b"), Merge: true}); err != nil || len(r.Conflicts) != 0 || r.Kept != 1 {
		t.Errorf("without the last line end: %+v, %v", r, err)
	}
	m = faultfs.NewMem()
	s = storeOf(t, m, snapshotOf(t, 9, noteIn("b", 2, "other")))
	must(Dump(s, "/b", DumpOptionsFor("/b")))
	for _, text := range []string{"", "by hand", "by\n", "# title\n\nby hand"} {
		m.WriteFile(pageA, []byte(text), 0o600)
		_, err := Load(s, "/b", LoadOptionsFor("/b"))
		if e, _ := s.Get("a"); err != nil || e.Content != strings.TrimSpace(text) {
			t.Errorf("%q: %q, %v", text, e.Content, err)
		}
	}
	for _, text := range []string{"", "# title\n\nby", "\x00\x00"} { // damage of a page without a block
		m.WriteFile(pageA, []byte(text), 0o600)
		_, err := Load(s, "/b", LoadOptionsFor("/b"))
		if e, _ := s.Get("a"); err == nil || e.Content != "# title\n\nby hand" {
			t.Errorf("%q: %q, %v", text, e.Content, err)
		}
	}
}

// TestFrontMatterAboveBlock merges front matter above the block into the entry's.
func TestFrontMatterAboveBlock(t *testing.T) {
	for _, row := range []struct{ content, front, want string }{
		{"text", "tags: [x]\n", "---\ntags: [x]\n---\ntext"},
		{"---\ntype: fact\ntags: [z]\n---\ntext", "tags: [x, z]\ndate: 2026-01-02\n", "---\ntype: fact\ntags: [z, x]\ndate: 2026-01-02\n---\ntext"},
		{"---\ntype: fact\n---\ntext", "type: event\n", "---\ntype: event\n---\ntext"},
	} {
		for _, lines := range []string{"\n", "\r\n"} {
			m := faultfs.NewMem()
			s := storeOf(t, m, snapshotOf(t, 9, Entry{ID: 1, Name: "a", CreatedAt: april, Content: row.content, Aliases: []string{"x"}}))
			must(Dump(s, "/b", DumpOptionsFor("/b")))
			text := "---\n" + row.front + "---\n\n" + string(memFile(t, m, pageA))
			m.WriteFile(pageA, []byte(strings.ReplaceAll(text, "\n", lines)), 0o600)
			for _, s := range []*Store{s, New(&Options{FS: m})} { // with and without a base
				must(Load(s, "/b", LoadOptionsFor("/b")))
				if e, err := s.Get("x"); err != nil || e.Content != row.want || e.ID != 1 {
					t.Errorf("%q above %q: %+v, %v; want %q", row.front, row.content, e, err, row.want)
				}
			}
		}
	}
}

// TestConflictCopies puts conflict copies into a tree: load names them and leaves them
// alone, and dump does, too. An entry with such a name is no copy.
func TestConflictCopies(t *testing.T) {
	for _, copied := range []string{
		"a.sync-conflict-20260816-101112-ABCDEFG", "a (Ada's conflicted copy 2026-08-16)", "a (conflicted copy 2026-08-16 101112)", "a (Case Conflict)",
		"a (SFConflict ada@example.org 2026-08-16-10-11-12)", "a (In Konflikt stehende Kopie von Ada 2026-08-16)", "a_conflict-20260816-101112",
		"a 2", "a (1)", "a-DESKTOP-AB12CD", "a (Copie en conflit de Ada 2026-08-16)", "a (Ada の競合コピー 2026-08-16)", "a - Copy", "Copy of a", "a.tmp",
		"._a", "~$a", ".#a",
	} {
		for _, own := range []bool{false, true} {
			m := faultfs.NewMem()
			entries := []Entry{{ID: 1, Name: "a", CreatedAt: april, Content: "first", Aliases: []string{"x"}}}
			if own {
				entries = append(entries, noteIn(copied, 2, "of its own"))
			}
			s := storeOf(t, m, snapshotOf(t, 9, entries...))
			must(Dump(s, "/b", DumpOptionsFor("/b")))
			file := "/b/notes/" + copied + ".md"
			if !own {
				m.WriteFile(file, []byte(strings.Replace(string(memFile(t, m, pageA)), "first", "other", 1)), 0o600)
			}
			for _, s := range []*Store{s, New(&Options{FS: m})} {
				r, err := Load(s, "/b", LoadOptionsFor("/b"))
				if err != nil || s.Len() != len(entries) || (len(r.Warnings) == 0) != own {
					t.Errorf("%s, own %t: %d entries, %q, %v", copied, own, s.Len(), r.Warnings, err)
				}
				if e, err := s.Get("x"); err != nil || e.Content != "first" {
					t.Errorf("%s: %+v, %v", copied, e, err)
				}
			}
			if strings.Contains(copied, "onfli") && !own {
				if r, err := Dump(s, "/b", DumpOptionsFor("/b")); err != nil || len(r.Warnings) != 1 {
					t.Errorf("dump with %s: %q, %v", copied, r.Warnings, err)
				}
			}
			if !own {
				if r, err := Load(s, "/b", &LoadOptions{Bases: BasesFor("/b"), Accept: []string{"notes/" + copied + ".md"}}); err != nil || len(r.Added) != 1 {
					t.Errorf("%s, accepted: %+v, %v", copied, r, err)
				}
			}
		}
	}
	for _, d := range []string{"a (conflicted copy)", "._a", "a (1)"} { // only the copy exists, or only a copy of another page
		m := faultfs.NewMem()
		s := storeOf(t, m, snapshotOf(t, 9, noteIn("a", 1, "first"), noteIn("b", 2, "second")))
		must(Dump(s, "/b", DumpOptionsFor("/b")))
		page := memFile(t, m, pageA)
		ok(t, m.Remove(pageA))
		m.WriteFile("/b/notes/"+d+".md", page, 0o600)
		if _, err := Load(s, "/b", LoadOptionsFor("/b")); (err == nil) != (d == "a (1)") || err == nil && s.Len() != 2 {
			t.Errorf("only %s: %d entries, %v", d, s.Len(), err)
		}
	}
	m := faultfs.NewMem() // pages by hand are notes
	for _, name := range []string{"meeting", "meeting (conflict with Bob)", "plan 2", "plan-b", "lonely (conflicted copy)"} {
		writeDir(t, m, "/h/notes/"+name+".md", "by hand")
	}
	s := New(&Options{FS: m})
	if r, err := Load(s, "/h", nil); err != nil || s.Len() != 5 {
		t.Errorf("by hand: %d entries, %q, %v", s.Len(), r.Warnings, err)
	}
}

func writeDir(t *testing.T, m *faultfs.Mem, name, text string) {
	for _, dir := range []string{"/h", "/h/notes"} {
		if _, err := m.Lstat(dir); err != nil {
			ok(t, m.Mkdir(dir, 0o700))
		}
	}
	m.WriteFile(name, []byte(text), 0o600)
}

// TestPlaceholders loads trees of which a cloud drive has evicted files.
func TestPlaceholders(t *testing.T) {
	for _, c := range []struct{ gone, stub string }{
		{"notes/a.md", "notes/.a.md.icloud"}, {"notes/a.md", "notes/a.md.nextcloud"}, {"notes/a.md", "notes/a.md.rsls"}, {"archives", ".archives.icloud"},
		{".crabmem.json", "..crabmem.json.icloud"},
		{"notes/a.md", "notes/a.md.icloud"}, {"notes/a.md", "notes/a.md.crdownload"}, {"notes/a.md", "notes/a.md.!sync"}, {"notes/a.md", "notes/.syncthing.a.md.tmp"},
		{"notes/a.md", "notes/~syncthing~a.md.tmp"}, {"notes/a.md", "notes/.a.md.Xy3"}, {"notes/a.md", "notes/a.MD"},
	} {
		m := faultfs.NewMem()
		s := storeOf(t, m, snapshotOf(t, 9, noteIn("a", 1, "first"), noteIn("b", 2, "second")))
		must(Dump(s, "/b", DumpOptionsFor("/b")))
		if c.gone != "archives" {
			ok(t, m.Remove("/b/"+c.gone))
		}
		m.WriteFile("/b/"+c.stub, []byte("bplist00"), 0o600)
		if _, err := Load(s, "/b", LoadOptionsFor("/b")); err == nil || !strings.HasPrefix(err.Error(), c.stub+": ") || s.Len() != 2 {
			t.Errorf("%s: %d entries, %v", c.stub, s.Len(), err)
		}
	}
	m := faultfs.NewMem()
	s := storeOf(t, m, snapshotOf(t, 9, noteIn("a", 1, "first"), noteIn("b", 2, "second")))
	must(Dump(s, "/b", DumpOptionsFor("/b")))
	ok(t, m.Remove(pageA))
	for _, name := range []string{".b.md.icloud", "b.md.part", ".c.md.part", "c.md.part", "a.md~", "a.md.bak", "a.txt"} { // of other pages, and backups
		m.WriteFile("/b/notes/"+name, nil, 0o600)
	}
	if r, err := Load(s, "/b", LoadOptionsFor("/b")); err != nil || len(r.Removed) != 1 {
		t.Errorf("a page that a person removed: %+v, %v", r, err)
	}
}

// TestDamageWithoutBase loads damaged pages of a tree whose manifest or base is lost: the
// entry of the page's name shows that text is missing.
func TestDamageWithoutBase(t *testing.T) {
	for _, lost := range []string{"manifest", "base"} {
		for _, d := range damagedPages {
			if strings.Contains("empty NUL cut in the text cut with CRLF markers", d.name) {
				m := faultfs.NewMem()
				s := storeOf(t, m, snapshotOf(t, 9, Entry{ID: 1, Name: "a", CreatedAt: april, Content: "first\nsecond", Aliases: []string{"x"}}, noteIn("b", 2, "other")))
				must(Dump(s, "/b", DumpOptionsFor("/b")))
				o := &LoadOptions{Bases: BasesFor("/b")}
				if lost == "base" {
					o.Bases = BasesFor("/other")
				} else {
					ok(t, m.Remove("/b/.crabmem.json"))
				}
				page := memFile(t, m, pageA)
				m.WriteFile(pageA, []byte(d.change(string(page))), 0o600)
				before := encoded(t, s.Snapshot())
				if _, err := Load(s, "/b", o); err == nil || encoded(t, s.Snapshot()) != before {
					t.Errorf("%s without %s: %v", d.name, lost, err)
				}
				m.WriteFile(pageA, page, 0o600)
				if _, err := Load(s, "/b", o); err != nil {
					t.Errorf("without %s: %v", lost, err)
				}
			}
		}
	}
}

// TestNoTextIsLost loads and merges trees with random damage, copies, and edits in random
// order: a text of the store is replaced only by an edit of its page.
func TestNoTextIsLost(t *testing.T) {
	race.Skip(t)
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 11))
		m := faultfs.NewMem()
		s := storeOf(t, m, snapshotOf(t, 100, noteIn("a", 1, "first\nsecond"), noteIn("b", 2, "other\ntext"), noteIn("x (conflicted copy)", 3, "of its own")))
		must(Dump(s, "/b", DumpOptionsFor("/b")))
		for step := range 12 {
			want := map[string]string{}
			for e := range s.All() {
				want[e.Name] = e.Content
			}
			must(Dump(s, "/b", DumpOptionsFor("/b")))
			name := []string{"a", "b", "x (conflicted copy)"}[rng.IntN(3)]
			file := "/b/notes/" + name + ".md"
			page := string(memFile(t, m, file))
			damaged := ""
			switch rng.IntN(4) {
			case 0:
				d := damagedPages[rng.IntN(len(damagedPages))]
				damaged = d.name
				m.WriteFile(file, []byte(d.change(page)), 0o600)
			case 1:
				m.WriteFile(strings.TrimSuffix(file, ".md")+".sync-conflict-20260816-101112-ABCDEFG.md", []byte(strings.Replace(page, "text", "copy", 1)), 0o600)
			case 2:
				ok(t, m.Remove(file))
				damaged = "placeholder"
				m.WriteFile("/b/notes/."+name+".md.icloud", []byte("bplist00"), 0o600)
			case 3:
				text := fmt.Sprint("edit ", step)
				writeText(t, m, file, text+"\n")
				want[name] = text
			}
			_, err := Load(s, "/b", &LoadOptions{Bases: BasesFor("/b"), Merge: rng.IntN(2) == 0, Guard: rng.IntN(2) == 0})
			if (err != nil) != (damaged != "") {
				t.Fatalf("seed %d, step %d: %s: %v", seed, step, damaged, err)
			}
			for e := range s.All() {
				if want[e.Name] != e.Content {
					t.Fatalf("seed %d, step %d: %s: %q is %q, want %q", seed, step, damaged, e.Name, e.Content, want[e.Name])
				}
			}
			if s.Len() != len(want) {
				t.Fatalf("seed %d, step %d: %d entries, want %d", seed, step, s.Len(), len(want))
			}
			if damaged != "" {
				m.WriteFile(file, []byte(page), 0o600)
				if damaged == "placeholder" {
					ok(t, m.Remove("/b/notes/."+name+".md.icloud"))
				}
			}
		}
	}
}
