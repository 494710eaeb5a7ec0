package tree_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/golden"
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

// treeUses are uses of the store and the tree.
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

// treeState describes the entries of the store and the files of the tree.
func treeState(t *testing.T, m *faultfs.Mem) map[string]string {
	t.Helper()
	m = m.Kill()
	state := map[string]string{}
	s, err := crmem.Open("/m.db", reportOptions(m))
	ok(t, err)
	for e := range s.Snapshot().All() {
		state["entry "+e.Name] = fmt.Sprintf("%+v", e)
	}
	identity := s.Identity()
	ok(t, s.Close())
	var visit func(dir string)
	visit = func(dir string) {
		m.Chmod(dir, 0o700)
		for _, d := range must(m.ReadDir(dir)) {
			name := dir + "/" + d.Name()
			switch {
			case d.IsDir():
				state[name] = "directory"
				visit(name)
			case d.Type().IsRegular():
				m.Chmod(name, 0o600)
				text := strings.ReplaceAll(string(memFile(t, m, name)), identity, "<store>")
				sum := sha256.Sum256([]byte(text))
				state[name] = fmt.Sprintf("%v %x", must(d.Info()).Mode(), sum[:4])
			default:
				state[name] = d.Type().String()
			}
		}
	}
	for _, dir := range []string{"/tree", "/m.db-trees"} {
		if fi, err := m.Lstat(dir); err == nil && fi.IsDir() {
			visit(dir)
		}
	}
	return state
}

// stateChanges lists what differs between two states.
func stateChanges(before, after map[string]string) string {
	var b strings.Builder
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if before[name] != after[name] {
			fmt.Fprintf(&b, "%.200q: %.300q\n", name, after[name])
		}
	}
	return b.String()
}

// useTree opens the store, uses it, and describes the result and what changed.
func useTree(t *testing.T, m *faultfs.Mem, use func(*crmem.Store) (any, error), fault func()) string {
	t.Helper()
	before := treeState(t, m)
	CountIDs(100)
	s, err := crmem.Open("/m.db", reportOptions(m))
	ok(t, err)
	fault()
	result, err := use(s)
	m.Hook = nil
	text := fmt.Sprintf("%v", err)
	for _, e := range []error{ErrTree, ErrEdited, ErrChanged, crmem.ErrStale, crmem.ErrInvalid, fs.ErrNotExist, syscall.EIO} {
		if errors.Is(err, e) {
			text += fmt.Sprintf(" [%.40v]", e)
		}
	}
	if e, is := errors.AsType[*Error](err); is {
		text += fmt.Sprintf(" line %d", e.Line)
	}
	b, jerr := json.Marshal(result)
	ok(t, jerr)
	if s.Close() != nil {
		text += "\nclose fails"
	}
	report := text + "\n" + string(b) + "\n" + stateChanges(before, treeState(t, m))
	if len(report) > 4000 {
		sum := sha256.Sum256([]byte(report))
		report = fmt.Sprintf("%.2000s… %d bytes %x", report, len(report), sum[:4])
	}
	return strings.ToValidUTF8(report, "?")
}

