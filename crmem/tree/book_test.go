package tree_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"golang.org/x/net/html"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/seed"
)

// hostileNames is a store with names and aliases that are difficult for a tree.
// Two strings are missing from the aliases, because mdbook reports them
// anywhere: NUL, and two braces, as in its directives. Old stores may contain
// both.
func hostileNames(t *testing.T, r *rand.Rand) *Snapshot {
	t.Helper()
	seen := map[string]bool{"": true}
	var entries []Entry
	add := func(name string) {
		if seen[name] || len(name) > MaxName {
			return
		}
		seen[name] = true
		id := uint64(len(entries) + 1)
		e := Entry{ID: id, Name: name, Kind: Kind(id % 2), CreatedAt: april, Content: fmt.Sprintf("Entry *%d*.\n", id)}
		for _, a := range randomAliases(r) {
			if a != "" && !strings.ContainsAny(a, "\x00{") {
				e.Aliases = append(e.Aliases, a)
			}
		}
		entries = append(entries, e)
	}
	for _, s := range hostile {
		add(s)
	}
	for len(entries) < 250 {
		add(randomText(r, 3))
	}
	return snapshotOf(t, uint64(len(entries))+1, entries...)
}

// checkBook parses SUMMARY.md strictly: only headings and lists of links, every
// link to a page, whether its target is decoded or not, and every page linked
// once.
func checkBook(t *testing.T, fsys vfs.FS, dir string, sn *Snapshot) {
	t.Helper()
	if b, err := vfs.ReadFile(fsys, dir+"/book.toml", 1<<20); err != nil || string(b) != "[book]\ntitle = \"Memory\"\nsrc = \".\"\n\n[output.html]\nadditional-css = [\"crabmem.css\"]\nsidebar-header-nav = false\n" {
		t.Fatalf("book.toml is %q, %v", b, err)
	}
	src, err := vfs.ReadFile(fsys, dir+"/SUMMARY.md", 1<<26)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for id, p := range dumped(t, fsys, dir) {
		names[p] = entryByID(sn, id).Name
	}
	doc := goldmark.DefaultParser().Parse(text.NewReader(src))
	section, last := "", ""
	linked := map[string]bool{}
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		switch n.Kind() {
		case ast.KindHeading:
			if section, last = plain(n, src), ""; n.(*ast.Heading).Level != 1 {
				t.Fatalf("SUMMARY.md has a heading of level %d", n.(*ast.Heading).Level)
			}
		case ast.KindList:
			for item := n.FirstChild(); item != nil; item = item.NextSibling() {
				if item.ChildCount() != 1 || item.FirstChild().ChildCount() != 1 || item.FirstChild().FirstChild().Kind() != ast.KindLink {
					t.Fatalf("SUMMARY.md: item %q is no single link", plain(item, src))
				}
				link := item.FirstChild().FirstChild().(*ast.Link)
				dest := unescaped(string(link.Destination)) // goldmark leaves that to its renderer
				asMdbook := strings.ReplaceAll(dest, "%20", " ")
				decoded, err := url.PathUnescape(dest)
				if err != nil || decoded != asMdbook {
					t.Fatalf("SUMMARY.md: %q means %q to mdbook and %q to others (%v)", dest, asMdbook, decoded, err)
				}
				if u, err := url.Parse(dest); err != nil || u.RawQuery+u.Fragment+u.Scheme+u.Host != "" || u.Path != decoded {
					t.Fatalf("SUMMARY.md: %q is no plain path: %v", dest, err)
				}
				name, ok := names[decoded]
				if !ok || linked[decoded] || len(link.Title) > 0 || !strings.HasPrefix(decoded, strings.ToLower(section)+"/") {
					t.Fatalf("SUMMARY.md, %s: %q is no page, or linked twice", section, decoded)
				}
				linked[decoded] = true
				if shown := plain(link, src); isEasy(name) && shown != name || shown == "" {
					t.Fatalf("SUMMARY.md shows %q as %q", name, shown)
				}
				if name < last {
					t.Fatalf("SUMMARY.md has %q after %q", name, last)
				}
				last = name
			}
		default:
			t.Fatalf("SUMMARY.md has a %v", n.Kind())
		}
	}
	if len(linked) != sn.Len() {
		t.Fatalf("SUMMARY.md links %d pages of %d", len(linked), sn.Len())
	}
}

