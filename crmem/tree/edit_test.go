package tree_test

import (
	"strings"
	"testing"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// TestEditedPages loads pages as an editor, a tool, or a person changes them:
// the changed fields load as edited, and the others keep their values.
func TestEditedPages(t *testing.T) {
	replace := func(old, new string) func(string) string {
		return func(s string) string {
			if strings.Count(s, old) != 1 {
				t.Fatalf("%q is not once in\n%s", old, s)
			}
			return strings.Replace(s, old, new, 1)
		}
	}
	crlf := func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n") }
	both := func(f, g func(string) string) func(string) string { return func(s string) string { return g(f(s)) } }
	noEnd := func(s string) string { return strings.TrimSuffix(s, "\n") }
	bom := func(s string) string { return "\ufeff" + s }
	more := func(s string) string { return s + "more\n" }
	stripBlanks := func(s string) string { // of every line, and blank lines at the end
		lines := strings.Split(strings.TrimRight(s, " \t\n"), "\n")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " \t")
		}
		return strings.Join(lines, "\n") + "\n"
	}
	rows := []struct {
		content string
		edit    func(string) string
		want    string
	}{
		{"text", noEnd, "text"},
		{"text", crlf, "text"},
		{"text", bom, "text"},
		{"text", both(bom, crlf), "text"},
		{"text", more, "text\nmore"},
		{"text", replace("text", "new"), "new"},
		{"text", replace("\n\ntext", "\n\n\n\n    new\n\n\n"), "    new"},
		{"text", replace("\n\ntext", "\ntext"), "text"},
		{"text\n", noEnd, "text"},
		{"text\n", more, "text\nmore\n"},
		{"text\n", crlf, "text\n"},
		{"text\n", replace("text\n", "new\n"), "new\n"},
		{"text\n\n", stripBlanks, "text\n"},
		{"text  ", stripBlanks, "text"},
		{"text  ", noEnd, "text  "},
		{"text  ", replace("text", "new"), "new  "},
		{"    code\ntext", replace("text", "new"), "    code\nnew"},
		{"    code\ntext", replace("    code", "code"), "code\ntext"},
		{"\n\ntext", replace("text", "new"), "\n\nnew"},
		{"\n\ntext", crlf, "\n\ntext"},
		{"\n\ntext", replace("\n\n\n\ntext", "\n\ntext"), "text"},
		{"one\r\ntwo", crlf, "one\r\ntwo"},
		{"one\r\ntwo", noEnd, "one\r\ntwo"},
		{"one\r\ntwo", func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }, "one\ntwo"},
		{"one\r\ntwo\r\n", crlf, "one\r\ntwo\r\n"},
		{"\r\n\r\none\r\n", crlf, "\r\n\r\none\r\n"},
		{"", more, "more"},
		{" ", noEnd, " "},
		{"\n", crlf, "\n"},
		{"<div id=\"meta\">x</div>", replace("x</div>", "y</div>"), "<div id=\"meta\">y</div>"},
		{"</div>\n", more, "</div>\nmore\n"},
	}
	for _, row := range rows {
		e := Entry{ID: 1, Name: "a/b", CreatedAt: april, Content: row.content, Aliases: []string{" x ", "y\n\nz"}}
		mem := faultfs.NewMem()
		if _, err := DumpSnapshot(mem, "/b", snapshotOf(t, 2, e), DumpOptionsFor("/b")); err != nil {
			t.Fatal(err)
		}
		b, err := vfs.ReadFile(mem, "/b/notes/a=2Fb.md", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		mem.WriteFile("/b/notes/a=2Fb.md", []byte(row.edit(string(b))), 0o600)
		s := New(&Options{FS: mem})
		if _, err := Load(s, "/b", LoadOptionsFor("/b")); err != nil {
			t.Errorf("%q: %v", row.content, err)
			continue
		}
		want := e
		want.Content = row.want
		if got, err := s.Get("a/b"); err != nil || !got.Equal(want) {
			t.Errorf("%q, edited to\n%q\nis %#v, %v\nwant %q", row.content, row.edit(string(b)), got, err, row.want)
		}
	}
	if len(rows) < 31 {
		t.Errorf("%d rows, there were 31", len(rows))
	}
}

