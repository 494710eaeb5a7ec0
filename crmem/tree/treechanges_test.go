package tree_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"

	"github.com/google/go-cmp/cmp"
)

func reportOptions(m *faultfs.Mem) *crmem.Options {
	return &crmem.Options{FS: m, CheckpointOnClose: crmem.CheckpointNever, Now: func() time.Time { return time.Unix(1_760_000_000, 0) }}
}

// reportTree returns a machine with a store, and the tree that it was dumped to.
// The store changed since.
func reportTree(t *testing.T) *faultfs.Mem {
	t.Helper()
	m := faultfs.NewMem()
	m.Now = func() time.Time { return time.Unix(1_760_000_000, 0) }
	s := opened(t, "/m.db", reportOptions(m), 0)
	ok(t, s.Apply(
		crmem.Add{Name: "plain", Content: "some text", Aliases: []string{"one", "two & <three>"}}, crmem.Add{Name: "exact", Content: "\n text \r\n", Aliases: []string{" a", "b\nc", "{{d}}"}},
		crmem.Add{Name: "A/b:c", Content: "odd name\n"}, crmem.Add{Name: "a/B:c", Content: "same name in another case"}, crmem.Add{Name: "empty"},
		crmem.Add{Name: "archive", Kind: crmem.Archive, Content: "an archive"}, crmem.Add{Name: "gone", Content: "removed later"}, crmem.Add{Name: "changed", Content: "changed later"},
	))
	CountIDs(0)
	must(Dump(s, "/tree", nil))
	ok(t, s.Apply(crmem.Update{Name: "changed", Content: "in the store"}, crmem.Remove{Name: "gone"}, crmem.Add{Name: "new", Content: "new in the store"}))
	ok(t, s.Close())
	return m
}

// treeUses use the store and the tree.
var treeUses = []struct {
	name string
	do   func(s *crmem.Store) (any, error)
}{
	{"load", func(s *crmem.Store) (any, error) { return Load(s, "/tree", nil) }},
	{"guarded load", func(s *crmem.Store) (any, error) { return Load(s, "/tree", &LoadOptions{Guard: true}) }},
	{"merge", func(s *crmem.Store) (any, error) { return Load(s, "/tree", &LoadOptions{Merge: true}) }},
	{"dry merge", func(s *crmem.Store) (any, error) { return Load(s, "/tree", &LoadOptions{Merge: true, DryRun: true}) }},
	{"confirmed load", func(s *crmem.Store) (any, error) {
		var calls []string
		r, err := Load(s, "/tree", &LoadOptions{
			Progress: func(done, total int) { calls = append(calls, fmt.Sprint(done, "/", total)) },
			Confirm: func(r LoadReport) error {
				calls = append(calls, fmt.Sprint(len(r.Changed)))
				return errors.New("refused")
			},
		})
		return []any{r, calls}, err
	}},
	{"dump", func(s *crmem.Store) (any, error) { return Dump(s, "/tree", nil) }},
	{"dry dump", func(s *crmem.Store) (any, error) {
		return Dump(s, "/tree", &DumpOptions{DryRun: true, Force: true})
	}},
	{"forced dump", func(s *crmem.Store) (any, error) {
		var calls []string
		r, err := Dump(s, "/tree", &DumpOptions{Force: true, Progress: func(done, total int) { calls = append(calls, fmt.Sprint(done, "/", total)) }})
		return []any{r, calls}, err
	}},
	{"merge and dump", func(s *crmem.Store) (any, error) {
		a, err := Load(s, "/tree", &LoadOptions{Merge: true})
		b, derr := Dump(s, "/tree", nil)
		return []any{a, b}, errors.Join(err, derr)
	}},
}

