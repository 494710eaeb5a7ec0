package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

const fixtures = "../../../../testdata/import"

var now = time.Unix(1_790_000_000, 0)

// memoryOf reads a fixture of notes.
func memoryOf(t testing.TB, fsys vfs.FS, path string) *Memory {
	t.Helper()
	kind, err := Detect(t.Context(), fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	var m *Memory
	switch kind {
	case RFC0038:
		m, err = ReadRFC0038(fsys, path, nil)
	case BasicMemory, Markdown:
		m, err = ReadMarkdown(kind, fsys, path, nil)
	case Mem0:
		var f *Files
		if f, err = Open(fsys, kind, path); err == nil {
			err = f.Each(nil, func(r io.Reader) (err error) {
				m, err = ReadMem0(r)
				return err
			})
		}
	default:
		t.Fatalf("%s is %s", path, kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func planOf(t testing.TB, m *Memory, s *crmem.Store, mode Mode) *Plan {
	t.Helper()
	p, err := m.Plan(s, mode, now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func apply(t testing.TB, s *crmem.Store, ops []crmem.Op) {
	t.Helper()
	if len(ops) == 0 {
		return
	}
	if err := s.Apply(ops...); err != nil {
		t.Fatal(err)
	}
}

// exported is all that a store says.
func exported(s *crmem.Store) string {
	var b strings.Builder
	for e := range s.All() {
		b.WriteString(e.Name + "\n" + e.Content + "\n" + strings.Join(e.Aliases, "\n") + "\n")
	}
	return b.String()
}

// facts are the texts of a JSON value, but for those under some keys.
func facts(v any, but ...string) (list []string) {
	switch v := v.(type) {
	case string:
		for line := range strings.SplitSeq(v, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				list = append(list, line)
			}
		}
	case []any:
		for _, x := range v {
			list = append(list, facts(x, but...)...)
		}
	case map[string]any:
		for k, x := range v {
			if !slices.Contains(but, k) {
				list = append(list, facts(x, but...)...)
			}
		}
	}
	return list
}

func readJSON(t *testing.T, path string) (v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func left(list []Left, reason string) int {
	for _, l := range list {
		if strings.Contains(l.Reason, reason) {
			return l.Count
		}
	}
	return 0
}

// named reports whether an omission has a name.
func named(list []Left, name string) bool {
	return slices.ContainsFunc(list, func(l Left) bool { return slices.Contains(l.Where, name) })
}

func TestEveryFactOfNotes(t *testing.T) {
	for _, name := range []string{"rfc0038", "legacy", "basic-memory", "obsidian", "mem0.json"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(fixtures, name)
			m := memoryOf(t, vfs.OS{}, path)
			s := crmem.New(nil)
			apply(t, s, planOf(t, m, s, Refuse).Ops)
			text := exported(s)
			var want []string
			if name == "mem0.json" {
				want = facts(readJSON(t, path), "hash", "created_at")
			} else {
				want = treeFacts(t, m, path)
			}
			if len(want) < 4 {
				t.Fatalf("only %d facts", len(want))
			}
			for _, f := range want {
				if named(m.Left, f) {
					continue
				}
				if !strings.Contains(text, f) && !strings.Contains(text, strings.ReplaceAll(f, "\n", " ")) {
					t.Errorf("%q is lost", f)
				}
			}
			if p := planOf(t, m, s, Refuse); len(p.Ops) > 0 || p.Skipped != len(m.Notes) {
				t.Errorf("imported twice: %+v", p)
			}
		})
	}
}

// treeFacts are the lines of a tree's pages, those that are left out apart.
func treeFacts(t *testing.T, m *Memory, dir string) (want []string) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		rel = filepath.ToSlash(rel)
		for _, l := range m.Left {
			for _, w := range l.Where {
				if (rel == w || strings.HasPrefix(rel, w+"/")) && !strings.Contains(l.Reason, "kept") && !strings.Contains(l.Reason, "taken by") {
					return nil
				}
			}
		}
		for _, step := range m.Manual {
			if strings.HasPrefix(step, rel+" ") {
				return nil
			}
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.SplitSeq(string(b), "\n") {
			line = strings.TrimSpace(line)
			for _, key := range []string{"title: ", "name: ", "description: ", "permalink: ", "- "} {
				if !strings.Contains(line, "[") {
					line = strings.TrimPrefix(line, key)
				}
			}
			if line != "---" && !strings.HasPrefix(line, "alias") {
				want = append(want, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(want, func(s string) bool { return s == "" })
}

// mem0 makes an export of memories, each an id and a text.
func mem0(pairs ...string) *Memory {
	var list []map[string]string
	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, map[string]string{"id": pairs[i], "memory": pairs[i+1]})
	}
	b, _ := json.Marshal(list)
	m, err := ReadMem0(bytes.NewReader(b))
	if err != nil {
		panic(err)
	}
	return m
}

// pages makes a tree of basic-memory, each a path and a text.
func pages(t testing.TB, pairs ...string) *Memory {
	t.Helper()
	disk := faultfs.NewMem()
	if err := disk.Mkdir("/brain", 0o700); err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		name := "/brain/" + pairs[i]
		if err := vfs.MkdirAll(disk, filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		disk.WriteFile(name, []byte(pairs[i+1]), 0o600)
	}
	m, err := ReadMarkdown(BasicMemory, disk, "/brain", nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestChangedSource(t *testing.T) {
	page := func(title, text string) string { return "---\ntitle: " + title + "\ntags: [x]\n---\n" + text + "\n" }
	cases := []struct {
		name   string
		first  *Memory
		here   func(s *crmem.Store) []crmem.Op
		second *Memory
		want   string // added replaced skipped conflicts, then the names
	}{
		{"text", pages(t, "a.md", page("A", "one")), nil, pages(t, "a.md", page("A", "two")), "0 1 0 0 A"},
		{"text of an unnamed note", &Memory{Kind: Mem0, Notes: []Note{{ID: "1", Text: "one"}}}, nil,
			&Memory{Kind: Mem0, Notes: []Note{{ID: "1", Text: "two"}, {ID: "2", Text: "one"}, {ID: "3", Text: "two"}}}, "2 1 0 0 one,one (2),two"},
		{"title", pages(t, "a.md", page("A", "one")), nil, pages(t, "a.md", page("B", "one")), "0 1 0 0 B"},
		{"title that is taken", pages(t, "a.md", page("A", "one"), "b.md", page("B", "x")), nil,
			pages(t, "a.md", page("B", "one"), "b.md", page("B", "x")), "0 1 1 0 B,B (brain/a.md)"},
		{"tags", pages(t, "a.md", page("A", "one")), nil, pages(t, "a.md", "---\ntitle: A\ntags: [y]\n---\none"), "0 1 0 0 A"},
		{"edited here alone", pages(t, "a.md", page("A", "one")), edit("A", "mine"), pages(t, "a.md", page("A", "one")), "0 0 1 0 A"},
		{"edited here and there", pages(t, "a.md", page("A", "one")), edit("A", "mine"), pages(t, "a.md", page("A", "two")), "0 0 0 1 A"},
		{"alias added here, changed there", pages(t, "a.md", page("A", "one")), func(*crmem.Store) []crmem.Op {
			return []crmem.Op{crmem.Alias{Name: "A", Aliases: []string{"x", "z"}}}
		}, pages(t, "a.md", page("A", "two")), "0 0 0 1 A"},
		{"renamed here", pages(t, "a.md", page("A", "one")), rename("A", "Z"), pages(t, "a.md", page("A", "one")), "0 0 1 0 Z"},
		{"renamed here, changed there", pages(t, "a.md", page("A", "one")), rename("A", "Z"), pages(t, "a.md", page("A", "two")), "0 0 0 1 Z"},
		{"forgotten here", pages(t, "a.md", page("A", "one")), func(*crmem.Store) []crmem.Op { return []crmem.Op{crmem.Remove{Name: "A"}} },
			pages(t, "a.md", page("A", "one")), "1 0 0 0 A"},
		{"gone there", pages(t, "a.md", page("A", "one"), "b.md", page("B", "two")), nil, pages(t, "b.md", page("B", "two")), "0 0 1 0 A,B"},
		{"one of the name before", pages(t, "b.md", page("A", "one")), nil, pages(t, "a.md", page("A", "two"), "b.md", page("A", "one")), "1 0 1 0 A,A (brain/a.md)"},
		{"one takes the name of a renamed one", pages(t, "a.md", page("A", "one")), nil, pages(t, "a.md", page("B", "one"), "b.md", page("A", "two")), "1 1 0 0 A,B"},
		{"one before takes the name of a renamed one", pages(t, "b.md", page("A", "one")), nil, pages(t, "a.md", page("A", "two"), "b.md", page("B", "one")), "1 1 0 0 A (brain/a.md),B"},
		{"a note of here has the other name", pages(t, "b.md", page("A", "one")), func(*crmem.Store) []crmem.Op { return []crmem.Op{crmem.Add{Name: "A (brain/a.md)", Content: "mine"}} },
			pages(t, "a.md", page("A", "two"), "b.md", page("A", "one")), "0 0 1 1 A,A (brain/a.md)"},
		{"moved there", pages(t, "a.md", page("A", "one")), nil, pages(t, "b.md", page("A", "one")), "0 0 1 0 A"},
		{"a note of here has the name", pages(t), func(*crmem.Store) []crmem.Op { return []crmem.Op{crmem.Add{Name: "A", Content: "mine"}} },
			pages(t, "a.md", page("A", "one"), "b.md", page("B", "one")), "1 0 0 1 A"},
		{"memory without a name", mem0("1", "Likes tea"), nil, mem0("1", "Likes green tea"), "0 1 0 0 Likes tea"},
		{"memories of one text", mem0("1", "Likes tea", "2", "Likes tea, and milk\nwith sugar"), nil, mem0("1", "Likes tea", "2", "Likes tea, and milk\nwith sugar", "3", "Likes tea"), "0 0 3 0 Likes tea,Likes tea, and milk"},
		{"a line of another note in the text", mem0("1", "x\n\nImported from mem0: \"2\" (0123456789abcdef)"), nil, mem0("2", "y"), "1 0 0 0 x,y"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := crmem.New(nil)
			apply(t, s, planOf(t, c.first, s, Refuse).Ops)
			if c.here != nil {
				apply(t, s, c.here(s))
			}
			before := exported(s)
			p := planOf(t, c.second, s, Refuse)
			if exported(s) != before {
				t.Error("a plan changed the store")
			}
			keep, replace := planOf(t, c.second, s, Keep), planOf(t, c.second, s, Replace)
			if len(keep.Conflicts) > 0 || keep.Kept != len(p.Conflicts) || len(replace.Conflicts) > 0 {
				t.Errorf("%d conflicts; to keep %+v, to replace %+v", len(p.Conflicts), keep, replace)
			}
			if len(p.Updated) != p.Replaced {
				t.Errorf("updated %q, want %d names", p.Updated, p.Replaced)
			}
			for _, conflict := range p.Conflicts {
				if conflict.Edited == strings.HasPrefix(c.name, "a note of here") {
					t.Errorf("%+v", conflict)
				}
			}
			if len(p.Conflicts) == 0 {
				apply(t, s, p.Ops)
				if again := planOf(t, c.second, s, Refuse); len(again.Ops) > 0 || len(again.Conflicts) > 0 {
					t.Errorf("imported again: %+v", again)
				}
			}
			var names []string
			for e := range s.All() {
				names = append(names, e.Name)
			}
			slices.Sort(names)
			if got := fmt.Sprintf("%d %d %d %d %s", p.Added, p.Replaced, p.Skipped, len(p.Conflicts), strings.Join(names, ",")); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if len(p.Conflicts) > 0 {
				apply(t, s, replace.Ops)
				if again := planOf(t, c.second, s, Refuse); len(again.Ops) > 0 || len(again.Conflicts) > 0 {
					t.Errorf("replaced, and then: %+v", again)
				}
			}
		})
	}
}

// TestDuplicatesOfMem0 reads records with equal IDs.
func TestDuplicatesOfMem0(t *testing.T) {
	m := mem0("1", "x", "2", "y", "1", "x", "2", "z", "2", "z")
	var ids []string
	for _, n := range m.Notes {
		ids = append(ids, n.ID)
	}
	if got := fmt.Sprint(ids, m.Left); got != "[1 2 2#2] [{duplicate 2 [1 2]} {duplicate ID; took all records 1 [2]}]" {
		t.Errorf("notes and omissions %s", got)
	}
}

func edit(name, text string) func(s *crmem.Store) []crmem.Op {
	return func(s *crmem.Store) []crmem.Op {
		e, err := s.Get(name)
		if err != nil {
			panic(err)
		}
		return []crmem.Op{crmem.Update{Name: name, Content: text + "\n\n" + e.Content, Aliases: e.Aliases}}
	}
}

func rename(from, to string) func(s *crmem.Store) []crmem.Op {
	return func(s *crmem.Store) []crmem.Op {
		e, err := s.Get(from)
		if err != nil {
			panic(err)
		}
		e.Name, e.ID = to, 0
		return []crmem.Op{crmem.Remove{Name: from}, crmem.Restore{Entry: e}}
	}
}