// isEasy reports the names that are shown as they are.
func isEasy(name string) bool {
	for _, c := range name {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return name == strings.TrimSpace(name) && name != ""
}

// plain is the text of a node, as it is shown.
func plain(n ast.Node, src []byte) string {
	var b strings.Builder
	ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			switch n := n.(type) {
			case *ast.Text:
				b.Write(n.Segment.Value(src))
			case *ast.String:
				b.Write(n.Value)
			case *ast.CodeSpan, *ast.Emphasis, *ast.RawHTML, *ast.AutoLink, *ast.Image:
				b.WriteString("<" + n.Kind().String() + ">")
			}
		}
		return ast.WalkContinue, nil
	})
	return unescaped(b.String())
}

func unescaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func TestSummary(t *testing.T) {
	r := seed.Random(t)
	rounds, links := 100, 0
	for range rounds {
		sn := randomSnapshot(t, r, 30)
		mem := faultfs.NewMem()
		if _, err := DumpSnapshot(mem, "/b", sn, DumpOptionsFor("/b")); err != nil {
			t.Fatal(err)
		}
		checkBook(t, mem, "/b", sn)
		links += sn.Len()
	}
	sn := hostileNames(t, r)
	mem := faultfs.NewMem()
	if _, err := DumpSnapshot(mem, "/b", sn, DumpOptionsFor("/b")); err != nil {
		t.Fatal(err)
	}
	checkBook(t, mem, "/b", sn)
	t.Logf("books checked: %d, links: %d", rounds+1, links+sn.Len())
}

// mdbook finds the program, or skips the test unless CRABMEM_REQUIRE names it.
func mdbook(t *testing.T) string {
	t.Helper()
	p, err := exec.LookPath("mdbook")
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("CRABMEM_REQUIRE"), ","), "mdbook") {
			t.Fatal("CRABMEM_REQUIRE=mdbook, but mdbook is not on the PATH")
		}
		t.Skip("SKIPPED: mdbook is not on the PATH (cargo install mdbook --locked)")
	}
	return p
}

// Real mdbook builds the demo's brain and a tree of hostile names without a
// warning, and every link of its table of contents leads to a page.
func TestRealMdbook(t *testing.T) {
	bin := mdbook(t)
	demo := New(nil)
	if _, err := Load(demo, "../../testdata/brain", LoadOptionsFor("../../testdata/brain")); err != nil {
		t.Fatal(err)
	}
	if demo.Len() < 100 {
		t.Fatalf("the demo's brain has %d entries", demo.Len())
	}
	for _, book := range []struct {
		name string
		sn   *Snapshot
	}{{"demo", demo.Snapshot()}, {"hostile", hostileNames(t, seed.Random(t))}} {
		t.Run(book.name, func(t *testing.T) {
			dir, out := filepath.Join(t.TempDir(), "brain"), filepath.Join(t.TempDir(), "out")
			if _, err := DumpSnapshot(vfs.OS{}, dir, book.sn, DumpOptionsFor(dir)); err != nil {
				t.Fatal(err)
			}
			checkBook(t, vfs.OS{}, dir, book.sn)
			log, err := exec.Command(bin, "build", "-d", out, dir).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, log)
			}
			for line := range strings.Lines(string(log)) {
				if strings.Contains(line, "WARN") || strings.Contains(line, "ERROR") {
					t.Fatalf("mdbook complains:\n%.2000s", log)
				}
			}
			toc, err := os.Open(filepath.Join(out, "toc.html"))
			if err != nil {
				t.Fatal(err)
			}
			defer toc.Close()
			doc, err := html.Parse(toc)
			if err != nil {
				t.Fatal(err)
			}
			links := map[string]bool{}
			for n := range doc.Descendants() {
				if n.Data != "a" {
					continue
				}
				for _, a := range n.Attr {
					if a.Key == "href" && strings.HasSuffix(a.Val, ".html") {
						u, err := url.Parse(a.Val)
						if err != nil {
							t.Fatal(err)
						}
						if fi, err := os.Stat(filepath.Join(out, filepath.FromSlash(u.Path))); err != nil || fi.Size() == 0 {
							t.Errorf("%s leads nowhere: %v", a.Val, err)
						}
						links[u.Path] = true
					}
				}
			}
			if len(links) != book.sn.Len() {
				t.Errorf("mdbook's table of contents has %d links, want %d", len(links), book.sn.Len())
			}
			pages := 0
			filepath.WalkDir(out, func(p string, d fs.DirEntry, err error) error {
				if dir := path.Base(filepath.Dir(p)); err == nil && strings.HasSuffix(p, ".html") && (dir == "notes" || dir == "archives") {
					pages++
				}
				return err
			})
			if pages != book.sn.Len() {
				t.Errorf("mdbook made %d pages, want %d", pages, book.sn.Len())
			}
			t.Logf("%s: mdbook built %d pages, links resolved: %d", book.name, pages, len(links))
		})
	}
}
