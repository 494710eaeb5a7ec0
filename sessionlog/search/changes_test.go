package search

import (
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
)

// TestBuildReadsLongFilesFirst lists the files that a build opens, on one core.
func TestBuildReadsLongFilesFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	files := map[string]string{}
	for i, n := range []int{3, 1, 4, 2, 5} {
		files[fmt.Sprintf("%c.jsonl", 'a'+i)] = metaLine("crab", strings.Repeat("t", n))
	}
	f := newMemFolder(t, files)
	var x *Index
	if got := f.opened(func() { x = f.index(nil) }); got != "e c a d b" {
		t.Errorf("opened %s", got)
	}
	if n := runtime.GOMAXPROCS(0); n != 1 {
		t.Errorf("the build uses %d cores", n)
	}
	for name := range files {
		f.write(name, metaLine("crab", "changed"))
	}
	if got := f.opened(func() { f.check(x.Refresh()) }); got != "a a b b c c d d e e" {
		t.Errorf("opened %s", got)
	}
	if got := f.opened(func() { f.check(x.Refresh()) }); got != "" {
		t.Errorf("opened %s", got)
	}
	f.sameEntries(x)
}

// TestBuildHoldsTexts builds indexes with limits of the texts in memory: files beyond
// them are read afterwards.
func TestBuildHoldsTexts(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer func(all int64, file int) { maxHeld, maxHeldFile = all, file }(maxHeld, maxHeldFile)
	line := messageLine("user", strings.Repeat("x", 99))
	files := map[string]string{}
	for i, day := range []int{1, 2, 3} { // the first one is the shortest
		name := fmt.Sprintf("crab_user_%d.jsonl", i+1)
		files[name] = strings.Replace(metaLine("crab", ""), "01-02", fmt.Sprintf("01-%02d", day), 1) + strings.Repeat(line, i+1)
	}
	const one, two, three = "crab_user_1", "crab_user_2", "crab_user_3"
	for _, c := range []struct {
		all           int64
		file          int
		opened, order string
	}{
		{1000, 1000, three + " " + two + " " + one, one + " " + two + " " + three},
		{300, 1000, three + " " + two + " " + one, three + " " + two + " " + one},
		{301, 1000, three + " " + two + " " + one, two + " " + three + " " + one},
		{501, 1000, three + " " + two + " " + one, one + " " + two + " " + three},
		{1000, 200, three + " " + two + " " + one, one + " " + two + " " + three},
		{1000, 199, three + " " + two + " " + one + " " + three, one + " " + two + " " + three},
		{1000, 99, three + " " + two + " " + one + " " + three + " " + two, one + " " + two + " " + three},
		{300, 199, three + " " + two + " " + three + " " + one, two + " " + three + " " + one},
		{200, 199, three + " " + three + " " + two + " " + one, three + " " + two + " " + one},
	} {
		maxHeld, maxHeldFile = c.all, c.file
		f := newMemFolder(t, files)
		var x *Index
		if got := f.opened(func() { x = f.index(nil) }); got != c.opened {
			t.Errorf("limits %d and %d: opened %s, want %s", c.all, c.file, got, c.opened)
		}
		var order []string
		for _, e := range x.entries {
			order = append(order, e.id)
		}
		if got := strings.Join(order, " "); got != c.order {
			t.Errorf("limits %d and %d: order %s, want %s", c.all, c.file, got, c.order)
		}
		maxHeld, maxHeldFile = 1000, 1000
		f.sameEntries(x)
		if got := f.opened(func() { f.check(x.Refresh()) }); got != "" {
			t.Errorf("limits %d and %d: opened %s again", c.all, c.file, got)
		}
	}
}

