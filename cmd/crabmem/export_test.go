package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// storeFile returns a CRMEM v1 file, written from FORMAT.md alone.
type storeFile struct {
	b       []byte
	entries uint32
}

func (f *storeFile) add(id, created uint64, kind uint32, name, content string, aliases []string) {
	text := func(s string) {
		f.b = append(binary.LittleEndian.AppendUint32(f.b, uint32(len(s))), s...)
	}
	f.b = binary.LittleEndian.AppendUint64(f.b, id)
	f.b = binary.LittleEndian.AppendUint64(f.b, created)
	f.b = binary.LittleEndian.AppendUint32(f.b, kind)
	text(name)
	text(content)
	f.b = binary.LittleEndian.AppendUint32(f.b, uint32(len(aliases)))
	for _, a := range aliases {
		text(a)
	}
	f.entries++
}

func (f *storeFile) bytes(next uint64) string {
	h := append([]byte("CRMEM\x00"), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	h = binary.LittleEndian.AppendUint64(h, next)
	h = binary.LittleEndian.AppendUint32(h, f.entries)
	return string(h) + string(f.b)
}

// randomStore returns a legal file, most of whose texts no command writes.
func randomStore(r *rand.Rand) string {
	parts := []string{"\x00", "", "a", "B", " ", "\n", "\t", "\\", "\"", "\u2028", "\ufeff", "\x7f", "\x1b[31m", "{}", "é", "e\u0301", "\ufffd", "😀", "-", strings.Repeat("long ", 300), "null", "\r\n"}
	text := func(most int) string {
		var b strings.Builder
		for range r.IntN(most + 1) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		return b.String()
	}
	f, id := &storeFile{}, uint64(0)
	names := make(map[string]bool)
	for range r.IntN(12) {
		name := text(3)
		if names[name] {
			continue
		}
		names[name] = true
		id += 1 + r.Uint64N(1<<uint(r.IntN(40)))
		var aliases []string
		for range r.IntN(4) {
			aliases = append(aliases, text(2))
		}
		if r.IntN(20) == 0 {
			for i := range 1030 {
				aliases = append(aliases, fmt.Sprint(i))
			}
		}
		f.add(id, r.Uint64()>>uint(r.IntN(64)), uint32(r.IntN(2)), name, text(6), aliases)
	}
	return f.bytes(id + 1 + r.Uint64N(9))
}

// TestExportRoundTrip exports random legal files, which contain empty names and
// aliases, NUL, and texts that exceed the limits of new entries, and imports the
// output into empty stores, into a store without the entries, and again. A
// second import changes nothing. An import of a vault restores the same entries.
func TestExportRoundTrip(t *testing.T) {
	t.Parallel()
	for _, withDaemon := range []bool{false, true} {
		p := newPlace(t, withDaemon)
		for seed := range uint64(8) {
			p.write("other/memory.db", randomStore(rand.New(rand.NewPCG(seed, 14))))
			lines, diag, code := p.runs("export", "--db", "HOME/other/memory.db")
			if code != 0 {
				t.Fatalf("seed %d: export: %s", seed, diag)
			}
			p.write("lines.jsonl", lines)
			into := fmt.Sprintf("HOME/new-%d.db", seed)
			for _, db := range []string{into, into, "HOME/memory.db"} {
				if out, diag, code := p.runs("import", "HOME/lines.jsonl", "--replace", "--db", db); code != 0 {
					t.Fatalf("seed %d, daemon %v: import into %s: %s%s", seed, withDaemon, db, out, diag)
				}
			}
			if got, _, _ := p.runs("export", "--db", into); got != lines {
				t.Fatalf("seed %d: exported\n%s\nand after the import\n%s", seed, lines, got)
			}
			vault, back := fmt.Sprintf("HOME/vault-%d", seed), fmt.Sprintf("HOME/back-%d.db", seed)
			for _, args := range [][]string{{"export", "--format", "obsidian", vault, "--db", into}, {"import", "--allow-secrets", vault, "--db", back}} {
				if lines == "" {
					break // the import of no entry creates no store
				}
				if out, diag, code := p.runs(args...); code != 0 {
					t.Fatalf("seed %d, daemon %v: %v: %s%s", seed, withDaemon, args, out, diag)
				}
			}
			if got, _, _ := p.runs("export", "--db", back); got != lines {
				t.Fatalf("seed %d: exported\n%s\nand after the import of the vault\n%s", seed, lines, got)
			}
			// The daemon has the other store open, whose IDs differ.
			out, diag, code := p.runs("import", "HOME/lines.jsonl", "--json")
			if code != 0 || !strings.Contains(out, `"added":0,"replaced":0,`) {
				t.Fatalf("seed %d, daemon %v: second import: %s%s", seed, withDaemon, out, diag)
			}
		}
	}
}

// TestImportLargeEntry imports an entry that exceeds a frame of the protocol, and
// lines that exceed the limits without being an entry of an export.
func TestImportLargeEntry(t *testing.T) {
	t.Parallel()
	f := &storeFile{}
	f.add(1, 5, 0, "large", strings.Repeat("0123456789abcde\n", 18<<20/16), []string{strings.Repeat("n", 2000)})
	for _, withDaemon := range []bool{false, true} {
		p := newPlace(t, withDaemon)
		p.write("other/memory.db", f.bytes(2))
		lines, _, _ := p.runs("export", "--db", "HOME/other/memory.db")
		p.write("lines.jsonl", lines)
		if out, diag, code := p.runs("import", "HOME/lines.jsonl"); code != 0 || !strings.HasPrefix(out, "imported 1 entry") {
			t.Errorf("daemon %v: %s%s", withDaemon, out, diag)
		}
		if got, _, _ := p.runs("export"); got != lines {
			t.Errorf("daemon %v: exported %d bytes, and after the import %d", withDaemon, len(lines), len(got))
		}
		for _, line := range []string{`{"name":""}`, `{"name":"a","aliases":[""]}`, `{"id":3,"name":"a\u0000b"}`, `{"created_at":3,"name":"a\u0000b"}`} {
			p.write("wrong.jsonl", line+"\n")
			if _, diag, code := p.runs("import", "HOME/wrong.jsonl"); code != 1 || !strings.Contains(diag, "wrong.jsonl: line 1: invalid: ") {
				t.Errorf("daemon %v: %s: code %d, %s", withDaemon, line, code, diag)
			}
		}
	}
}
