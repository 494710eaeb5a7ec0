package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/cmd/crabmem/internal/vault"
	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs/faultfs"
)

func vaultEntries() []crmem.Entry {
	return []crmem.Entry{
		{ID: 1, Name: "keep", CreatedAt: 5, Content: "kept [[ship]]"},
		{ID: 2, Name: "a/b", CreatedAt: 6, Content: "---\ntags: two words\n---\n" + strings.Repeat("more than one block\n", 300), Aliases: []string{"ship"}},
		{ID: 3, Name: "gone", CreatedAt: 7, Kind: crmem.Archive},
	}
}

// exportTo exports entries into a vault.
func exportTo(m *faultfs.Mem, entries []crmem.Entry) error {
	sn, err := crmem.NewSnapshot(9, entries)
	if err != nil {
		return err
	}
	s := crmem.New(&crmem.Options{FS: m})
	if err := s.Replace(sn); err != nil {
		return err
	}
	_, err = tree.Dump(s, "/vault", &tree.DumpOptions{Format: vault.Format(), Bases: "/bases"})
	return err
}

// exactLines describes the entries of a vault.
func exactLines(m *Memory) string {
	var b strings.Builder
	for _, l := range m.Exact {
		fmt.Fprintf(&b, "%d %q %v %d %q %q\n", l.Entry.ID, l.Entry.Name, l.Entry.Kind, l.Entry.CreatedAt, l.Entry.Content, l.Entry.Aliases)
	}
	return b.String()
}

// TestVault reads a vault with pages of people and with hostile files.
func TestVault(t *testing.T) {
	m := faultfs.NewMem()
	if err := exportTo(m, vaultEntries()); err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) {
		t.Helper()
		for i, c := range name {
			if c == '/' && i > 0 {
				_ = m.Mkdir(name[:i], 0o700) // it may exist
			}
		}
		m.WriteFile(name, []byte(text), 0o600)
	}
	file("/vault/.obsidian/app.md", "settings")
	file("/vault/.trash/old.md", "removed")
	file("/vault/aside-1/notes/keep.md", "moved")
	file("/vault/image.png", "x")
	file("/vault/empty.md", " \n")
	file("/vault/broken.md", "---\na: [\n---\nx\r\n")
	file("/vault/alias.md", "\ufeff---\naliases: [x, x, {a: b}]\n---\n")
	file("/vault/aliases.md", "---\naliases:\n  - x\n  - 2026-01-01\n  - x\n---\ntext\n")
	file("/vault/daily/keep.md", "another text")
	file("/vault/daily/deep/keep.md", "kept [[a=2Fb|ship]]")
	file("/vault/damaged.md", "---\ncrabmem-id: 8\na: [\n---\n")
	file("/vault/copy.md", "---\ncrabmem-id: 1\ncrabmem-created: never\n---\ncopy")
	file("/vault/invalid.md", "---\ncrabmem-id: 5\ncrabmem-name: \"\"\n---\nx")
	file("/vault/bytes.md", "\xff")
	file("/vault/large.md", strings.Repeat("x", tree.MaxPage+1))
	m.Symlink("/etc/passwd", "/vault/link.md")
	if kind, err := Detect(t.Context(), m, "/vault"); kind != Obsidian || err != nil {
		t.Fatalf("kind %q, %v", kind, err)
	}
	got, err := ReadVault(m, "/vault", nil)
	if err != nil {
		t.Fatal(err)
	}
	for reason, where := range map[string]string{
		"hidden": ".trash", "moved aside by crabmem export": "aside-1", "not Markdown": "image.png", "page without text": "empty.md", "symbolic link": "link.md",
		"front matter cannot be read": "damaged.md", "invalid": "invalid.md", "not UTF-8": "bytes.md", "larger than": "large.md",
	} {
		if left(got.Left, reason) != 1 || !named(got.Left, where) {
			t.Errorf("%s: %s is not counted: %+v", reason, where, got.Left)
		}
	}
	s := crmem.New(nil)
	p := planOf(t, got, s, Refuse)
	apply(t, s, p.Ops)
	want := vaultEntries()
	want = append(want, []crmem.Entry{
		{Name: "copy", Content: "copy"},
		{Name: "alias", Content: "---\naliases: [x, x, {a: b}]\n---\n"},
		{Name: "aliases", Content: "---\naliases:\n  - x\n  - 2026-01-01\n  - x\n---\ntext\n", Aliases: []string{"x", "2026-01-01"}},
		{Name: "broken", Content: "---\na: [\n---\nx\r\n"},
		{Name: "daily/deep/keep", Content: "kept [[a=2Fb|ship]]"},
		{Name: "daily/keep", Content: "another text"},
	}...)
	for _, w := range want {
		e, err := s.Get(w.Name)
		if w.ID == 0 {
			w.ID, w.CreatedAt = e.ID, e.CreatedAt
		}
		if err != nil || !e.Equal(w) {
			t.Errorf("%+v, %v\nwant %+v", e, err, w)
		}
	}
	if s.Len() != len(want) || p.Added != len(want) {
		t.Errorf("%d entries, want %d:\n%s", s.Len(), len(want), exported(s))
	}
	if again := planOf(t, got, s, Refuse); len(again.Ops) > 0 || len(again.Conflicts) > 0 || again.Skipped != len(want) {
		t.Errorf("second import: %+v", again)
	}
	apply(t, s, edit("keep", "edited")(s))
	apply(t, s, edit("aliases", "edited")(s))
	conflicts := planOf(t, got, s, Refuse).Conflicts
	if len(conflicts) != 2 || conflicts[0] != (Conflict{Name: "keep", Source: "notes/keep.md"}) || conflicts[1].Source != "aliases.md" {
		t.Errorf("conflicts %+v", conflicts)
	}
	if p := planOf(t, got, s, Keep); p.Kept != 2 || len(p.Ops) > 0 {
		t.Errorf("kept %+v", p)
	}
	if p := planOf(t, got, s, Replace); p.Replaced != 2 || !slices.Equal(p.Updated, []string{"keep", "aliases"}) {
		t.Errorf("replaced %+v", p)
	}
}

