package importer

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// claudeNotesOf reads the notes of an export.
func claudeNotesOf(t *testing.T, fsys vfs.FS, path string) (*Memory, error) {
	t.Helper()
	in := Source{FS: fsys, Path: path}
	if err := in.Detect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if in.Kind != Claude {
		t.Fatalf("%s is %s", path, in.Kind)
	}
	return in.Memory(t.Context())
}

// TestEveryFactOfClaudeNotes checks that each text of an export is in a note or in
// the list of omissions, as a directory and as an archive.
func TestEveryFactOfClaudeNotes(t *testing.T) {
	for _, name := range []string{"claude-memories", "claude-account"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(fixtures, name)
			m, err := claudeNotesOf(t, vfs.OS{}, dir)
			if err != nil {
				t.Fatal(err)
			}
			twice(t, m)
			s := crmem.New(nil)
			apply(t, s, planOf(t, m, s, Refuse).Ops)
			text := exported(s)
			var b bytes.Buffer
			z := zip.NewWriter(&b)
			found := 0
			err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				rel, _ := filepath.Rel(dir, path)
				w, err := z.Create("data-2026/" + filepath.ToSlash(rel))
				if err != nil {
					return err
				}
				raw, err := os.ReadFile(path)
				if _, werr := w.Write(raw); err != nil || werr != nil {
					return err
				}
				if base := d.Name(); base == "users.json" || base == "conversations.json" {
					return nil
				}
				for _, f := range facts(readJSON(t, path), "uuid", "account_uuid", "creator", "updated_at", "created_at", "archived_by") {
					found++
					if !strings.Contains(text, f) && !strings.Contains(text, strings.TrimSuffix(strings.TrimPrefix(f, "/"), ".md")) && f != "Empty" && f != "blank.md" && f != "lost" {
						t.Errorf("%q is lost", f)
					}
				}
				return nil
			})
			if err != nil || z.Close() != nil || found < 6 {
				t.Fatalf("%d facts, %v", found, err)
			}
			disk := faultfs.NewMem()
			disk.WriteFile("/export.zip", b.Bytes(), 0o600)
			packed, err := claudeNotesOf(t, disk, "/export.zip")
			if err != nil || len(packed.Notes) != len(m.Notes) {
				t.Fatalf("the archive has %d notes, %v; want %d", len(packed.Notes), err, len(m.Notes))
			}
			if p := planOf(t, packed, s, Refuse); len(p.Ops)+len(p.Conflicts) > 0 {
				t.Errorf("the archive after the directory: %+v", p)
			}
		})
	}
}

func TestHostileClaudeNotes(t *testing.T) {
	cases := []struct {
		name, part, text string
		notes            int
		left, err        string
	}{
		{"wrong types", partMemories, `[7,{"conversations_memory":7,"project_memories":[],"memory_files":{}},{"project_memories":{"a":7,"b":["x"]}}]`, 0, `"conversations_memory" is not text`, ""},
		{"a list of projects", partMemories, `{"project_memories":["x"]}`, 0, `"project_memories" is not an object`, ""},
		{"files of wrong types", partMemories, `{"memory_files":[7,{"path":7,"content":"x"},{"path":"/a\n\u0000b","content":"x"},{"path":"../../etc/passwd","content":"x"}]}`, 2, "without a path", ""},
		{"the same path twice", partMemories, `{"memory_files":[{"path":"/a","content":"x"},{"path":"/a","content":"y"}]}`, 1, "duplicate ID", ""},
		{"unknown keys", partMemories, `{"conversations_memory":"x","team_memory":"y"}`, 1, `"team_memory" of the memories`, ""},
		{"projects of wrong types", partProjects, `[{"uuid":7,"name":"x"},{"uuid":"a","name":{},"docs":{"a":1}},{"uuid":"b","name":"n","docs":[7,{"filename":[],"content":"x"}]}]`, 1, "without an ID", ""},
		{"a large document", partProjects, `[{"uuid":"a","name":"n","docs":[{"filename":"f","content":"` + strings.Repeat("x", 9<<20) + `"}]}]`, 0, "larger than a note", ""},
		{"a long ID", partProjects, `[{"uuid":"` + strings.Repeat("a", 2000) + `","name":"n","description":"d"}]`, 1, "", ""},
		{"no UTF-8", partMemories, "{\"conversations_memory\":\"\xff\"}", 0, "invalid UTF-8", ""},
		{"a lone surrogate", partMemories, `{"conversations_memory":"\ud83d"}`, 1, "lone surrogate", ""},
		{"deep", partProjects, `{"uuid":"a","docs":` + strings.Repeat("[", 100_000), 0, "", "exceeded max depth"},
		{"an end too soon", partProjects, `[{"uuid":"a"`, 0, "", "unexpected EOF"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newClaudeNotes()
			err := r.read(c.part, strings.NewReader(c.text))
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%v, want %q", err, c.err)
			}
			m := r.memory()
			if len(m.Notes) != c.notes || c.left != "" && left(m.Left, c.left) == 0 {
				t.Errorf("%d notes, left out %+v", len(m.Notes), m.Left)
			}
			twice(t, m)
		})
	}
}

// TestExportWithLinks reads an export with links, a file that is too deep, and a
// directory of another program's files.
func TestExportWithLinks(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	memory := `{"conversations_memory":"x","account_uuid":"a"}`
	put("memories.json", memory)
	put("projects/a.json", `{"uuid":"p","name":"P","description":"d","docs":[]}`)
	put("projects/projects/projects/projects/projects/deep.json", memory)
	put("projects/other.json", `{"name":"a package"}`)
	put("projects/broken.json", `{"uuid":`)
	for link, to := range map[string]string{"projects/loop": "..", "projects/etc.json": "/etc/passwd", "memories": "projects"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip("SKIPPED: no symbolic links")
		}
	}
	m, err := claudeNotesOf(t, vfs.OS{}, dir)
	if err != nil || len(m.Notes) != 2 {
		t.Fatalf("%+v, %v", m, err)
	}
	if n := left(m.Left, "another file of the export"); n < 5 {
		t.Errorf("%d other files: %+v", n, m.Left)
	}
}

// FuzzClaudeNotes passes generated input to the reader of memories and projects.
func FuzzClaudeNotes(f *testing.F) {
	f.Add(true, `[{"conversations_memory":"x","project_memories":{"p":"y"},"memory_files":[{"path":"/a.md","content":"z"}],"account_uuid":"a"}]`)
	f.Add(false, `[{"uuid":"p","name":"P","description":"d","prompt_template":"t","docs":[{"uuid":"d","filename":"f","content":"c","created_at":"2026-03-01T09:30:00Z"}]}]`)
	f.Fuzz(func(t *testing.T, memories bool, text string) {
		part := partProjects
		if memories {
			part = partMemories
		}
		if r := newClaudeNotes(); r.read(part, strings.NewReader(text)) == nil {
			twice(t, r.memory())
		}
	})
}
