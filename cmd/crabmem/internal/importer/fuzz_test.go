package importer_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"crabmem/bench/gate"
	"crabmem/cmd/crabmem/internal/importer"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
)

var kinds = []string{importer.RFC0038, importer.BasicMemory, importer.Mem0, importer.ChatGPT, importer.Claude}

// seeds are sources of every kind, and invalid ones.
var seeds = []string{
	"---\nname: A B\ndescription: d\n---\n\ntext\n", "---\r\nname: x\r\ndescription: \r\n---\r\n", "---\n---\n", "---\nname: \n", "para\n\npara\n",
	"---\ntitle: T\ntype: note\npermalink: a/t\ntags: [x, \"y z\"]\nstatus: s # c\n---\n# T\n- [c] text #tag (ctx)\n- rel [[U]] (ctx)\n",
	"---\n{title: T, tags: a, o: {p: q}}\n---\nx", "---\na: &a [1]\nb: *a\ntitle: [x]\ntags: {a: b}\n---\nx", "---\ncreated: 2026-01-01\n---\nImported from basic-memory: \"t/a.md\" (0123456789abcdef)\n",
	`[{"id":"1","memory":"x","metadata":{"a":{"b":[1,"2"]}},"user_id":"u","categories":["a","b,c"],"created_at":"2026-01-01T00:00:00Z"},{"id":"1","text":"y"},{"data":"z"},{"data":"z"}]`,
	`{"results":[{"id":7,"memory":"x"}],"relations":[{"source":"a","relationship":"b","target":"c"}],"next":"u"}`, `{"id":"1","memory":"x"} {"id":"2","memory":"Imported from mem0: \"1\" (0123456789abcdef)"}`,
	`[{"title":"t","create_time":1.5,"id":"a","current_node":"2","mapping":{"1":{"parent":null,"message":{"author":{"role":"user"},"content":{"content_type":"text","parts":["x",{"content_type":"image_asset_pointer","asset_pointer":"p"}]}}},"2":{"parent":"1","message":{"author":{"role":"assistant"},"recipient":"python","content":{"content_type":"code","text":"1"}}},"3":{"parent":"2","message":{"author":{"role":"tool","name":"python"},"content":{"content_type":"execution_output","text":"1"}}}}}]`,
	`{"conversation_id":"a","mapping":{"1":{"parent":"2"},"2":{"parent":"1","message":{"author":{"role":"user"},"content":{"content_type":"thoughts","thoughts":[{"summary":"s","content":"c"}]}}}}}`,
	`[{"uuid":"a","name":"n","summary":"s","created_at":"2026-01-01T00:00:00Z","chat_messages":[{"uuid":"m","sender":"human","text":"x","attachments":[{"file_name":"f","extracted_content":"e"}],"files":[{"file_name":"g"}]},{"sender":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"tool_use","name":"w","input":{"q":1}},{"type":"tool_result","content":[{"type":"text","text":"r"}]},{"type":"text","text":"y"}]}]}]`,
	"", "[", "{}", "null", "\xff", "\ufeff[]", `[{"uuid":"\ud83d"}]`, "PK\x03\x04",
}