// pageTexts are texts of a page.
func pageTexts(text string) [][2]string {
	var list [][2]string
	add := func(title, text string) { list = append(list, [2]string{title, text}) }
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		with := func(title string, lines ...string) {
			add(fmt.Sprintf("line %d %s", i+1, title), strings.Join(slices.Concat(list0(text, i), lines, listFrom(text, i+1)), ""))
		}
		with("removed")
		with("twice", line, line)
		with("after text", "text\n", line)
		with("after an item", "<li>x</li>\n", line)
		with("after a row", "<dt>Other</dt><dd>x</dd>\n", line)
		with("without its end", strings.TrimSuffix(line, "\n"))
		with("in upper case", strings.ToUpper(line))
		with("with CRLF", strings.TrimSuffix(line, "\n")+"\r\n")
		with("after a comment", "<!-- c -->", line)
		with("after a tag", "<p>", line)
		with("after an end tag", "</p>", line)
	}
	for _, row := range []string{
		"<dt>ID</dt><dd>x</dd>", "<dt>ID</dt><dd>0</dd>", "<dt>ID</dt><dd>1</dd>", "<dt>ID</dt><dd>99</dd>", "<dt>ID</dt><dd>18446744073709551615</dd>", "<dt>ID</dt><dd>18446744073709551616</dd>", "<dt>ID</dt><dd><ul><li>3</li></ul></dd>",
		`<dt>Name</dt><dd>"x\u00e9"</dd>`, `<dt>Name</dt><dd>"x</dd>`, `<dt>Name</dt><dd></dd>`, `<dt>Name</dt><dd>plain</dd>`, `<dt>Name</dt><dd>exact</dd>`, `<dt>Name</dt><dd>"` + strings.Repeat("n", 300) + `</dd>`,
		"<dt>Created</dt><dd><time datetime=\"2020-01-02T03:04:05Z\">2020-01-02T03:04:05Z</time></dd>", "<dt>Created</dt><dd><time datetime=\"2020-01-02\">other</time></dd>", "<dt>Created</dt><dd>2020-01-02T03:04:05Z</dd>",
		"<dt>Created</dt><dd><time datetime=\"1969-12-31T23:59:59Z\"></time></dd>", "<dt>Created</dt><dd><time datetime=\"1970-01-01T00:00:00Z\" datetime=\"2000-01-01T00:00:00Z\"></time></dd>", "<dt>Created</dt><dd><time>x</time></dd>",
		"<dt>Created, unix seconds</dt><dd>253402300800</dd>", "<dt>Created, unix seconds</dt><dd>x</dd>", "<dt>Created</dt><dd><time datetime=\"9999-12-31T23:59:59Z\">9999-12-31T23:59:59Z</time></dd><dt>Created, unix seconds</dt><dd>253402300800</dd>",
		"<dt>Content</dt><dd>verbatim</dd>", "<dt>Content</dt><dd>verbatim, no final newline</dd>", "<dt>Content</dt><dd>verbatim, CRLF</dd>", "<dt>Content</dt><dd>verbatim, no final newline, CRLF</dd>", "<dt>Content</dt><dd>CRLF</dd>", "<dt>Content</dt><dd>other</dd>", "<dt>Content</dt><dd></dd>",
		"<dt>Aliases</dt><dd>x</dd>", "<dt>Aliases</dt><dd><ul><li>a<li>b</ul></dd>", "<dt>Aliases</dt><dd><ul></ul></dd>", "<dt>Aliases</dt><dd><ul><li></li></ul></dd>", "<dt>Aliases</dt><dd><ul><li>a</li><li>a</li></ul></dd>", "<dt>Aliases, exact</dt><dd><ul><li>\" a\"</li></ul></dd>",
		"<dt>Aliases, exact</dt><dd><ul><li>\"x</li></ul></dd>", "<dt>Aliases, exact</dt><dd><ul><li>\"a\\r\\n\"</li></ul></dd><dt>Aliases</dt><dd><ul><li>a</li></ul></dd>", "<dt>Aliases, exact</dt><dd><ul><li>\"a\"</li></ul></dd><dt>Aliases</dt><dd><ul><li>b</li></ul></dd>", "<dt>Other</dt><dd>x</dd>", "<dt></dt><dd>x</dd>", "<dd>x</dd>",
		"<div>", "<DL>", "&amp;", "<!DOCTYPE x>", "<?x?>", "<li>x</li>", "<time>x</time>", "<dt>ID</dt><dd>7</dd><dt> ID </dt><dd>7</dd>", "<dt>" + strings.Repeat("t", 79) + "</dt>", "<dt>Name</dt><dd>\"" + strings.Repeat("é", 50) + "</dd>",
	} {
		for _, body := range []string{"\n\nbody\n", "\r\n\r\n\r\nbody \r\n", "body"} {
			add(fmt.Sprintf("row %.60q body %q", row, body), "<div id=\"meta\">\n<dl>\n"+row+"\n</dl>\n</div>"+body)
		}
	}
	for _, body := range []string{"", "\n", "body", "\n\nbody", "\ufeff<div id=\"meta\"></div>\nx", "<div id=\"meta\">", "<div id=\"meta\">\n</div>", " <div id=\"meta\"></div>x", "\xff", "<div id=\"meta\">\n\n\xff", "a\x00b", "\ufeff\xff", "</div>"} {
		add(fmt.Sprintf("page %q", body), body)
	}
	return list
}

func list0(text string, i int) []string    { return strings.SplitAfter(text, "\n")[:i] }
func listFrom(text string, i int) []string { return strings.SplitAfter(text, "\n")[i:] }

// TestReportsOfPages compares how each page is loaded.
func TestReportsOfPages(t *testing.T) {
	var r golden.Reports
	scene := reportTree(t)
	for _, name := range []string{"plain", "exact", "changed"} {
		file := "/tree/notes/" + name + ".md"
		for _, p := range pageTexts(string(memFile(t, scene, file))) {
			if name != "plain" && (strings.HasPrefix(p[0], "row") || strings.HasPrefix(p[0], "page")) {
				continue
			}
			m := scene.Kill()
			m.WriteFile(file, []byte(p[1]), 0o600)
			r.Add(name+" "+p[0], useTree(t, m, treeUses[2].do, func() {}))
		}
	}
	r.Compare(t, "testdata/reports/pages.txt.gz")
}

