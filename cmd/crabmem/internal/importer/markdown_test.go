package importer

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

func entryOf(t *testing.T, s *crmem.Store, name string) crmem.Entry {
	t.Helper()
	for e := range s.All() {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("no entry %q", name)
	return crmem.Entry{}
}

func TestTagsStayInTheText(t *testing.T) {
	s := crmem.New(nil)
	m := memoryOf(t, vfs.OS{}, filepath.Join(fixtures, "obsidian"))
	if m.Kind != Markdown {
		t.Errorf("kind %s", m.Kind)
	}
	apply(t, s, planOf(t, m, s, Refuse).Ops)
	e := entryOf(t, s, "Inga Berg")
	if !slices.Equal(e.Aliases, []string{"the harbor master"}) || !strings.Contains(e.Content, "tags: [people, harbor]") || !strings.Contains(e.Content, "![[map.png]]") {
		t.Errorf("aliases %q, content %q", e.Aliases, e.Content)
	}
}

// TestAliasesInUse checks that an import takes only aliases that no other entry
// has, reports the others, and adds nothing the second time.
func TestAliasesInUse(t *testing.T) {
	page := func(aliases string) string { return "---\naliases: [" + aliases + "]\n---\ntext\n" }
	m := pages(t, "a.md", page("x, y, z"), "b.md", page("x, w, a"), "v.md", page("b"))
	s := crmem.New(nil)
	apply(t, s, []crmem.Op{crmem.Add{Name: "y", Content: "mine"}, crmem.Add{Name: "other", Aliases: []string{"w"}}})
	p := planOf(t, m, s, Refuse)
	apply(t, s, p.Ops)
	if a, b, v := entryOf(t, s, "a"), entryOf(t, s, "b"), entryOf(t, s, "v"); !slices.Equal(a.Aliases, []string{"x", "z"}) || len(b.Aliases)+len(v.Aliases) > 0 {
		t.Errorf("aliases %q, %q, %q", a.Aliases, b.Aliases, v.Aliases)
	}
	if n := left(p.Left, "alias is in use"); n != 5 {
		t.Errorf("%d aliases in use, want 5: %+v", n, p.Left)
	}
	if p := planOf(t, m, s, Refuse); len(p.Ops)+len(p.Conflicts) > 0 || p.Skipped != 3 || left(p.Left, "alias is in use") != 5 {
		t.Errorf("second import %+v", p)
	}
	apply(t, s, []crmem.Op{crmem.Remove{Name: "y"}})
	if p := planOf(t, m, s, Refuse); p.Replaced != 1 || len(p.Conflicts) > 0 {
		t.Errorf("import with a free alias %+v", p)
	}
}

// TestTagsOfEarlierImports imports a page over the note of a version that turned
// tags into aliases, and a tree that was another kind then.
func TestTagsOfEarlierImports(t *testing.T) {
	m := pages(t, "a.md", "---\ntags: [x]\n---\ntext\n")
	m.Kind = Markdown
	n := m.Notes[0]
	old := origin{BasicMemory, n.ID, sumOf("a", "text", []string{"x"})}
	s := crmem.New(nil)
	apply(t, s, []crmem.Op{crmem.Add{Name: "a", Content: "text\n\n" + old.line(), Aliases: []string{"x"}}})
	p := planOf(t, m, s, Refuse)
	apply(t, s, p.Ops)
	if e := entryOf(t, s, "a"); p.Replaced != 1 || len(e.Aliases) > 0 || !strings.Contains(e.Content, "tags: [x]") {
		t.Errorf("plan %+v, entry %+v", p, e)
	}
}

func TestOnePage(t *testing.T) {
	disk := faultfs.NewMem()
	if err := vfs.MkdirAll(disk, "/vault/sub", 0o700); err != nil {
		t.Fatal(err)
	}
	disk.WriteFile("/vault/sub/a.md", []byte("[[link]] text"), 0o600)
	disk.WriteFile("/vault/sub/list.md", []byte(`[{"id":"1","memory":"x"}]`), 0o600)
	m := memoryOf(t, disk, "/vault/sub/a.md")
	if m.Kind != Markdown || len(m.Notes) != 1 || m.Notes[0].ID != "sub/a.md" || m.Notes[0].Text != "[[link]] text" {
		t.Errorf("%+v", m)
	}
	if kind, err := Detect(t.Context(), disk, "/vault/sub/list.md"); kind != Mem0 {
		t.Errorf("a list of memories is %s, %v", kind, err)
	}
}

// TestTitlesOfPages reads pages with titles that are no names. The page's name is then
// that of its file, and the text keeps the title.
func TestTitlesOfPages(t *testing.T) {
	for title, want := range map[string]string{
		"A title": "A title", "": "page", `""`: "page", `" "`: "page", "[a, b]": "page", "{a: b}": "page",
	} {
		disk := faultfs.NewMem()
		if err := vfs.MkdirAll(disk, "/vault", 0o700); err != nil {
			t.Fatal(err)
		}
		front := "title: " + title
		disk.WriteFile("/vault/page.md", []byte("---\n"+front+"\n---\n[[link]] text"), 0o600)
		m := memoryOf(t, disk, "/vault/page.md")
		if len(m.Notes) != 1 {
			t.Fatalf("%s: %+v", front, m)
		}
		if n := m.Notes[0]; n.Name != want || strings.Contains(n.Text, strings.TrimSpace(front)) == (want == "A title") {
			t.Errorf("%s: name %q, text %q", front, n.Name, n.Text)
		}
	}
}

// TestFrontMatterOfEntries reads entries of RFC 0038. The first name and description
// count, and the text keeps all other lines.
func TestFrontMatterOfEntries(t *testing.T) {
	for front, want := range map[string][2]string{
		"name: A\ndescription: d":                           {"A", "d\n\nbody"},
		"description: d\nname: A":                           {"A", "d\n\nbody"},
		"kind: x\nname: A\nname: B\n\ndescription: d":       {"A", "d\n\nbody\n\nkind: x\nname: B"},
		"name: A\ndescription: d\ndescription: e\nno field": {"A", "d\n\nbody\n\ndescription: e\nno field"},
		"name: A\ndescription: body":                        {"A", "body"},
		"name:\nkind: x\ndescription: d":                    {"file", "d\n\nbody\n\nkind: x"},
	} {
		disk := faultfs.NewMem()
		if err := vfs.MkdirAll(disk, "/memory/entries", 0o700); err != nil {
			t.Fatal(err)
		}
		disk.WriteFile("/memory/entries/file.md", []byte("---\n"+front+"\n---\nbody\n"), 0o600)
		m := memoryOf(t, disk, "/memory")
		if m.Kind != RFC0038 || len(m.Notes) != 1 || m.Notes[0].Name != want[0] || m.Notes[0].Text != want[1] {
			t.Errorf("%q: %s, %+v, want %q", front, m.Kind, m.Notes, want)
		}
	}
}