// treeChanges change the files of a tree.
var treeChanges = []struct {
	name string
	do   func(t *testing.T, m *faultfs.Mem)
}{
	{"no change", func(*testing.T, *faultfs.Mem) {}},
	{"page edited", func(t *testing.T, m *faultfs.Mem) { appendTo(t, m, "/tree/notes/plain.md", "more\n") }},
	{"conflict", func(t *testing.T, m *faultfs.Mem) { appendTo(t, m, "/tree/notes/changed.md", "in the tree\n") }},
	{"two conflicts", func(t *testing.T, m *faultfs.Mem) {
		appendTo(t, m, "/tree/notes/changed.md", "in the tree\n")
		appendTo(t, m, "/tree/notes/gone.md", "in the tree\n")
		m.WriteFile("/tree/notes/new.md", []byte("new in the tree\n"), 0o600)
	}},
	{"page removed", func(t *testing.T, m *faultfs.Mem) { ok(t, m.Remove("/tree/notes/plain.md")) }},
	{"changed page removed", func(t *testing.T, m *faultfs.Mem) { ok(t, m.Remove("/tree/notes/changed.md")) }},
	{"all pages removed", func(t *testing.T, m *faultfs.Mem) {
		for _, dir := range []string{"/tree/notes", "/tree/archives"} {
			for _, d := range must(m.ReadDir(dir)) {
				ok(t, m.Remove(dir+"/"+d.Name()))
			}
		}
	}},
	{"page added", func(t *testing.T, m *faultfs.Mem) { m.WriteFile("/tree/notes/added.md", []byte("added\n"), 0o644) }},
	{"page renamed", func(t *testing.T, m *faultfs.Mem) { ok(t, m.Rename("/tree/notes/plain.md", "/tree/notes/renamed.md")) }},
	{"page archived", func(t *testing.T, m *faultfs.Mem) { ok(t, m.Rename("/tree/notes/plain.md", "/tree/archives/plain.md")) }},
	{"page copied", func(t *testing.T, m *faultfs.Mem) {
		m.WriteFile("/tree/archives/plain.md", memFile(t, m, "/tree/notes/plain.md"), 0o600)
	}},
	{"pages swapped", func(t *testing.T, m *faultfs.Mem) {
		a, b := memFile(t, m, "/tree/notes/plain.md"), memFile(t, m, "/tree/notes/exact.md")
		m.WriteFile("/tree/notes/plain.md", b, 0o600)
		m.WriteFile("/tree/notes/exact.md", a, 0o600)
	}},
	{"other files", func(t *testing.T, m *faultfs.Mem) {
		for _, name := range []string{"notes/.hidden", "notes/text.txt", "notes/.md", "notes/.x.md", "README.md", "notes/.plain.md12", "notes/plain.md~", "aside-1", "archives/..md"} {
			m.WriteFile("/tree/"+name, []byte("text"), 0o600)
		}
	}},
	{"invalid name", func(t *testing.T, m *faultfs.Mem) { m.WriteFile("/tree/notes/\xff.md", []byte("text"), 0o600) }},
	{"directory for a page", func(t *testing.T, m *faultfs.Mem) { ok(t, m.Mkdir("/tree/notes/dir.md", 0o700)) }},
	{"link for a page", func(t *testing.T, m *faultfs.Mem) { m.Symlink("plain.md", "/tree/notes/link.md") }},
	{"FIFO for a page", func(t *testing.T, m *faultfs.Mem) { m.Mkfifo("/tree/notes/fifo.md") }},
	{"page became a link", func(t *testing.T, m *faultfs.Mem) { m.Symlink("exact.md", "/tree/notes/plain.md") }},
	{"file for a directory", func(t *testing.T, m *faultfs.Mem) {
		ok(t, m.Remove("/tree/archives/archive.md"))
		ok(t, m.Remove("/tree/archives"))
		m.WriteFile("/tree/archives", nil, 0o600)
	}},
	{"link for a directory", func(t *testing.T, m *faultfs.Mem) {
		ok(t, m.Rename("/tree/archives", "/tree/moved"))
		m.Symlink("moved", "/tree/archives")
	}},
	{"page of the largest size", func(t *testing.T, m *faultfs.Mem) {
		m.WriteFile("/tree/notes/large.md", []byte(strings.Repeat("x", 16<<20)), 0o600)
	}},
	{"page that is unreadable", func(t *testing.T, m *faultfs.Mem) { m.Chmod("/tree/notes/plain.md", 0) }},
	{"directory that is unreadable", func(t *testing.T, m *faultfs.Mem) { m.Chmod("/tree/notes", 0) }},
	{"unsettled conflict", func(t *testing.T, m *faultfs.Mem) {
		ok(t, m.Mkdir("/tree/conflicts", 0o700))
		ok(t, m.Mkdir("/tree/conflicts/notes", 0o700))
		m.WriteFile("/tree/conflicts/notes/a.md", nil, 0o600)
	}},
	{"settled conflicts", func(t *testing.T, m *faultfs.Mem) {
		ok(t, m.Mkdir("/tree/conflicts", 0o700))
		ok(t, m.Mkdir("/tree/conflicts/notes", 0o700))
		m.WriteFile("/tree/conflicts/.hidden", nil, 0o600)
	}},
	{"deep conflicts", func(t *testing.T, m *faultfs.Mem) { ok(t, vfs.MkdirAll(m, "/tree/conflicts/a/b", 0o700)) }},
	{"file for conflicts", func(t *testing.T, m *faultfs.Mem) { m.WriteFile("/tree/conflicts", nil, 0o600) }},
	{"summary edited", func(t *testing.T, m *faultfs.Mem) { appendTo(t, m, "/tree/SUMMARY.md", "- mine\n") }},
	{"summary removed", func(t *testing.T, m *faultfs.Mem) { ok(t, m.Remove("/tree/SUMMARY.md")) }},
	{"book.toml removed", func(t *testing.T, m *faultfs.Mem) { ok(t, m.Remove("/tree/book.toml")) }},
	{"book.toml edited", func(t *testing.T, m *faultfs.Mem) { appendTo(t, m, "/tree/book.toml", "# mine\n") }},
	{"manifest removed", func(t *testing.T, m *faultfs.Mem) { ok(t, m.Remove("/tree/.crabmem.json")) }},
	{"manifest emptied", func(t *testing.T, m *faultfs.Mem) { m.WriteFile("/tree/.crabmem.json", nil, 0o600) }},
	{"manifest cut", func(t *testing.T, m *faultfs.Mem) {
		b := memFile(t, m, "/tree/.crabmem.json")
		m.WriteFile("/tree/.crabmem.json", b[:len(b)/2], 0o600)
	}},
	{"manifest of another format", replaceIn(treeManifest, "crabmem tree", "other tree")}, {"manifest of a later version", replaceIn(treeManifest, `"version":2`, `"version":4`)}, {"manifest of no version", replaceIn(treeManifest, `"version":2`, `"version":0`)},
	{"record unfinished", replaceIn(treeRecord, `"state":"done"`, `"state":"unfinished"`)}, {"record of another state", replaceIn(treeRecord, `"state":"done"`, `"state":"x"`)},
	{"record of another name", replaceIn(treeRecord, `"dump":"0`, `"dump":"1`)}, {"record with a later ID", replaceIn(treeRecord, `"next_id":`, `"next_id":7`)}, {"record of an empty store", replaceIn(treeRecord, `"entries":8`, `"entries":0`)},
	{"record removed", func(t *testing.T, m *faultfs.Mem) { ok(t, m.Remove(treeRecord)) }},
	{"record emptied", func(t *testing.T, m *faultfs.Mem) { m.WriteFile(treeRecord, nil, 0o600) }},
	{"record of another store", func(t *testing.T, m *faultfs.Mem) {
		const other = "000000000000000000000000000000ff"
		text := strings.ReplaceAll(string(memFile(t, m, treeRecord)), treeRecordID, other)
		m.WriteFile(strings.ReplaceAll(treeRecord, treeRecordID, other), []byte(text), 0o600)
	}},
	{"base removed", func(t *testing.T, m *faultfs.Mem) { ok(t, m.Remove(treeBase)) }},
	{"base emptied", func(t *testing.T, m *faultfs.Mem) { m.WriteFile(treeBase, nil, 0o600) }},
	{"base of another format", replaceIn(treeBase, "crabmem base", "other base")}, {"base of a later version", replaceIn(treeBase, `"version":1`, `"version":2`)}, {"base of another tree", replaceIn(treeBase, `"tree":"0`, `"tree":"1`)},
	{"base of another store", replaceIn(treeBase, `"store":"`, `"store":"x`)}, {"base with a later ID", replaceIn(treeBase, `"next_id":`, `"next_id":7`)}, {"base of another dump", replaceIn(treeBase, treeRecordID, "x")}, {"base of no dump", replaceIn(treeBase, `"dumps":`, `"other":`)},
	{"base of an interrupted dump", replaceIn(treeBase, `"dumps":`, `"next":"x","dumps":`)}, {"base with planned pages", replaceIn(treeBase, `"path":`, `"next":true,"path":`)},
	{"base with a path outside", replaceIn(treeBase, `"notes/plain.md"`, `"../plain.md"`)}, {"base with two paths", replaceIn(treeBase, `"notes/plain.md"`, `"notes/exact.md"`)},
	{"tree removed", func(t *testing.T, m *faultfs.Mem) { ok(t, m.Rename("/tree", "/moved")) }},
	{"file for the tree", func(t *testing.T, m *faultfs.Mem) {
		ok(t, m.Rename("/tree", "/moved"))
		m.WriteFile("/tree", nil, 0o600)
	}},
	{"FIFO for the tree", func(t *testing.T, m *faultfs.Mem) { ok(t, m.Rename("/tree", "/moved")); m.Mkfifo("/tree") }},
	{"link for the tree", func(t *testing.T, m *faultfs.Mem) { ok(t, m.Rename("/tree", "/moved")); m.Symlink("moved", "/tree") }},
	{"dangling link for the tree", func(t *testing.T, m *faultfs.Mem) { ok(t, m.Rename("/tree", "/moved")); m.Symlink("none", "/tree") }},
}