// TestReportsOfTrees compares the results of each use of changed trees.
func TestReportsOfTrees(t *testing.T) {
	var r golden.Reports
	scene := reportTree(t)
	for _, c := range treeChanges {
		for _, use := range treeUses {
			m := scene.Kill()
			c.do(t, m)
			r.Add(c.name+": "+use.name, useTree(t, m, use.do, func() {}))
		}
	}
	r.Compare(t, "testdata/reports/trees.txt.gz")
}

// TestReportsOfFailedCalls compares the results of uses of a tree with conflicts if
// a call of the file system fails.
func TestReportsOfFailedCalls(t *testing.T) {
	var r golden.Reports
	scene := reportTree(t)
	treeChanges[3].do(t, scene)
	m := scene
	m.WriteFile("/tree/notes/..plain.md12", nil, 0o600)
	for _, i := range []int{0, 2, 5, 7} {
		use := treeUses[i]
		for n := 1; ; n++ {
			m := scene.Kill()
			seen, which := 0, ""
			text := useTree(t, m, use.do, func() {
				m.Hook = func(c faultfs.Call) error {
					if !strings.HasPrefix(c.Name, "/tree") && !strings.HasPrefix(c.Name, "/m.db-trees") {
						return nil
					}
					if seen++; seen == n {
						which = c.Op + " " + c.Name
						return []error{syscall.EIO, &faultfs.Fault{Err: syscall.EIO, Done: true}, fs.ErrNotExist}[n%3]
					}
					return nil
				}
			})
			r.Add(fmt.Sprintf("%s: %d", use.name, n), which+"\n"+text)
			if which == "" {
				break
			}
		}
	}
	r.Compare(t, "testdata/reports/failed.txt.gz")
}

// TestReportsOfNames compares the files that a dump of entries with odd names, times,
// and texts writes.
func TestReportsOfNames(t *testing.T) {
	var r golden.Reports
	names := []string{"a", "A", "a.md", ".a", "..", "a/b", "a\\b", "a:b", "con", "CON.x", "nul", "a ", "a.", " a", "é", "e\u0301", "É", "ß", "ss", "İ", "i", "a\u200bb", "a\nb", "a\x01b", "a*b?", "\"a\"", "<a>", "a|b", "aux", "com1", "com10", "lpt9", "index", "README", "SUMMARY", "-", "_", "~", "#a", "[a](b)", "`a`", "\u202ea", "日本", "😀", "a%b", "a+b", "a&b", "{{a}}"}
	for _, n := range []int{60, 61, 62, 63, 64, 65, 100, 120, 128, 200, 240, 250, 251, 252, 253, 254, 255, 256} {
		names = append(names, strings.Repeat("n", n), strings.Repeat("é", n/2)+strings.Repeat("e", n%2))
	}
	times := []uint64{0, 1, 1_760_000_000, 253402300799, 253402300800, math.MaxInt64, math.MaxUint64}
	texts := []string{"", "text", "text\n", "text\n\n", "\ntext", " text", "text ", "a\r\nb", "\r\n", "\n", "</div>", "<div id=\"meta\">", "{{#include x}}", "a\x00", "text\r"}
	aliases := [][]string{nil, {"a"}, {" a"}, {""}, {"a\nb"}, {"{{"}, {"a\x00"}, {"<b>&"}, {"\"q\""}}
	var entries []crmem.Entry
	for i, name := range names {
		entries = append(entries, crmem.Entry{ID: uint64(i + 1), Name: name, Kind: crmem.Kind(i % 2), Content: texts[i%len(texts)], CreatedAt: times[i%len(times)], Aliases: aliases[i%len(aliases)]})
	}
	m := faultfs.NewMem()
	CountIDs(0)
	report, err := DumpSnapshot(m, "/tree", snapshotOf(t, uint64(len(names)+1), entries...), DumpOptionsFor("/tree"))
	r.Addf("dump", "%+v %v", report, err)
	all, _ := files(t, m, "/tree")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r.Add(name, all[name])
	}
	s := opened(t, "/m.db", reportOptions(m), 0)
	loaded, err := Load(s, "/tree", LoadOptionsFor("/tree"))
	r.Addf("load", "%+v %v", loaded, err)
	for e := range s.Snapshot().All() {
		r.Addf("entry", "%+v", e)
	}
	ok(t, s.Close())
	r.Compare(t, "testdata/reports/names.txt.gz")
}