// FuzzImports passes generated input to the readers of other programs' memories
// and conversations.
func FuzzImports(f *testing.F) {
	for i := range kinds {
		for _, s := range seeds {
			f.Add(byte(i), []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		kind := kinds[int(which)%len(kinds)]
		began := time.Now()
		same(t, b)
		switch kind {
		case importer.RFC0038:
			notes(t, tree(t, kind, b, "memory/entries/a.md", "memory/entries/sub/b.md", "memory/MEMORY.md", "memory/memory.md", "memory/user.md", "memory/facts.toml", "Crab.md"))
		case importer.BasicMemory:
			notes(t, tree(t, kind, b, "a.md", "sub/a.md", "A.MD", "b.txt"))
		case importer.Mem0:
			if m, err := importer.ReadMem0(bytes.NewReader(b)); err == nil {
				notes(t, m)
			}
		default:
			chats(t, kind, b)
		}
		gate.Time(t, "import", began, 20*time.Second)
	})
}

// same checks that detecting the kind of a text consumes no part of the text.
func same(t *testing.T, b []byte) {
	s := importer.Source{Stream: bytes.NewReader(b)}
	if err := s.Detect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(s.Stream); s.Kind == "" || err != nil || !bytes.Equal(got, b) {
		t.Fatalf("%q was looked at, and is %q", b, got)
	}
}

// tree reads a tree that has the text at every path.
func tree(t *testing.T, kind string, b []byte, paths ...string) *importer.Memory {
	disk := faultfs.NewMem()
	for _, p := range paths {
		p = "/t/" + p
		if err := vfs.MkdirAll(disk, path.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		disk.WriteFile(p, b, 0o600)
	}
	if _, err := importer.Detect(t.Context(), disk, "/t"); err != nil && utf8.Valid(b) {
		t.Fatal(err)
	}
	m, err := importer.ReadMarkdown(kind, disk, "/t", nil)
	if kind == importer.RFC0038 {
		m, err = importer.ReadRFC0038(disk, "/t", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// notes imports notes: they can be imported, importing them twice changes
// nothing, and earlier entries stay.
func notes(t *testing.T, m *importer.Memory) {
	for _, before := range [][]crmem.Op{nil, {crmem.Add{Name: "a", Content: "mine"}, crmem.Add{Name: "MEMORY", Content: "mine"}, crmem.Add{Name: "x", Content: "mine", Kind: crmem.Archive}}} {
		s := crmem.New(nil)
		if err := s.Apply(before...); err != nil {
			t.Fatal(err)
		}
		for _, mode := range []importer.Mode{importer.Keep, importer.Refuse, importer.Keep} {
			p, err := m.Plan(s, mode, time.Unix(1, 0))
			if err != nil {
				t.Fatal(err)
			}
			if mode == importer.Refuse {
				if before == nil && len(p.Conflicts) > 0 {
					t.Fatalf("a conflict in an empty store: %v", &p.Conflicts[0])
				}
				if len(p.Ops) > 0 {
					t.Fatalf("imported again: %+v", p.Ops)
				}
				continue
			}
			if err := s.Apply(p.Ops...); err != nil {
				t.Fatal(err)
			}
			if n := p.Added + p.Replaced + p.Skipped + p.Kept; n != len(m.Notes) {
				t.Fatalf("%d of %d notes are accounted for", n, len(m.Notes))
			}
		}
		for _, op := range before {
			a := op.(crmem.Add)
			if e, err := s.Get(a.Name); err != nil || e.Content != a.Content {
				t.Fatalf("%q was %q and is %q, %v", a.Name, a.Content, e.Content, err)
			}
		}
		if err := held(s, m, before == nil); err != nil {
			t.Fatal(err)
		}
	}
}

// held tells whether every note's text is in the store.
func held(s *crmem.Store, m *importer.Memory, all bool) error {
	var texts []string
	for e := range s.All() {
		if !utf8.ValidString(e.Name) || strings.ContainsAny(e.Name, "\x00\n\x1b") {
			return fmt.Errorf("the name %q", e.Name)
		}
		texts = append(texts, e.Content)
	}
	for i := range m.Notes {
		text := strings.TrimSpace(m.Notes[i].Text)
		if all && !slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, text) }) {
			return fmt.Errorf("%q is lost", text)
		}
	}
	return nil
}

// chats imports conversations, as they are and in an archive: twice is once.
func chats(t *testing.T, kind string, b []byte) {
	disk := faultfs.NewMem()
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	w, err := z.Create("x/conversations.json")
	if err == nil {
		_, err = w.Write(b)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	disk.WriteFile("/a", b, 0o600)
	disk.WriteFile("/b", packed.Bytes(), 0o600)
	d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	im, err := d.NewImporter(false)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	for turn, name := range []string{"/a", "/b"} {
		f, err := importer.Open(disk, kind, name)
		if err != nil {
			if turn == 1 {
				t.Fatal(err)
			}
			continue // a text that begins as an archive
		}
		_ = f.Each(nil, func(r io.Reader) error {
			_, err := importer.ReadChats(kind, r, func(h *importer.Chat) error {
				if h.Err != nil {
					return nil
				}
				did, err := im.Import(h.Meta, h.Items)
				if err != nil {
					t.Fatal(err)
				}
				if turn == 1 && (did.Created || did.Updated || did.Older) && !bytes.HasPrefix(b, []byte("PK\x03\x04")) {
					t.Fatalf("imported again, with the result %+v", did)
				}
				return nil
			})
			return err
		})
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