// TestRefreshReadsPortions adds files whose texts have the size of a portion, and
// one byte more or less.
func TestRefreshReadsPortions(t *testing.T) {
	meta := metaLine("crab", "")
	half := messageLine("user", strings.Repeat("x", maxTexts/2-1))
	joined := `{"role":"us{"role":"user","content":"one"}{"role":"user","content":"two"}` + "\n"
	last := messageLine("user", "last")
	for _, c := range []struct {
		what, text string
		opened     int
	}{
		{"exactly one", meta + half + half, 1},
		{"exactly one and a line", meta + half + half + last, 1},
		{"exactly one and two lines", meta + half + half + last + last, 2},
		{"over one", meta + half + half[:27] + "x" + half[27:], 1},
		{"over one and a line", meta + half + half[:27] + "x" + half[27:] + last, 2},
		{"over one within a joined line", meta + half + half + joined + last, 2},
		{"three", meta + half + half + last + half + half + last + half + half, 3},
		{"three, then a torn message", meta + half + half + last + half + half + last + half + half + last + strings.TrimSuffix(last, "\n"), 4},
	} {
		f := newMemFolder(t, nil)
		x := f.index(&IndexOptions{Analyzer: analysis.Plain})
		f.write("crab_user_1.jsonl", c.text)
		if got := f.opened(func() { f.check(x.Refresh()) }); len(strings.Fields(got)) != c.opened {
			t.Errorf("%s: opened %s, want %d times", c.what, got, c.opened)
		}
		f.sameEntries(x)
		if got := f.opened(func() { f.check(x.Refresh()) }); got != "" {
			t.Errorf("%s: opened %s again", c.what, got)
		}
	}
}

// TestWroteReadsFromMemory passes lines to an index that has read the file, with
// lines that are no messages between.
func TestWroteReadsFromMemory(t *testing.T) {
	first := metaLine("crab", "first") + messageLine("user", strings.Repeat("long ", 300))
	f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": first + `{"meta":{"title":"torn"}}`})
	x := f.index(nil)
	text := first
	for i, lines := range []string{
		messageLine("assistant", "one") + metaLine("other", "no title"),
		"\n", messageLine("user", "two?") + "\n", "bad\n",
		`{"meta":{"title":"second"}}` + "\n", `{"compact":"summary"}` + "\n", `{"x":1}` + "\n", messageLine("judge", strings.Repeat("x", 2000)),
		`{"meta":{"title":"third"}}` + "\n" + `{"compact":"summary"}` + "\n",
	} {
		at := int64(len(text))
		text += lines
		f.write("crab_user_1.jsonl", text)
		if got := f.opened(func() { watcher{x}.Wrote("crab_user_1.jsonl", at, []byte(lines)) }); got != "" {
			t.Errorf("step %d: opened %s", i, got)
		}
		f.sameEntries(x)
		if e := x.byName["crab_user_1.jsonl"]; !e.modified.Equal(f.now()) || !e.mtime.IsZero() || e.size != int64(len(text)) {
			t.Errorf("step %d: modified %v, %v, %d bytes", i, e.modified, e.mtime, e.size)
		}
	}
	for _, size := range []int{arenaSize, arenaSize + 1} {
		lines := messageLine("user", strings.Repeat("x", size-len(messageLine("user", ""))))
		at := int64(len(text))
		text += lines
		f.write("crab_user_1.jsonl", text)
		watcher{x}.Wrote("crab_user_1.jsonl", at, []byte(lines))
		if kept := x.writes.arena.Cap() > 0; kept != (size == arenaSize) {
			t.Errorf("after %d bytes the index keeps a buffer: %t", size, kept)
		}
		f.sameEntries(x)
	}
}

