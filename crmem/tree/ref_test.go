package tree_test

import (
	"encoding/json"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/seed"
)

// refEntry is the entry that the reference's loader reads from a page.
type refEntry struct {
	Stem    string
	Kind    Kind
	Content string
	Aliases []string
	Created uint64
	Dated   bool
}

// refLoad reads a tree as the reference does, to the letter of its
// description: text searches, no HTML parser, no Markdown parser.
func refLoad(t *testing.T, fsys vfs.FS, dir string) map[string]refEntry {
	t.Helper()
	out := map[string]refEntry{}
	stems := map[string]string{}
	for kind, sub := range []string{"notes", "archives"} {
		list, err := fsys.ReadDir(dir + "/" + sub)
		if err != nil {
			continue
		}
		for _, d := range list {
			dot := strings.LastIndexByte(d.Name(), '.')
			if dot <= 0 || d.Name()[dot:] != ".md" {
				continue
			}
			b, err := vfs.ReadFile(fsys, dir+"/"+sub+"/"+d.Name(), math.MaxInt64)
			if err != nil {
				t.Fatal(err)
			}
			e := refParse(strings.TrimPrefix(string(b), "\ufeff"))
			e.Stem, e.Kind = d.Name()[:dot], Kind(kind)
			if other, ok := stems[e.Stem]; ok {
				t.Fatalf("the reference refuses the tree: %s and %s/%s have one name", other, sub, d.Name())
			}
			stems[e.Stem] = sub + "/" + d.Name()
			out[sub+"/"+d.Name()] = e
		}
	}
	return out
}

func refParse(text string) (e refEntry) {
	meta, body, ok := strings.Cut(text, "</div>")
	if !ok || !strings.HasPrefix(text, `<div id="meta">`) {
		e.Content = strings.TrimRightFunc(text, unicode.IsSpace)
		return e
	}
	e.Content = strings.TrimSpace(body)
	if _, rest, ok := strings.Cut(meta, `datetime="`); ok {
		if iso, _, ok := strings.Cut(rest, `"`); ok {
			if at, err := time.Parse(time.RFC3339, iso); err == nil && at.Unix() >= 0 {
				e.Created, e.Dated = uint64(at.Unix()), true
			}
		}
	}
	_, list, ok := strings.Cut(meta, "<dt>Aliases</dt>")
	if !ok {
		return e
	}
	list, _, _ = strings.Cut(list, "<dt>")
	for {
		_, rest, ok := strings.Cut(list, "<li>")
		if !ok {
			return e
		}
		item, rest, ok := strings.Cut(rest, "</li>")
		if !ok {
			return e
		}
		e.Aliases = append(e.Aliases, refUnescape(strings.TrimSpace(item)))
		list = rest
	}
}

func refUnescape(s string) string {
	s = strings.ReplaceAll(s, "&lt;", "<")
	s = strings.ReplaceAll(s, "&gt;", ">")
	return strings.ReplaceAll(s, "&amp;", "&")
}

// dumped returns the path of each entry's page, from the base.
func dumped(t *testing.T, fsys vfs.FS, dir string) map[uint64]string {
	t.Helper()
	list, err := fsys.ReadDir(BasesFor(dir))
	if err != nil || len(list) != 1 {
		t.Fatalf("bases: %v, %v", list, err)
	}
	b, err := vfs.ReadFile(fsys, BasesFor(dir)+"/"+list[0].Name(), math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Pages []struct {
			Path string
			ID   uint64
		}
	}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	paths := map[uint64]string{}
	for _, p := range m.Pages {
		paths[p.ID] = p.Path
	}
	return paths
}

// Names that are stems wherever there is no twin and no device of the name.
var easyName = regexp.MustCompile(`^[a-wyz日本旅行数据库مرحبا][a-z日本旅行数据库مرحبا _-]*[a-z日本旅行数据库مرحبا]$`)

// The reference reads our trees: same names (as stems), contents and aliases
// up to white space at the edges, and times.
func TestReferenceReadsTrees(t *testing.T) {
	r := seed.Random(t)
	rounds := rounds() / 2 // a plain name comes once in ten
	pages, easy := 0, 0
	for n := range rounds {
		sn := randomSnapshot(t, r, 12)
		mem := faultfs.NewMem()
		if _, err := DumpSnapshot(mem, "/brain", sn, DumpOptionsFor("/brain")); err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
		ref := refLoad(t, mem, "/brain")
		if len(ref) != sn.Len() {
			t.Fatalf("round %d: the reference reads %d entries of %d", n, len(ref), sn.Len())
		}
		for id, p := range dumped(t, mem, "/brain") {
			got, want := ref[p], entryByID(sn, id)
			created := min(want.CreatedAt, 253402300799) // the last second of a year with four digits
			if got.Kind != want.Kind || got.Content != strings.TrimSpace(want.Content) || !got.Dated || got.Created != uint64(created) ||
				!slices.EqualFunc(got.Aliases, want.Aliases, func(a, b string) bool { return a == strings.TrimSpace(b) }) {
				t.Fatalf("round %d: %s: the reference reads %#v\nof %#v", n, p, got, want)
			}
			if easyName.MatchString(want.Name) && !slices.Contains([]string{"readme", "nul"}, want.Name) && !strings.Contains(p, "~") {
				easy++
				if got.Stem != want.Name {
					t.Fatalf("round %d: %q is dumped to %s", n, want.Name, p)
				}
			}
			pages++
		}
	}
	if pages < rounds || easy < 1+rounds/100 {
		t.Fatalf("only %d pages, %d of plain names, in %d rounds", pages, easy, rounds)
	}
	t.Logf("stores read by the reference's rules: %d, pages: %d, of plain names: %d", rounds, pages, easy)
}

func entryByID(sn *Snapshot, id uint64) Entry {
	for e := range sn.All() {
		if e.ID == id {
			return e
		}
	}
	return Entry{}
}

// TestGoldenTrees loads every tree that the reference wrote.
func TestGoldenTrees(t *testing.T) {
	const dir = "../../testdata/golden/crmem"
	list, err := vfs.OS{}.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	trees := 0
	for _, d := range list {
		if !strings.HasSuffix(d.Name(), ".brain") {
			continue
		}
		trees++
		b, err := vfs.ReadFile(vfs.OS{}, path.Join(dir, strings.TrimSuffix(d.Name(), ".brain")+".json"), 1<<24)
		if err != nil {
			t.Fatal(err)
		}
		var want []Entry
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		s := New(nil)
		report, err := Load(s, path.Join(dir, d.Name()), LoadOptionsFor(path.Join(dir, d.Name())))
		if err != nil {
			t.Errorf("%s: %v", d.Name(), err)
			continue
		}
		if report.Dumped || len(report.Warnings) > 0 || len(report.Added) != len(want) || s.Len() != len(want) {
			t.Errorf("%s: %+v, want %d entries", d.Name(), report, len(want))
		}
		for _, w := range want {
			e, err := s.Get(w.Name)
			if err != nil {
				t.Errorf("%s: %v", d.Name(), err)
				continue
			}
			if e.Kind != w.Kind || e.CreatedAt != w.CreatedAt || strings.TrimSpace(e.Content) != strings.TrimSpace(w.Content) ||
				!slices.EqualFunc(e.Aliases, w.Aliases, func(a, b string) bool { return a == strings.TrimSpace(b) }) {
				t.Errorf("%s: got %#v, want %#v", d.Name(), e, w)
			}
		}
	}
	if trees < 3 {
		t.Fatalf("%d golden trees", trees)
	}
	t.Logf("golden trees loaded: %d", trees)
}
