package search

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/crmem/vfs/vfstest"
	"crabmem/sessionlog"
)

// A memFolder is a sessions folder in memory. It counts open files and lists calls.
type memFolder struct {
	t     *testing.T
	m     *faultfs.Mem
	files *vfstest.Handles
	d     *sessionlog.Dir
	clock int64 // seconds
}

// newMemFolder returns a folder with files. No file may be open at the end of the
// test.
func newMemFolder(t *testing.T, files map[string]string) *memFolder {
	t.Helper()
	f := &memFolder{t: t, m: faultfs.NewMem(), clock: 1_760_000_000}
	f.m.Now = f.now
	f.check(f.m.Mkdir("/s", 0o700))
	for name, text := range files {
		f.write(name, text)
	}
	f.files = &vfstest.Handles{FS: f.m}
	var err error
	f.d, err = sessionlog.OpenDir("/s", &sessionlog.Options{FS: f.files, Now: f.now})
	f.check(err)
	t.Cleanup(func() {
		f.check(f.d.Close())
		if n := f.files.Count(); n != 0 {
			t.Errorf("%d files are open", n)
		}
	})
	return f
}

func (f *memFolder) now() time.Time { return time.Unix(f.clock, 0) }

// write sets the text of a file, which keeps its identity. Each write is a second
// after the last one.
func (f *memFolder) write(name, text string) {
	f.clock++
	f.m.WriteFile("/s/"+name, []byte(text), 0o600)
}

func (f *memFolder) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *memFolder) index(o *IndexOptions) *Index {
	f.t.Helper()
	x, err := NewIndex(f.d, o)
	f.check(err)
	return x
}

// calls lists the calls while f runs.
func (f *memFolder) calls(run func()) []string {
	var list []string
	f.m.Hook = func(c faultfs.Call) error {
		list = append(list, fmt.Sprintf("%s %s %d", c.Op, strings.TrimPrefix(c.Name, "/s"), c.Size))
		return nil
	}
	run()
	f.m.Hook = nil
	return list
}

// opened lists the names of the files that are opened while run runs.
func (f *memFolder) opened(run func()) string {
	var names []string
	for _, c := range f.calls(run) {
		if name, ok := strings.CutPrefix(c, "open /"); ok {
			names = append(names, strings.TrimSuffix(name, ".jsonl 0"))
		}
	}
	return strings.Join(names, " ")
}

func metaLine(agent, title string) string {
	return fmt.Sprintf(`{"agent":%q,"created_by":"user","created_at":"2026-01-02T03:04:05Z","title":%q}`+"\n", agent, title)
}

func messageLine(role, content string) string {
	return fmt.Sprintf(`{"role":%q,"content":%q}`+"\n", role, content)
}

// found lists the hits of a query: file, line, and snippet.
func found(t *testing.T, x *Index, q Query) string {
	t.Helper()
	r, err := x.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%d of %d", r.Total, r.Searched)
	for _, h := range r.Hits {
		text += fmt.Sprintf("; %s:%d %q", strings.TrimSuffix(h.File, ".jsonl"), h.Line, h.Snippet)
	}
	return text
}

// sameEntries compares the entries of an index with those of one that reads the
// folder from scratch.
func (f *memFolder) sameEntries(x *Index) {
	f.t.Helper()
	d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: f.m})
	f.check(err)
	y, err := NewIndex(d, &IndexOptions{Analyzer: x.analyzer, Tools: x.tools})
	f.check(err)
	describe := func(e *entry) string {
		return fmt.Sprintf("%s %q %q %q %v %+v %+v %q %q %v %+v %d", e.id, e.agent, e.sender, e.title, e.created, e.titles, e.places, e.others, e.name, e.counts, []int64{e.pos.end, e.pos.lines}, e.tail)
	}
	for name := range maps.Keys(y.byName) {
		e := x.byName[name]
		if e == nil {
			f.t.Errorf("%s is not in the index", name)
		} else if got, want := describe(e), describe(y.byName[name]); got != want {
			f.t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		} else {
			f.checkSamples(e)
		}
	}
	if len(x.byName) != len(y.byName) || x.counts != y.counts || x.Len() != y.Len() {
		f.t.Errorf("%d files, %v, %d documents; want %d, %v, %d", len(x.byName), x.counts, x.Len(), len(y.byName), y.counts, y.Len())
	}
	f.check(y.Close())
	f.check(d.Close())
}

// checkSamples compares the samples of an entry with its file.
func (f *memFolder) checkSamples(e *entry) {
	f.t.Helper()
	file, err := f.m.Open("/s/" + e.name)
	f.check(err)
	p := e.pos
	if p.first.at != 0 || p.last.at+int64(p.last.n) != p.end || max(p.first.n, p.last.n) > maxSample || min(p.first.n, p.last.n, 1) != min(int(p.end), 1) {
		f.t.Errorf("%s: positions of samples: %+v", e.name, p)
	}
	if !p.first.matches(file) || !p.last.matches(file) {
		f.t.Errorf("%s: samples differ: %+v", e.name, p)
	}
	f.check(file.Close())
}

// identity returns an identity that no file of a memFolder has.
func identity(n uint64) vfs.Identity { return vfs.Identity{Dev: 9, Ino: n} }