// TestLargestPageOfVault reads an entry that the limits permit, with the letters that
// take the most room in the properties.
func TestLargestPageOfVault(t *testing.T) {
	e := crmem.Entry{ID: 1, Name: strings.Repeat("\u0600", crmem.MaxName/2), CreatedAt: 5, Content: strings.Repeat("x", crmem.MaxContent)}
	for i := range crmem.MaxAliases {
		e.Aliases = append(e.Aliases, strings.Repeat("\u0600", crmem.MaxName/2-4)+fmt.Sprint(1000+i))
	}
	m := faultfs.NewMem()
	if err := exportTo(m, []crmem.Entry{e}); err != nil {
		t.Fatal(err)
	}
	got, err := ReadVault(m, "/vault", nil)
	if err != nil || len(got.Exact) != 1 || !got.Exact[0].Entry.Equal(e) {
		t.Errorf("%d entries: %+v, %v", len(got.Exact), got.Left, err)
	}
}

// TestVaultCrash cuts power before each call of an export. Files of people stay. An
// import reads the old entries or the new ones, or refuses the vault. The next export
// completes it.
func TestVaultCrash(t *testing.T) {
	old := vaultEntries()
	next := vaultEntries()
	next[1].Content, next[2] = "---\nbroken", crmem.Entry{ID: 4, Name: "new", CreatedAt: 8}
	start := faultfs.NewMem()
	if err := exportTo(start, old); err != nil {
		t.Fatal(err)
	}
	start.WriteFile("/vault/notes/mine.md", []byte("mine"), 0o600)
	read := func(m *faultfs.Mem) string {
		got, err := ReadVault(m, "/vault", nil)
		if err != nil {
			if !strings.Contains(err.Error(), "interrupted: run crabmem export --format obsidian") {
				t.Fatal(err)
			}
			return ""
		}
		text := exactLines(got)
		if mine := strings.Index(text, `0 "mine"`); mine < 0 {
			t.Fatalf("without the page of a person:\n%s", text)
		} else {
			text = text[:mine]
		}
		return text
	}
	before := read(start)
	done := start.Kill()
	if err := exportTo(done, next); err != nil {
		t.Fatal(err)
	}
	after := read(done)
	if before == "" || after == "" || before == after {
		t.Fatalf("before:\n%safter:\n%s", before, after)
	}
	states, refused := 0, 0
	check := func(m *faultfs.Mem) {
		states++
		if got := read(m); got == "" {
			refused++
		} else if got != before && got != after {
			t.Fatalf("neither the old entries nor the new:\n%s", got)
		}
		if err := exportTo(m, next); err != nil {
			t.Fatal(err)
		}
		if got := read(m); got != after {
			t.Fatalf("the next export writes\n%s", got)
		}
	}
	m := start.Kill()
	m.Hook = func(faultfs.Call) error {
		all := slices.Repeat([]faultfs.Outcome{faultfs.Kept}, len(m.Unsynced()))
		check(m.Crash())
		check(m.Crash(all...))
		for i := range all {
			but := slices.Clone(all)
			but[i] = faultfs.Lost
			check(m.Crash(but...))
		}
		return nil
	}
	if err := exportTo(m, next); err != nil {
		t.Fatal(err)
	}
	if states < 100 || refused < 30 {
		t.Errorf("%d states, %d refused", states, refused)
	}
	t.Logf("crash states: %d, refused by import: %d", states, refused)
}