// TestEditLoadDump edits a tree repeatedly: each edit is loaded, and dumps in
// between contain the loaded edits.
func TestEditLoadDump(t *testing.T) {
	mem := faultfs.NewMem()
	s := storeOf(t, mem, snapshotOf(t, 3, noteIn("a", 1, "one"), noteIn("b", 2, "two")))
	dump := func(o *DumpOptions) {
		t.Helper()
		if _, err := Dump(s, "/b", o); err != nil {
			t.Fatal(err)
		}
	}
	load := func(want string) {
		t.Helper()
		if _, err := Load(s, "/b", &LoadOptions{Bases: BasesFor("/b"), Guard: true}); err != nil {
			t.Fatal(err)
		}
		if got := contents(s.Snapshot()); got != want {
			t.Fatalf("the store is %s, want %s", got, want)
		}
	}
	write := func(name, text string) { writeText(t, mem, "/b/notes/"+name+".md", text) }
	dump(DumpOptionsFor("/b"))
	write("a", "one, edited")
	load("a=one, edited;b=two;")
	write("a", "one, edited again") // the store has changed since the dump, but by a load of this tree
	load("a=one, edited again;b=two;")
	write("c", "three")
	load("a=one, edited again;b=two;c=three;")
	if err := mem.Remove("/b/notes/b.md"); err != nil {
		t.Fatal(err)
	}
	load("a=one, edited again;c=three;")
	write("b", "two, back")
	load("a=one, edited again;c=three;b=two, back;")
	dump(DumpOptionsFor("/b")) // pages by hand, which the store has taken in
	write("a", "one, once more")
	load("a=one, once more;c=three;b=two, back;")
	if _, err := s.Remember("c", "by the store", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(s, "/b", &LoadOptions{Bases: BasesFor("/b"), Guard: true}); err == nil {
		t.Fatal("a guarded load replaced what the store had changed")
	}
	write("b", "two, merged")
	if _, err := Load(s, "/b", &LoadOptions{Bases: BasesFor("/b"), Merge: true}); err != nil {
		t.Fatal(err)
	}
	if got, want := contents(s.Snapshot()), "a=one, once more;c=by the store;b=two, merged;"; got != want {
		t.Fatalf("the store is %s, want %s", got, want)
	}
	dump(DumpOptionsFor("/b"))
	load("a=one, once more;c=by the store;b=two, merged;")
	// Another store that never saw this tree's edits does not overwrite them.
	write("a", "unseen")
	if _, err := Dump(s, "/b", DumpOptionsFor("/b")); err == nil {
		t.Fatal("a dump overwrote an edited page")
	}
}

func noteIn(name string, id uint64, content string) Entry {
	return Entry{ID: id, Name: name, CreatedAt: april, Content: content}
}

// TestEditedHeading edits the heading of a page. load reports that it ignores the
// heading, and the next dump restores it.
func TestEditedHeading(t *testing.T) {
	mem := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: mem}, 0)
	ok(t, s.Apply(Add{Name: "a", Content: "text"}))
	dump := func() string {
		t.Helper()
		_, err := Dump(s, "/b", nil)
		ok(t, err)
		return string(memFile(t, mem, "/b/notes/a.md"))
	}
	page := dump()
	ok(t, vfs.WriteFile(mem, "/b/notes/a.md", 0o600, []byte(strings.Replace(page, "<h1>a</h1>", "<h1>b</h1>", 1))))
	r, err := Load(s, "/b", nil)
	if err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], `notes/a.md: load ignores the heading "b" of the entry "a"`) {
		t.Errorf("load: %q, %v", r.Warnings, err)
	}
	if e, err := s.Get("a"); err != nil || s.Len() != 1 || e.Content != "text" {
		t.Errorf("%+v, %v", e, err)
	}
	if again := dump(); again != page {
		t.Errorf("the next dump wrote\n%s", again)
	}
}