// TestWroteReadsTheFile passes lines that do not continue the known part of a file.
func TestWroteReadsTheFile(t *testing.T) {
	whole := metaLine("crab", "title") + messageLine("user", "one") + messageLine("user", "two")
	for _, c := range []struct {
		what, before string
		at           int
	}{
		{"an empty file", "", 0},
		{"a file that begins with a torn line", `{"agent":"crab`, 0},
		{"a position after the known part", metaLine("crab", "title"), len(metaLine("crab", "title") + messageLine("user", "one"))},
		{"a position in the known part", metaLine("crab", "title") + messageLine("user", "one"), len(metaLine("crab", "title"))},
	} {
		f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": c.before})
		x := f.index(nil)
		f.write("crab_user_1.jsonl", whole)
		watcher{x}.Wrote("crab_user_1.jsonl", int64(c.at), []byte(whole[c.at:]))
		f.sameEntries(x)
		if got := found(t, x, Query{Text: "two", Agent: "crab"}); got != `2 of 3; crab_user_1:3 "two"; crab_user_1:2 "one"` {
			t.Errorf("%s: %s", c.what, got)
		}
	}
}

// TestRefreshAfterRename renames a file and appends to it before a refresh, which
// other changed files follow.
func TestRefreshAfterRename(t *testing.T) {
	text := metaLine("crab", "") + messageLine("user", "needle")
	f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": text, "crab_user_2.jsonl": text})
	x := f.index(nil)
	e := x.byName["crab_user_1.jsonl"]
	f.check(f.m.Rename("/s/crab_user_1.jsonl", "/s/crab_user_1_title.jsonl"))
	f.write("crab_user_1_title.jsonl", text+messageLine("user", "pin"))
	f.write("crab_user_2.jsonl", text+messageLine("user", "thread"))
	f.check(x.Refresh())
	f.sameEntries(x)
	if x.byName["crab_user_1_title.jsonl"] != e {
		t.Error("the entry is new")
	}
	// Another name of the file does not change it.
	f.check(f.m.Link("/s/crab_user_2.jsonl", "/s/crab_user_2.bak"))
	if got := f.opened(func() { f.check(x.Refresh()) }); got != "" {
		t.Errorf("opened %s", got)
	}
}

// TestRefreshWithoutIdentities renames a file on a platform without identities: it is
// not taken for the file that vanished.
func TestRefreshWithoutIdentities(t *testing.T) {
	f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": metaLine("crab", "") + messageLine("user", "needle")})
	d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: anonymousFS{f.m}})
	f.check(err)
	x, err := NewIndex(d, nil)
	f.check(err)
	e := x.byName["crab_user_1.jsonl"]
	f.check(f.m.Rename("/s/crab_user_1.jsonl", "/s/crab_user_1_title.jsonl"))
	f.check(x.Refresh())
	if got := x.byName["crab_user_1_title.jsonl"]; got == e || got == nil {
		t.Errorf("entry %p, was %p", got, e)
	}
	f.sameEntries(x)
	f.check(d.Close())
}

// anonymousFS describes files without identities.
type anonymousFS struct{ vfs.FS }

type anonymousFile struct{ vfs.File }

type anonymousInfo struct{ fs.FileInfo }

func (anonymousInfo) Sys() any { return vfs.Identity{} }

func (a anonymousFS) Lstat(name string) (fs.FileInfo, error) {
	fi, err := a.FS.Lstat(name)
	return anonymousInfo{fi}, err
}

func (a anonymousFS) Open(name string) (vfs.File, error) {
	f, err := a.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return anonymousFile{f}, nil
}

func (a anonymousFile) Stat() (fs.FileInfo, error) {
	fi, err := a.File.Stat()
	return anonymousInfo{fi}, err
}

// TestRefreshSetsModified excludes sessions by the time of a write that a refresh or
// the index itself read.
func TestRefreshSetsModified(t *testing.T) {
	f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": metaLine("crab", "") + messageLine("user", "needle")})
	x := f.index(nil)
	f.clock += 100
	since := Query{Text: "needle", Since: time.Unix(f.clock, 0)}
	if got := found(t, x, since); got != "0 of 0" {
		t.Error(got)
	}
	f.write("crab_user_1.jsonl", metaLine("crab", "")+messageLine("user", "needle")+messageLine("user", "hay"))
	f.check(x.Refresh())
	if got := found(t, x, since); got != `2 of 3; crab_user_1:2 "needle"; crab_user_1:3 "hay"` {
		t.Error(got)
	}
}

