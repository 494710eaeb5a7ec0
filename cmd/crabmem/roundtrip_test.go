package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/crmem/metadata/metatest"
)

// roundTrips returns the number of entries of TestFrontMatterRoundTrip: CRABMEM_FRONTS,
// or 500.
func roundTrips(t *testing.T) int {
	switch n, err := strconv.Atoi(os.Getenv("CRABMEM_FRONTS")); {
	case err == nil:
		return n
	case testing.Short():
		return 100
	}
	return 500
}

// frontEntries returns entries with random front matter, names, and aliases, some of
// which are links of other entries.
func frontEntries(rng *rand.Rand, n int) []crmem.Entry {
	odd := []string{"a/b %d", "CON %d", "x|y %d", "z[%d]", "#%d^", "é e\u0301 %d", "dot %d.", " %d", "n%d.md", "%d:?*\"<>\\", "日本 %d", "Plain %d", "plain %d", "CON", "{{%d}}", "-%d-"}
	names := map[string]bool{}
	var entries []crmem.Entry
	for i := range n {
		name := fmt.Sprintf("note %d", i)
		if rng.IntN(3) == 0 {
			name = strings.SplitN(fmt.Sprintf(odd[rng.IntN(len(odd))], rng.IntN(2*n)), "%!", 2)[0]
		}
		if rng.IntN(50) == 0 {
			name += strings.Repeat("long", rng.IntN(240))
		}
		if names[name] {
			name = fmt.Sprintf("note %d", i)
		}
		names[name] = true
		content := metatest.Front(rng)
		for range rng.IntN(4) {
			content += []string{"[[n]]", "[[Plain 1|x]] ", "\n", "text\n", "\r\n", "`[[n]]`", "---\n", "| [[alias 3]] |\n"}[rng.IntN(8)]
		}
		content = strings.ReplaceAll(content, "[[n]]", fmt.Sprintf([]string{"[[alias %d]]", "[[note %d]]", "[[a/b %d|text]]", "[[x]]%.0d"}[rng.IntN(4)], rng.IntN(n)))
		switch rng.IntN(12) {
		case 0:
			content = "\ufeff" + content
		case 1:
			content = strings.ReplaceAll(strings.ReplaceAll(content, "\r\n", "\n"), "\n", "\r\n")
		case 2:
			content = strings.TrimPrefix(content, "---")
		}
		e := crmem.Entry{ID: uint64(i + 1), Name: name, Content: strings.ReplaceAll(content, "\x00", "\x01"), Kind: crmem.Kind(rng.IntN(4) / 3), CreatedAt: crmem.UnixTime(rng.Uint64N(1 << 33))}
		for range rng.IntN(3) {
			e.Aliases = append(e.Aliases, fmt.Sprintf([]string{"alias %d", "\"%d\"", "[[%d]]", "0%d"}[rng.IntN(4)], i))
		}
		entries = append(entries, e)
	}
	return entries
}

// rememberAll writes the entries to a store: notes by Remember, at their time.
func rememberAll(t *testing.T, file string, entries []crmem.Entry) {
	t.Helper()
	var now uint64
	s, err := crmem.Open(file, &crmem.Options{Now: func() time.Time { return time.Unix(int64(now), 0) }})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		now = uint64(e.CreatedAt)
		if e.Kind == crmem.Note {
			_, err = s.Remember(e.Name, e.Content, e.Aliases)
		} else {
			err = s.Apply(crmem.Add{Name: e.Name, Content: e.Content, Aliases: e.Aliases, Kind: e.Kind})
		}
		if err != nil {
			t.Fatalf("%q: %v", e.Name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// checkEntries compares the entries of a store file.
func checkEntries(t *testing.T, step, file string, want []crmem.Entry) {
	t.Helper()
	s, err := crmem.Open(file, &crmem.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := slices.Collect(s.All())
	if len(got) != len(want) {
		t.Fatalf("%s: %d entries, want %d", step, len(got), len(want))
	}
	for i := range want {
		if !got[i].Equal(want[i]) {
			t.Fatalf("%s:\n%#v\nwant\n%#v", step, got[i], want[i])
		}
	}
}

// pageID matches the ID of an entry in its page.
var pageID = regexp.MustCompile(`(?m)^crabmem-id: ([0-9]+)$|<dt>ID</dt>\s*<dd>([0-9]+)</dd>`)

// appendToPages appends a text to every seventh page of a tree, and returns the IDs of
// their entries.
func appendToPages(t *testing.T, dir, text string) map[uint64]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	edited := map[uint64]bool{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := pageID.FindSubmatch(b)
		if m == nil {
			t.Fatalf("%s: no ID: %q", file, b)
		}
		id, _ := strconv.ParseUint(string(m[1])+string(m[2]), 10, 64)
		if id%7 > 0 {
			continue
		}
		edited[id] = true
		if err := os.WriteFile(file, append(b, text...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return edited
}

// TestFrontMatterRoundTrip takes entries with random front matter, valid and broken,
// through remember, dump, edits of pages, merge, export in each format, and import into
// an empty store. Every byte stays the same.
func TestFrontMatterRoundTrip(t *testing.T) {
	t.Parallel()
	n := roundTrips(t)
	rng := rand.New(rand.NewPCG(11, 12))
	entries := frontEntries(rng, n)
	p := newPlace(t, false)
	run := func(args ...string) {
		t.Helper()
		if out, diag, code := p.runs(args...); code != 0 {
			t.Fatalf("%v: %s%s", args, out, diag)
		}
	}
	store := filepath.Join(p.home, "a.db")
	rememberAll(t, store, entries)
	checkEntries(t, "remember", store, entries)
	run("dump", "HOME/book", "--db", store)
	edited := appendToPages(t, filepath.Join(p.home, "book"), "edited\n")
	for i := range entries {
		if e := &entries[i]; edited[e.ID] {
			if strings.HasSuffix(e.Content, "\n") {
				e.Content += "edited\n"
			} else {
				e.Content += "\nedited" // the end of the last line is not part of the content
			}
		}
	}
	run("load", "--merge", "HOME/book", "--db", store)
	checkEntries(t, "merge", store, entries)
	run("export", "--format", "obsidian", "HOME/vault", "--db", store)
	run("import", "--allow-secrets", "HOME/vault", "--db", "HOME/b.db")
	checkEntries(t, "vault", filepath.Join(p.home, "b.db"), entries)
	lines, _, _ := p.runs("export", "--db", store)
	p.write("lines.jsonl", lines)
	run("import", "--allow-secrets", "HOME/lines.jsonl", "--db", "HOME/c.db")
	checkEntries(t, "lines", filepath.Join(p.home, "c.db"), entries)

	// Edits of notes in the vault return to the store, and the next export keeps them.
	edited = appendToPages(t, filepath.Join(p.home, "vault"), "in the vault")
	for i := range entries {
		if edited[entries[i].ID] {
			entries[i].Content += "in the vault"
		}
	}
	run("import", "--replace", "--allow-secrets", "HOME/vault", "--db", store)
	checkEntries(t, "edited vault", store, entries)
	run("export", "--format", "obsidian", "HOME/vault", "--db", store)
	run("import", "--allow-secrets", "HOME/vault", "--db", "HOME/d.db")
	checkEntries(t, "second vault", filepath.Join(p.home, "d.db"), entries)
	valid, links := 0, 0
	for _, e := range entries {
		if _, _, ok := metadata.Parse(e.Content); ok {
			valid++
		}
		links += len(metadata.Links(e.Content))
	}
	t.Logf("%d entries, %d with valid front matter, %d links, %d pages edited twice", n, valid, links, len(edited))
}