func appendTo(t *testing.T, m *faultfs.Mem, file, text string) {
	m.WriteFile(file, append(memFile(t, m, file), text...), 0o600)
}

// The files of the dump of reportTree.
const (
	treeRecordID = "00000000000000000000000000000001"
	treeManifest = "/tree/.crabmem.json"
	treeRecord   = "/tree/.crabmem/" + treeRecordID + ".json"
	treeBase     = "/m.db-trees/00000000000000000000000000000002.json"
)

func replaceIn(file, old, new string) func(t *testing.T, m *faultfs.Mem) {
	return func(t *testing.T, m *faultfs.Mem) {
		text := string(memFile(t, m, file))
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not in %.200s", old, text)
		}
		m.WriteFile(file, []byte(strings.ReplaceAll(text, old, new)), 0o600)
	}
}

var update = flag.Bool("update", false, "write testdata/errors.txt")

// TestErrorsOfChangedTrees uses changed trees. A use that fails changes no entry. The
// errors of a load and of a dump are those of a file.
func TestErrorsOfChangedTrees(t *testing.T) {
	race.Skip(t)
	var out bytes.Buffer
	scene := reportTree(t)
	for _, c := range treeChanges {
		for _, use := range treeUses {
			m := scene.Kill()
			c.do(t, m)
			s := opened(t, "/m.db", reportOptions(m), 8)
			before := slices.Collect(s.All())
			_, err := use.do(s)
			if err != nil && use.name != "merge and dump" && !slices.EqualFunc(before, slices.Collect(s.All()), crmem.Entry.Equal) {
				t.Errorf("%s, %s: the entries changed: %v", c.name, use.name, err)
			}
			if err != nil && (use.name == "load" || use.name == "dump") {
				fmt.Fprintf(&out, "%s, %s: %v\n", c.name, use.name, err)
			}
			ok(t, s.Close())
		}
	}
	got := regexp.MustCompile(`[0-9a-f]{32}`).ReplaceAll(out.Bytes(), []byte("ID"))
	const file = "testdata/errors.txt"
	if *update {
		ok(t, os.MkdirAll("testdata", 0o777))
		ok(t, os.WriteFile(file, got, 0o666))
	}
	if d := cmp.Diff(string(must(os.ReadFile(file))), string(got)); d != "" {
		t.Errorf("errors (-want +got); run with -update to write %s:\n%s", file, d)
	}
}