// TestRefreshWithFaults fails each call of a refresh, and lists the errors and the
// number of unread files. A later refresh restores the index.
func TestRefreshWithFaults(t *testing.T) {
	text := metaLine("crab", "") + messageLine("user", "needle")
	for _, c := range []struct {
		change string
		fault  error
		want   string
	}{
		{text + messageLine("user", "pin"), syscall.EIO, "readdir true 0, lstat true 0, lstat true 0, lstat true 0, " +
			"open false 1, stat false 1, read false 0, read false 0, read false 1, read false 1, close false 0, open false 1, stat false 1, read false 1, close false 0, "},
		{text + messageLine("user", "pin"), fs.ErrNotExist, "readdir false 0, lstat false 0, lstat false 0, lstat false 0, " +
			"open false 0, stat false 0, read false 0, read false 0, read false 1, read false 1, close false 0, open false 0, stat false 0, read false 1, close false 0, "},
		{metaLine("crab", "other") + messageLine("user", "pin"), syscall.EIO, "readdir true 0, lstat true 0, lstat true 0, lstat true 0, " +
			"open false 1, stat false 1, read false 0, close false 0, open false 1, stat false 1, read false 1, close false 0, open false 1, stat false 1, read false 1, close false 0, "},
		{metaLine("crab", "other") + messageLine("user", "pin"), fs.ErrNotExist, "readdir false 0, lstat false 0, lstat false 0, lstat false 0, " +
			"open false 0, stat false 0, read false 0, close false 0, open false 0, stat false 0, read false 1, close false 0, open false 0, stat false 0, read false 1, close false 0, "},
	} {
		got := ""
		for at, failed := 1, true; failed; at++ {
			f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": text, "crab_user_2.jsonl": text})
			x := f.index(nil)
			f.write("crab_user_1.jsonl", c.change)
			f.write("crab_user_3.jsonl", text)
			op, n := "", 0
			f.m.Hook = func(call faultfs.Call) error {
				if n++; n == at {
					op = call.Op
					return c.fault
				}
				return nil
			}
			err := x.Refresh()
			f.m.Hook = nil
			if failed = op != ""; failed {
				got += fmt.Sprintf("%s %t %d, ", op, err != nil, len(x.Unread()))
			}
			f.check(x.Refresh())
			if len(x.Unread()) > 0 {
				t.Errorf("call %d, %s, %v: unread %v after a refresh", at, op, c.fault, x.Unread())
			}
			f.sameEntries(x)
		}
		if got != c.want {
			t.Errorf("%.30q, %v: %s\nwant %s", c.change, c.fault, got, c.want)
		}
	}
}

// TestUnreadIsForgotten removes files that an index could not read.
func TestUnreadIsForgotten(t *testing.T) {
	f := newMemFolder(t, map[string]string{"a.jsonl": "x", "b.jsonl": "x"})
	f.m.Chmod("/s/a.jsonl", 0)
	f.m.Chmod("/s/b.jsonl", 0)
	x := f.index(nil)
	if got := fmt.Sprint(x.Unread()); got != "map[a.jsonl:open /s/a.jsonl: permission denied b.jsonl:open /s/b.jsonl: permission denied]" {
		t.Error(got)
	}
	f.check(f.m.Remove("/s/a.jsonl"))
	watcher{x}.Removed("a.jsonl")
	if got := fmt.Sprint(x.Unread()); got != "map[b.jsonl:open /s/b.jsonl: permission denied]" {
		t.Error(got)
	}
	f.check(f.m.Remove("/s/b.jsonl"))
	f.check(x.Refresh())
	if got := x.Unread(); len(got) > 0 {
		t.Error(got)
	}
}
