//go:build unix

package tree_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/bench/gate"
	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/fuzz/race"
)

// scene is a real directory that a row puts things into.
type scene struct {
	t   *testing.T
	dir string
}

func (s scene) path(name string) string { return filepath.Join(s.dir, name) }

func (s scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s scene) file(name, text string) {
	s.t.Helper()
	s.must(os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
	s.must(os.WriteFile(s.path(name), []byte(text), 0o600))
}

func (s scene) link(target, name string) {
	s.t.Helper()
	s.must(os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
	s.must(os.Symlink(target, s.path(name)))
}

func (s scene) fifo(name string) {
	s.t.Helper()
	s.must(os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
	s.must(syscall.Mkfifo(s.path(name), 0o600))
}

func (s scene) mkdir(name string) {
	s.t.Helper()
	s.must(os.MkdirAll(s.path(name), 0o755))
}

func (s scene) sparse(name string, size int64) {
	s.t.Helper()
	s.file(name, "")
	s.must(os.Truncate(s.path(name), size))
}

func (s scene) dump(o *DumpOptions, entries ...Entry) (DumpReport, error) {
	s.t.Helper()
	if o == nil {
		o = &DumpOptions{}
	}
	o.Bases = BasesFor(s.dir)
	return DumpSnapshot(vfs.OS{}, s.dir, snapshotOf(s.t, 10, entries...), o)
}

func (s scene) dumped(entries ...Entry) {
	s.t.Helper()
	_, err := s.dump(nil, entries...)
	s.must(err)
}

const recordName = ".crabmem/0123456789abcdef0123456789abcdef.json"

// identified writes a tree with an identity and one page.
func (s scene) identified() {
	s.file("notes/a.md", "x")
	s.file(".crabmem.json", `{"format":"crabmem tree","version":2,"tree":"0123456789abcdef0123456789abcdef"}`)
}

// records returns the records of dumps.
func (s scene) records() (names []string) {
	s.t.Helper()
	list, err := os.ReadDir(s.path(".crabmem"))
	s.must(err)
	for _, d := range list {
		names = append(names, ".crabmem/"+d.Name())
	}
	return names
}

func (s scene) text(name string) string {
	s.t.Helper()
	b, err := os.ReadFile(s.path(name))
	s.must(err)
	return string(b)
}

func page(rows, body string) string {
	return "<div id=\"meta\">\n<dl>\n  <dt>Created</dt>\n  <dd><time datetime=\"2026-04-14T10:23:45Z\">2026-04-14T10:23:45Z</time></dd>\n" + rows + "</dl>\n</div>\n\n" + body
}

func rowOf(title, value string) string {
	return "  <dt>" + title + "</dt>\n  <dd>" + value + "</dd>\n"
}

func aliasRow(items ...string) string {
	return "  <dt>Aliases</dt>\n  <dd>\n    <ul>\n      <li>" + strings.Join(items, "</li>\n      <li>") + "</li>\n    </ul>\n  </dd>\n"
}

// hostileLoads are trees that a loader must handle with care. want is the
// result: "name|content|alias|alias" in the order of ids. fail is in the error,
// which must also contain path; warn is in a warning.
var hostileLoads = []struct {
	name             string
	make             func(s scene)
	want             []string
	fail, path, warn string
}{
	{name: "missing directory", make: func(s scene) { s.must(os.Remove(s.dir)) }, fail: "no such directory", path: "/tree"},
	{name: "empty directory", make: func(s scene) {}, fail: "no pages", path: "/tree"},
	{name: "empty notes", make: func(s scene) { s.mkdir("notes") }, fail: "no pages", path: "/tree"},
	{name: "file for a tree", make: func(s scene) { s.must(os.Remove(s.dir)); s.must(os.WriteFile(s.dir, nil, 0o600)) }, fail: "not a directory", path: "/tree"},
	{name: "notes is a file", make: func(s scene) { s.file("notes", "x") }, fail: "is a file", path: "notes"},
	{name: "notes is a link to a directory", make: func(s scene) { s.file("else/a.md", "x"); s.link("else", "notes") }, fail: "is a symbolic link", path: "notes"},
	{name: "notes is a link outside", make: func(s scene) { s.link("/etc", "notes") }, fail: "is a symbolic link", path: "notes"},
	{name: "page is a link inside", make: func(s scene) { s.file("notes/a.md", "x"); s.link("a.md", "notes/b.md") }, fail: "is a symbolic link", path: "notes/b.md"},
	{name: "page is a link outside", make: func(s scene) { s.link("/etc/passwd", "notes/a.md") }, fail: "is a symbolic link", path: "notes/a.md"},
	{name: "page is a dangling link", make: func(s scene) { s.link("nowhere", "notes/a.md") }, fail: "is a symbolic link", path: "notes/a.md"},
	{name: "page is a FIFO", make: func(s scene) { s.fifo("archives/a.md") }, fail: "is a FIFO", path: "archives/a.md"},
	{name: "page is a device", make: func(s scene) {
		s.mkdir("notes")
		if err := syscall.Mknod(s.path("notes/a.md"), syscall.S_IFCHR|0o600, 0x103); err != nil {
			s.t.Skip("needs root: ", err)
		}
	}, fail: "is a device", path: "notes/a.md"},
	{name: "page is a directory", make: func(s scene) { s.file("notes/a.md/b.md", "x") }, fail: "is a directory", path: "notes/a.md"},
	{name: "pages in a directory below", make: func(s scene) { s.file("notes/a.md", "x"); s.file("notes/more/b.md", "x") }, fail: "is a directory", path: "notes/more"},
	{name: "hard link", make: func(s scene) {
		s.file("a", "linked")
		s.mkdir("notes")
		s.must(os.Link(s.path("a"), s.path("notes/a.md")))
	}, want: []string{"a|linked"}},
	{name: "1 GiB page", make: func(s scene) { s.sparse("notes/a.md", 1<<30) }, fail: "1073741824 bytes, at most", path: "notes/a.md"},
	{name: "4 GiB sparse page", make: func(s scene) { s.sparse("notes/a.md", 4<<30) }, fail: "more than", path: "notes/a.md"},
	{name: "more than the store takes", make: func(s scene) {
		for _, n := range []string{"a", "b", "c"} {
			s.file("notes/"+n+".md", strings.Repeat("x", 400_000))
		}
	}, fail: "more than 1000000 bytes", path: "notes/c.md"},
	{name: "content over the limit", make: func(s scene) { s.file("notes/a.md", strings.Repeat("x", MaxContent+1)) }, fail: "content of 8388609 bytes", path: "notes/a.md"},
	{name: "10 MB of aliases", make: func(s scene) {
		s.file("notes/a.md", page(aliasRow(strings.Repeat("alias</li><li>", 700_000)), "x"))
	}, fail: "aliases, at most 1024", path: "notes/a.md"},
	{name: "alias over the limit", make: func(s scene) { s.file("notes/a.md", page(aliasRow(strings.Repeat("x", 1025)), "x")) }, fail: "alias of 1025 bytes", path: "notes/a.md"},
	{name: "not UTF-8", make: func(s scene) { s.file("notes/a.md", "one\ntwo\nthr\xffee") }, fail: "a.md:3: the page is not UTF-8", path: "notes/a.md"},
	{name: "file name not UTF-8", make: func(s scene) { s.file("notes/a\xff.md", "x") }, fail: "file name is not UTF-8", path: "notes/a\xff.md"},
	{name: "BOM and metadata", make: func(s scene) { s.file("notes/a.md", "\ufeff"+page(aliasRow("b"), "text")) }, want: []string{"a|text|b"}},
	{name: "BOM and text", make: func(s scene) { s.file("notes/a.md", "\ufefftext\n") }, want: []string{"a|text"}},
	{name: "two BOMs", make: func(s scene) { s.file("notes/a.md", "\ufeff\ufefftext\n") }, want: []string{"a|\ufefftext"}},
	{name: "CRLF", make: func(s scene) {
		s.file("notes/a.md", strings.ReplaceAll(page(aliasRow("b", "c"), "one\n\ntwo\n"), "\n", "\r\n"))
	}, want: []string{"a|one\n\ntwo|b|c"}},
	{name: "CRLF and verbatim", make: func(s scene) {
		s.file("notes/a.md", strings.ReplaceAll(page(rowOf("Content", "verbatim, no final newline"), "\n  one\ntwo  \n"), "\n", "\r\n"))
	}, want: []string{"a|\n  one\ntwo  "}},
	{name: "CRLF of the content's own", make: func(s scene) {
		s.file("notes/a.md", page(rowOf("Content", "verbatim, CRLF"), "one\r\ntwo\r\n"))
	}, want: []string{"a|one\r\ntwo\r\n"}},
	{name: "CRLF twice", make: func(s scene) {
		s.file("notes/a.md", strings.ReplaceAll(page(rowOf("Content", "verbatim, no final newline, CRLF"), "one\ntwo\n"), "\n", "\r\n"))
	}, want: []string{"a|one\r\ntwo"}},
	{name: "no metadata", make: func(s scene) { s.file("notes/a.md", "\n  text  \n\n") }, want: []string{"a|\n  text"}},
	{name: "empty page", make: func(s scene) { s.file("notes/a.md", "") }, want: []string{"a|"}},
	{name: "metadata not at the start", make: func(s scene) { s.file("notes/a.md", " "+page("", "text")) }, want: []string{"a| " + page("", "text")}},
	{name: "no empty line after the metadata", make: func(s scene) {
		s.file("notes/a.md", strings.Replace(page("", "text"), "</div>\n\n", "</div>\n", 1))
	}, want: []string{"a|text"}},
	{name: "text on the line of </div>", make: func(s scene) {
		s.file("notes/a.md", strings.Replace(page("", "more"), "</div>\n\n", "</div> text ", 1))
	}, want: []string{"a| text more"}},
	{name: "metadata without an end", make: func(s scene) { s.file("notes/a.md", "<div id=\"meta\">\n<dl>\n\ntext\n") }, want: []string{"a|<div id=\"meta\">\n<dl>\n\ntext"}, warn: "notes/a.md: the metadata block has no </div>"},
	{name: "metadata without an end, and a </div> in the text", make: func(s scene) { s.file("notes/a.md", "<div id=\"meta\">\n\n```html\n</div>\n```\n") }, fail: "a.md:3: text outside the rows of the metadata block", path: "notes/a.md"},
	{name: "two metadata blocks", make: func(s scene) { s.file("notes/a.md", page("", page("", "text"))) }, want: []string{"a|" + page("", "text")}},
	{name: "metadata in the content", make: func(s scene) { s.file("notes/a.md", page("", "see </div>\n<div id=\"meta\">x</div>")) }, want: []string{"a|see </div>\n<div id=\"meta\">x</div>"}},
	{name: "text in the metadata", make: func(s scene) { s.file("notes/a.md", page("</dl>\nhello\n<dl>\n", "text")) }, fail: "a.md:6: text outside the rows of the metadata block: \"hello\"", path: "notes/a.md"},
	{name: "row of another author", make: func(s scene) { s.file("notes/a.md", page(rowOf("Tags", "x"), "text")) }, fail: "a.md:5: unknown row \"Tags\"", path: "notes/a.md"},
	{name: "row twice", make: func(s scene) { s.file("notes/a.md", page(rowOf("ID", "1")+rowOf("ID", "2"), "text")) }, fail: "a.md:7: duplicate row \"ID\"", path: "notes/a.md"},
	{name: "HTML in an alias", make: func(s scene) { s.file("notes/a.md", page(aliasRow("<img src=x onerror=alert(1)>"), "text")) }, fail: "a.md:8: <img> in the metadata block", path: "notes/a.md"},
	{name: "script in the metadata", make: func(s scene) { s.file("notes/a.md", page("<script>x</script>", "text")) }, fail: "a.md:5: <script> in the metadata block", path: "notes/a.md"},
	{name: "entities once", make: func(s scene) { s.file("notes/a.md", page(aliasRow("&amp;lt;", "&lt;b&gt;", "&amp;amp;"), "text")) }, want: []string{"a|text|&lt;|<b>|&amp;"}},
	{name: "aliases outside of a list", make: func(s scene) { s.file("notes/a.md", page(rowOf("Aliases", "x, y"), "text")) }, fail: "write every alias as <li>", path: "notes/a.md"},
	{name: "empty alias", make: func(s scene) { s.file("notes/a.md", page(aliasRow("x", " "), "text")) }, fail: "empty alias", path: "notes/a.md"},
	{name: "alias lists that differ", make: func(s scene) {
		s.file("notes/a.md", page(rowOf("Aliases, exact", "<ul><li>\" x\"</li></ul>")+aliasRow("y"), "text"))
	}, fail: "must contain the same aliases, but differ", path: "notes/a.md"},
	{name: "blank lines in a reference's alias", make: func(s scene) { s.file("notes/a.md", page(aliasRow("one\n\ntwo"), "text")) }, want: []string{"a|text|one\n\ntwo"}},
	{name: "bogus date", make: func(s scene) {
		s.file("notes/a.md", strings.ReplaceAll(page("", "text"), "2026-04-14T10:23:45Z", "yesterday"))
	}, want: []string{"a|text"}, warn: "\"yesterday\" is not a date"},
	{name: "date before 1970", make: func(s scene) {
		s.file("notes/a.md", strings.ReplaceAll(page("", "text"), "2026-04-14", "1969-12-31"))
	}, want: []string{"a|text"}, warn: "is not a date since 1970"},
	{name: "date shown differs", make: func(s scene) {
		s.file("notes/a.md", strings.Replace(page("", "text"), ">2026-04-14T10:23:45Z<", ">in April<", 1))
	}, want: []string{"a|text"}, warn: "load uses the attribute \"2026-04-14T10:23:45Z\""},
	{name: "seconds that are not a number", make: func(s scene) { s.file("notes/a.md", page(rowOf("Created, unix seconds", "x"), "text")) }, fail: "is not a number of seconds", path: "notes/a.md"},
	{name: "bogus id", make: func(s scene) { s.file("notes/a.md", page(rowOf("ID", "-1"), "text")) }, fail: "\"-1\" is not an ID", path: "notes/a.md"},
	{name: "id without a successor", make: func(s scene) { s.file("notes/a.md", page(rowOf("ID", "18446744073709551615"), "text")) }, want: []string{"a|text"}},
	{name: "bogus content rule", make: func(s scene) { s.file("notes/a.md", page(rowOf("Content", "trimmed"), "text")) }, fail: "want verbatim, no final newline, or CRLF", path: "notes/a.md"},
	{name: "name row", make: func(s scene) { s.file("notes/a.md", page(rowOf("Name", "../../etc/passwd"), "text")) }, want: []string{"../../etc/passwd|text"}},
	{name: "name row, quoted", make: func(s scene) { s.file("notes/a.md", page(rowOf("Name", `"a\n&lt;b&gt; "`), "text")) }, want: []string{"a\n<b> |text"}},
	{name: "name row, badly quoted", make: func(s scene) { s.file("notes/a.md", page(rowOf("Name", `"a`), "text")) }, fail: "is not a JSON string", path: "notes/a.md"},
	{name: "name with NUL", make: func(s scene) { s.file("notes/a.md", page(rowOf("Name", `"a\u0000"`), "text")) }, fail: "NUL", path: "notes/a.md"},
	{name: "name over the limit", make: func(s scene) { s.file("notes/a.md", page(rowOf("Name", strings.Repeat("x", 1025)), "text")) }, fail: "name of 1025 bytes", path: "notes/a.md"},
	{name: "name of two pages", make: func(s scene) {
		s.file("notes/a.md", page(rowOf("Name", "x"), "text"))
		s.file("notes/b.md", page(rowOf("Name", "x"), "text"))
	}, fail: "the name \"x\" is also the name of notes/a.md", path: "notes/b.md"},
	{name: "name of two kinds", make: func(s scene) { s.file("notes/a.md", "x"); s.file("archives/a.md", "y") }, fail: "the name \"a\" is also the name of notes/a.md", path: "archives/a.md"},
	{name: "copies of a page", make: func(s scene) {
		s.file("notes/a.md", page(rowOf("ID", "7"), "one"))
		s.file("notes/b.md", page(rowOf("ID", "7"), "two"))
	}, want: []string{"a|one", "b|two"}, warn: "\"b\" has the ID of \"a\", 7"},
	{name: "case twins", make: func(s scene) { s.file("notes/Deploy.md", "one"); s.file("notes/deploy.md", "two") }, want: []string{"Deploy|one", "deploy|two"}},
	{name: "normal form twins", make: func(s scene) { s.file("notes/e\u0301.md", "one"); s.file("notes/é.md", "two") }, want: []string{"e\u0301|one", "é|two"}},
	{name: "Markdown in a file name", make: func(s scene) { s.file("notes/](javascript:alert(1)).md", "x") }, want: []string{"](javascript:alert(1))|x"}},
	{name: "dots in a file name", make: func(s scene) { s.file("notes/v1.2.md", "x"); s.file("notes/.hidden.md", "y") }, want: []string{".hidden|y", "v1.2|x"}},
	{name: "other files", make: func(s scene) {
		s.file("notes/a.md", "x")
		s.file("notes/b.txt", "y")
		s.file("notes/c.MD", "z")
		s.file("notes/.DS_Store", "\xff")
		s.link("/etc", "notes/d")
		s.file("README.md", "r")
	}, want: []string{"a|x"}, warn: "notes/b.txt: ignored: not a page"},
	{name: "pages at the top", make: func(s scene) {
		s.file("notes/a.md", "x")
		s.file("b.md", "y")
		s.file("SUMMARY.md", "s")
		s.file(".c.tmp", "z")
	}, want: []string{"a|x"}, warn: `"b.md": ignored: pages are in notes/ and archives/`},
	{name: "unfinished dump", make: func(s scene) {
		s.dumped(Entry{ID: 1, Name: "a", Content: "x"})
		for _, r := range s.records() {
			s.file(r, strings.Replace(s.text(r), `"done"`, `"unfinished"`, 1))
		}
	}, fail: "the last dump of this tree was interrupted: run crabmem dump to complete it", path: ".crabmem/"},
	{name: "records are a file", make: func(s scene) { s.identified(); s.file(".crabmem", "x") }, fail: "is a file, not a directory", path: ".crabmem"},
	{name: "records are a link", make: func(s scene) { s.identified(); s.link("/etc", ".crabmem") }, fail: "is a symbolic link, not a directory", path: ".crabmem"},
	{name: "record is a link", make: func(s scene) { s.identified(); s.mkdir(".crabmem"); s.link("/etc/passwd", recordName) }, fail: "not a regular file", path: recordName},
	{name: "record is a FIFO", make: func(s scene) { s.identified(); s.mkdir(".crabmem"); s.fifo(recordName) }, fail: "not a regular file", path: recordName},
	{name: "huge record", make: func(s scene) { s.identified(); s.sparse(recordName, 1<<30) }, fail: "more than the limit", path: recordName},
	{name: "broken record", make: func(s scene) { s.identified(); s.file(recordName, "{\n\n]") }, fail: recordName + ":3", path: recordName},
	{name: "record of another name", make: func(s scene) { s.identified(); s.file(recordName, `{"dump":"1","state":"done"}`) }, fail: "not a record of this name", path: recordName},
	{name: "record in no known state", make: func(s scene) {
		s.identified()
		s.file(recordName, `{"dump":"0123456789abcdef0123456789abcdef","state":"?"}`)
	}, fail: "state \"?\"", path: recordName},
	{name: "other files next to records", make: func(s scene) {
		s.identified()
		s.file(".crabmem/README", "x")
		s.link("/etc/passwd", ".crabmem/x.json")
	}, want: []string{"a|x"}},
	{name: "broken manifest", make: func(s scene) { s.file("notes/a.md", "x"); s.file(".crabmem.json", "{\n\n]") }, fail: ".crabmem.json:3", path: ".crabmem.json"},
	{name: "manifest of another program", make: func(s scene) { s.file("notes/a.md", "x"); s.file(".crabmem.json", "{}") }, fail: "format \"\"", path: ".crabmem.json"},
	{name: "manifest of a later version", make: func(s scene) {
		s.file("notes/a.md", "x")
		s.file(".crabmem.json", `{"format":"crabmem tree","version":4,"tree":"0123456789abcdef0123456789abcdef"}`)
	}, fail: "version 4, this program reads versions 2 and 3: use the newer program", path: ".crabmem.json"},
	{name: "manifest without an identity", make: func(s scene) {
		s.file("notes/a.md", "x")
		s.file(".crabmem.json", `{"format":"crabmem tree","version":2,"tree":"../../etc"}`)
	}, fail: "tree \"../../etc\" is not 32 hexadecimal digits", path: ".crabmem.json"},
	{name: "manifest is a link", make: func(s scene) { s.file("notes/a.md", "x"); s.link("/etc/passwd", ".crabmem.json") }, fail: "not a regular file", path: ".crabmem.json"},
	{name: "manifest is a FIFO", make: func(s scene) { s.file("notes/a.md", "x"); s.fifo(".crabmem.json") }, fail: "not a regular file", path: ".crabmem.json"},
	{name: "huge manifest", make: func(s scene) { s.file("notes/a.md", "x"); s.sparse(".crabmem.json", 1<<30) }, fail: "more than the limit", path: ".crabmem.json"},
	{name: "manifest that promises pages", make: func(s scene) {
		s.dumped(Entry{ID: 1, Name: "a", Content: "x"})
		s.must(os.Remove(s.path("notes/a.md")))
	}, fail: "no pages", path: "/tree"},
	{name: "conflict that is not settled", make: func(s scene) { s.file("notes/a.md", "x"); s.file("conflicts/notes/a.md", "y") }, fail: "unresolved conflict", path: "conflicts/notes/a.md"},
	{name: "settled conflicts", make: func(s scene) { s.file("notes/a.md", "x"); s.mkdir("conflicts/notes") }, want: []string{"a|x"}},
}

const leastHostileLoads = 80

func TestHostileTreesLoad(t *testing.T) {
	race.Skip(t)
	if len(hostileLoads) < leastHostileLoads {
		t.Fatalf("%d rows, there were %d", len(hostileLoads), leastHostileLoads)
	}
	for _, row := range hostileLoads {
		t.Run(row.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tree")
			s := scene{t, dir}
			s.must(os.Mkdir(dir, 0o755))
			row.make(s)
			o := &Options{}
			if strings.HasPrefix(row.name, "more than") {
				o.MaxBytes = 1_000_000
			}
			store := New(o)
			begun := time.Now()
			report, err := Load(store, dir, nil)
			gate.Time(t, "load", begun, 20*time.Second)
			if row.fail != "" {
				if err == nil || !strings.Contains(err.Error(), row.fail) || !strings.Contains(err.Error(), row.path) {
					t.Fatalf("error %v\nwant %q and %q", err, row.path, row.fail)
				}
				if te, ok := errors.AsType[*Error](err); !ok || te.Remedy == "" {
					t.Errorf("error without a remedy: %#v", err)
				}
				if store.Len() != 0 || store.NextID() != 1 {
					t.Errorf("the store has changed")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for e := range store.All() {
				got = append(got, strings.Join(append([]string{e.Name, e.Content}, e.Aliases...), "|"))
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("loaded %q\nwant   %q", got, row.want)
			}
			if warned := strings.Join(report.Warnings, "\n"); (row.warn == "") != (warned == "") && row.name != "other files" || !strings.Contains(warned, row.warn) {
				t.Errorf("warnings %q, want %q", warned, row.warn)
			}
		})
	}
	t.Logf("hostile trees: %d", len(hostileLoads))
}

var (
	noteA = Entry{ID: 1, Name: "a", CreatedAt: april, Content: "alpha"}
	noteB = Entry{ID: 2, Name: "b", Kind: Archive, CreatedAt: april, Content: "beta"}
)

// hostileDumps are existing directories for a dump of noteA and noteB. fail is
// in the error; then no file may have changed. forced lists the files that a
// forced dump moves; nil if a forced dump fails too.
var hostileDumps = []struct {
	name   string
	make   func(s scene)
	fail   string
	path   string
	forced []string
	check  func(s scene)
}{
	{name: "missing directory", make: func(s scene) { s.must(os.Remove(s.dir)) }},
	{name: "missing parents", make: func(s scene) { s.must(os.RemoveAll(filepath.Dir(s.dir))) }},
	{name: "file for a directory", make: func(s scene) { s.must(os.Remove(s.dir)); s.must(os.WriteFile(s.dir, nil, 0o600)) }, fail: "not a directory", path: "/tree"},
	{name: "page of another author", make: func(s scene) { s.dumped(noteA); s.file("notes/mine.md", "mine") }, fail: "neither dumped nor loaded by this store: notes/mine.md", path: "/tree", forced: []string{"aside-1/notes/mine.md"}},
	{name: "page of another author at a page's path", make: func(s scene) { s.file("notes/a.md", "mine") }, fail: "neither dumped nor loaded by this store: notes/a.md", path: "/tree", forced: []string{"aside-1/notes/a.md"}},
	{name: "other file of another author", make: func(s scene) { s.file("archives/diagram.svg", "x") }, fail: "neither dumped nor loaded by this store: archives/diagram.svg", path: "/tree", forced: []string{"aside-1/archives/diagram.svg"}},
	{name: "directory of another author", make: func(s scene) { s.file("notes/more/x.md", "x") }, fail: "neither dumped nor loaded by this store: notes/more", path: "/tree", forced: []string{"aside-1/notes/more"}},
	{name: "tree of the reference", make: func(s scene) {
		s.file("notes/a.md", page("", "alpha"))
		s.file("SUMMARY.md", "# Summary\n\n# Notes\n\n- [a](notes/a.md)\n\n")
	}, fail: "neither dumped nor loaded by this store: notes/a.md:", path: "/tree", forced: []string{"aside-1/notes/a.md"}},
	{name: "edited page", make: func(s scene) {
		s.dumped(noteA)
		s.file("notes/a.md", page(rowOf("ID", "1"), "edited"))
	}, fail: "edited since the last dump or load: notes/a.md", path: "/tree", forced: []string{"aside-1/notes/a.md"}},
	{name: "edited page that the store has taken in", make: func(s scene) {
		s.dumped(Entry{ID: 1, Name: "a", Content: "old"})
		s.file("notes/a.md", page("", "\nalpha\n\n"))
	}},
	{name: "edited page that the store has taken in but for its metadata", make: func(s scene) {
		s.dumped(Entry{ID: 1, Name: "a", Content: "old"})
		s.file("notes/a.md", page(rowOf("Tags", "x"), "alpha"))
	}, fail: "edited since the last dump or load: notes/a.md", path: "/tree", forced: []string{"aside-1/notes/a.md"}},
	{name: "edited page of an entry that is gone", make: func(s scene) {
		s.dumped(Entry{ID: 9, Name: "z", Content: "z"})
		s.file("notes/z.md", "edited")
	}, fail: "edited since the last dump or load: notes/z.md", path: "/tree", forced: []string{"aside-1/notes/z.md"}},
	{name: "page of an entry that is gone", make: func(s scene) { s.dumped(Entry{ID: 9, Name: "z", Content: "z"}) }, check: func(s scene) {
		if _, err := os.Lstat(s.path("notes/z.md")); !os.IsNotExist(err) {
			s.t.Errorf("notes/z.md: %v", err)
		}
	}},
	{name: "deleted page", make: func(s scene) { s.dumped(noteA, noteB); s.must(os.Remove(s.path("notes/a.md"))) }},
	{name: "page replaced by a link", make: func(s scene) {
		s.dumped(noteA)
		s.must(os.Remove(s.path("notes/a.md")))
		s.file("victim", "victim")
		s.link("../victim", "notes/a.md")
	}, fail: "edited since the last dump or load: notes/a.md", path: "/tree", forced: []string{"aside-1/notes/a.md"}, check: func(s scene) {
		if got := s.text("victim"); got != "victim" {
			s.t.Errorf("the victim of a link is now %q", got)
		}
	}},
	{name: "page replaced by a FIFO", make: func(s scene) {
		s.dumped(noteA)
		s.must(os.Remove(s.path("notes/a.md")))
		s.fifo("notes/a.md")
	}, fail: "edited since the last dump or load: notes/a.md", path: "/tree", forced: []string{"aside-1/notes/a.md"}},
	{name: "page replaced by a directory", make: func(s scene) {
		s.dumped(noteA)
		s.must(os.Remove(s.path("notes/a.md")))
		s.mkdir("notes/a.md")
	}, fail: "edited since the last dump or load: notes/a.md", path: "/tree", forced: []string{"aside-1/notes/a.md"}},
	{name: "hard link to a page", make: func(s scene) {
		s.dumped(Entry{ID: 1, Name: "a", Content: "old"})
		s.must(os.Link(s.path("notes/a.md"), s.path("kept")))
	}, check: func(s scene) {
		if !strings.Contains(s.text("kept"), "old") {
			s.t.Errorf("the other name of a page is now %q", s.text("kept"))
		}
	}},
	{name: "SUMMARY.md is a link", make: func(s scene) { s.file("victim", "victim"); s.link("victim", "SUMMARY.md") }, fail: "neither dumped nor loaded by this store: SUMMARY.md", path: "/tree", forced: []string{"aside-1/SUMMARY.md"}, check: func(s scene) {
		if got := s.text("victim"); got != "victim" {
			s.t.Errorf("the victim of a link is now %q", got)
		}
	}},
	{name: "SUMMARY.md of another author", make: func(s scene) { s.file("SUMMARY.md", "# My book\n") }, fail: "neither dumped nor loaded by this store: SUMMARY.md", path: "/tree", forced: []string{"aside-1/SUMMARY.md"}},
	{name: "edited SUMMARY.md", make: func(s scene) { s.dumped(noteA); s.file("SUMMARY.md", "# My book\n") }, fail: "edited since the last dump or load: SUMMARY.md", path: "/tree", forced: []string{"aside-1/SUMMARY.md"}},
	{name: "notes is a link", make: func(s scene) { s.mkdir("else"); s.link("else", "notes") }, fail: "is a symbolic link", path: "notes"},
	{name: "notes is a link outside", make: func(s scene) { s.link(os.TempDir(), "notes") }, fail: "is a symbolic link", path: "notes"},
	{name: "manifest is a link", make: func(s scene) { s.link("/etc/passwd", ".crabmem.json") }, fail: "not a regular file", path: ".crabmem.json"},
	{name: "what is the user's", make: func(s scene) {
		s.dumped(noteA)
		s.file("book.toml", "[book]\ntitle = \"Mine\"\nsrc = \".\"\n")
		s.file("theme/head.hbs", "<!-- mine -->")
		s.file("notes/.DS_Store", "x")
		s.file("images/a.png", "png")
	}, check: func(s scene) {
		if s.text("book.toml") != "[book]\ntitle = \"Mine\"\nsrc = \".\"\n" || s.text("theme/head.hbs") != "<!-- mine -->" || s.text("notes/.DS_Store") != "x" || s.text("images/a.png") != "png" {
			s.t.Error("a file of the user's has changed")
		}
	}},
	{name: "book.toml is a link", make: func(s scene) { s.link("elsewhere.toml", "book.toml") }, check: func(s scene) {
		if to, err := os.Readlink(s.path("book.toml")); err != nil || to != "elsewhere.toml" {
			s.t.Errorf("book.toml: %q, %v", to, err)
		}
	}},
	{name: "readable by others", make: func(s scene) {
		s.dumped(Entry{ID: 1, Name: "a", Content: "old"})
		s.must(os.Chmod(s.path("notes/a.md"), 0o644))
	}, check: func(s scene) {
		if fi, err := os.Stat(s.path("notes/a.md")); err != nil || fi.Mode().Perm() != 0o644 {
			s.t.Errorf("notes/a.md: %v, %v", fi.Mode(), err)
		}
	}},
}

const leastHostileDumps = 27

func TestHostileTreesDump(t *testing.T) {
	if len(hostileDumps) < leastHostileDumps {
		t.Fatalf("%d rows, there were %d", len(hostileDumps), leastHostileDumps)
	}
	for _, row := range hostileDumps {
		t.Run(row.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "up", "tree")
			s := scene{t, dir}
			s.must(os.MkdirAll(dir, 0o755))
			row.make(s)
			before := treeStates(t, dir)
			report, err := s.dump(nil, noteA, noteB)
			if row.fail != "" {
				if err == nil || !strings.Contains(err.Error(), row.fail) || !strings.Contains(err.Error(), row.path) {
					t.Fatalf("error %v\nwant %q and %q", err, row.path, row.fail)
				}
				if after := treeStates(t, dir); !slices.Equal(before, after) {
					t.Fatalf("a dump that refused changed\n%q\nto\n%q", before, after)
				}
				report, err = s.dump(&DumpOptions{Force: true}, noteA, noteB)
				if row.forced == nil {
					if err == nil {
						t.Fatal("a forced dump did not refuse")
					}
					return
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(report.Aside)
			want := slices.Sorted(slices.Values(row.forced))
			if !slices.Equal(report.Aside, want) {
				t.Errorf("moved aside %q, want %q", report.Aside, want)
			}
			for _, name := range report.Aside {
				if _, err := os.Lstat(s.path(name)); err != nil {
					t.Error(err)
				}
			}
			if row.check != nil {
				row.check(s)
			}
			store := New(nil)
			if _, err := Load(store, dir, nil); err != nil {
				t.Fatal(err)
			}
			if got := slices.Collect(store.All()); len(got) != 2 || !got[0].Equal(noteA) || !got[1].Equal(noteB) {
				t.Errorf("loads to %v", got)
			}
			before = treeStates(t, dir)
			if report, err := s.dump(nil, noteA, noteB); err != nil || report.Unchanged != 2 {
				t.Errorf("the same dump again: %+v, %v", report, err)
			}
			if after := treeStates(t, dir); !slices.Equal(before, after) {
				t.Errorf("the same dump again changed\n%q\nto\n%q", before, after)
			}
		})
	}
	t.Logf("hostile directories: %d", len(hostileDumps))
}

// treeStates lists every file with its identity, size and times.
func treeStates(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	filepath.Walk(dir, func(p string, fi os.FileInfo, err error) error {
		if err != nil {
			return nil
		}
		st := fi.Sys().(*syscall.Stat_t)
		list = append(list, strings.Join([]string{p, fi.Mode().String(), fi.ModTime().String(), itoa(st.Ino), itoa(uint64(fi.Size()))}, " "))
		return nil
	})
	return list
}

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }
