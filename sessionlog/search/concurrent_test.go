package search

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog/internal/feed"
)

// during calls what at the n-th call of an operation on a file, and fails that call
// with err.
func (f *memFolder) during(op, name string, n int, err error, what func()) {
	f.m.Hook = func(c faultfs.Call) error {
		if c.Op != op || c.Name != "/s/"+name {
			return nil
		}
		if n--; n != 0 {
			return nil
		}
		what()
		return err
	}
}

// TestChangesDuringARead changes a folder while the index reads a file of it. The
// index discards what it read.
func TestChangesDuringARead(t *testing.T) {
	text := metaLine("crab", "") + messageLine("user", "needle")
	added := messageLine("user", "pin")
	const file = "crab_user_1.jsonl"
	for _, c := range []struct {
		what  string
		known bool // the index has the file
		op    string
		n     int
		err   error
		do    func(f *memFolder, x *Index)
	}{
		{"another read adds the file", false, "read", 1, nil, func(f *memFolder, x *Index) { x.update(file) }},
		{"another read adds the lines", true, "read", 3, nil, func(f *memFolder, x *Index) { x.update(file) }},
		{"lines are written", true, "read", 3, nil, func(f *memFolder, x *Index) {
			watcher{x}.Wrote(file, int64(len(text)), []byte(added))
		}},
		{"another file is removed", false, "read", 1, nil, func(f *memFolder, x *Index) { watcher{x}.Removed("other.jsonl") }},
		{"another file of a known folder is removed", true, "read", 3, nil, func(f *memFolder, x *Index) { watcher{x}.Removed("other.jsonl") }},
		{"the file is removed", true, "read", 3, nil, func(f *memFolder, x *Index) {
			f.m.Hook = nil
			f.check(f.m.Remove("/s/" + file))
			watcher{x}.Removed(file)
		}},
		{"opening fails and another file is removed", true, "open", 1, syscall.EIO, func(f *memFolder, x *Index) { watcher{x}.Removed("other.jsonl") }},
		{"opening fails and another read adds the file", false, "open", 1, fs.ErrNotExist, func(f *memFolder, x *Index) { x.update(file) }},
		{"a description fails and another file is removed", true, "stat", 1, syscall.EIO, func(f *memFolder, x *Index) { watcher{x}.Removed("other.jsonl") }},
		{"a read fails and another file is removed", true, "read", 3, syscall.EIO, func(f *memFolder, x *Index) { watcher{x}.Removed("other.jsonl") }},
	} {
		f := newMemFolder(t, nil)
		if c.known {
			f.write(file, text)
		}
		x := f.index(nil)
		f.write(file, text+added)
		happened := false
		f.during(c.op, file, c.n, c.err, func() {
			happened = true
			c.do(f, x)
		})
		f.check(x.Refresh())
		f.m.Hook = nil
		if !happened {
			t.Errorf("%s: not reached", c.what)
		}
		if got := x.Unread(); len(got) > 0 {
			t.Errorf("%s: unread %v", c.what, got)
		}
		f.sameEntries(x)
	}
}

// attachedWatcher returns the watcher of the next index.
func attachedWatcher(t *testing.T) *feed.Watcher {
	attach := feed.Attach
	t.Cleanup(func() { feed.Attach = attach })
	var attached feed.Watcher
	feed.Attach = func(dir any, w feed.Watcher) (feed.Folder, func(), bool) {
		attached = w
		return attach(dir, w)
	}
	return &attached
}

// TestWatcherDuringBuild changes a folder while NewIndex reads it. If the last
// refresh fails, NewIndex fails, and a later one succeeds.
func TestWatcherDuringBuild(t *testing.T) {
	text := metaLine("crab", "") + messageLine("user", "needle")
	for _, fail := range []bool{false, true} {
		f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": text})
		lists := 0
		attached := attachedWatcher(t)
		f.m.Hook = func(c faultfs.Call) error {
			if c.Op == "readdir" {
				if lists++; lists == 2 && fail {
					return syscall.EIO
				}
			}
			if c.Op == "open" && c.Name == "/s/crab_user_1.jsonl" && lists == 1 {
				f.write("crab_user_2.jsonl", text)
				(*attached).Changed("crab_user_2.jsonl")
			}
			return nil
		}
		x, err := NewIndex(f.d, nil)
		f.m.Hook = nil
		if lists != 2 || (err != nil) != fail || (x == nil) != fail {
			t.Fatalf("%d lists, %v", lists, err)
		}
		if fail {
			x = f.index(nil)
		}
		f.sameEntries(x)
		f.check(x.Close())
	}
	// A folder that cannot be listed.
	f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": text})
	f.m.Hook = func(c faultfs.Call) error { return syscall.EIO }
	if x, err := NewIndex(f.d, nil); x != nil || err == nil || !strings.Contains(err.Error(), "input/output error") {
		t.Errorf("%v, %v", x, err)
	}
	f.m.Hook = nil
	x := f.index(nil)
	if y, err := NewIndex(f.d, nil); y != nil || err == nil || err.Error() != "index /s: folder has an index: close it first" {
		t.Errorf("%v, %v", y, err)
	}
	f.sameEntries(x)
}

// TestClosedIndex uses a closed index, also as a read does that began before Close.
func TestClosedIndex(t *testing.T) {
	text := metaLine("crab", "") + messageLine("user", "needle")
	f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": text})
	x := f.index(nil)
	e := x.byName["crab_user_1.jsonl"]
	f.check(x.Close())
	if x.Len() != 0 || len(x.entries)+len(x.byName)+len(x.parties)+len(x.numbers) > 0 {
		t.Errorf("%d documents, %d entries, %d parties", x.Len(), len(x.entries), len(x.parties))
	}
	x.forget(e)
	if got := f.calls(func() { x.update("crab_user_1.jsonl") }); len(got) > 0 {
		t.Errorf("calls %v", got)
	}
	if err := x.Refresh(); err != errIndexClosed {
		t.Error(err)
	}
	if r, err := x.Search(t.Context(), Query{Text: "needle"}); r != nil || err != errIndexClosed {
		t.Errorf("%v, %v", r, err)
	}
	f.check(f.index(nil).Close())
}

// TestForgetInSteps removes sessions with about as many messages as a step removes.
func TestForgetInSteps(t *testing.T) {
	for _, n := range []int{0, 1, forgetAtOnce - 1, forgetAtOnce, forgetAtOnce + 1, 2*forgetAtOnce + 1} {
		f := newMemFolder(t, map[string]string{
			"crab_user_1.jsonl": metaLine("crab", "") + strings.Repeat(messageLine("user", "x")+messageLine("judge", "x"), n/2) + strings.Repeat(messageLine("judge", "x"), n%2),
			"crab_user_2.jsonl": metaLine("crab", "") + messageLine("judge", "needle"),
		})
		x := f.index(&IndexOptions{Analyzer: analysis.Plain})
		f.check(f.m.Remove("/s/crab_user_1.jsonl"))
		watcher{x}.Removed("crab_user_1.jsonl")
		f.sameEntries(x)
		for _, q := range []Query{{}, {Agent: "crab"}, {Roles: []string{"judge", "session"}}} {
			q.Text = "needle"
			if got := found(t, x, q); got != `1 of 2; crab_user_2:2 "needle"` {
				t.Errorf("%d messages, %+v: %s", n, q, got)
			}
		}
		x.forget(x.byName["crab_user_2.jsonl"])
		if x.counts != (counts{}) || x.Len() != 0 {
			t.Errorf("%d messages: %v, %d documents", n, x.counts, x.Len())
		}
	}
}

// TestRemovalsAreCounted counts removed and renamed files.
func TestRemovalsAreCounted(t *testing.T) {
	f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": metaLine("crab", "")})
	x := f.index(nil)
	var counted []string
	for _, do := range []func(){
		func() { watcher{x}.Removed("other.jsonl") },
		func() { watcher{x}.Renamed("crab_user_1.jsonl", "crab_user_1_title.jsonl") },
		func() { watcher{x}.Changed("crab_user_1_title.jsonl") },
	} {
		do()
		counted = append(counted, fmt.Sprint(x.removals))
	}
	if got := strings.Join(counted, " "); got != "1 2 2" {
		t.Error(got)
	}
}

// TestRenamedToAnotherID reports renamed files whose entries cannot keep their IDs.
func TestRenamedToAnotherID(t *testing.T) {
	text := metaLine("crab", "") + messageLine("user", "needle")
	for from, to := range map[string]string{"crab_user_1": "crab_user_2", "a": "a_title", "crab_user_3": "b", "c": "crab_user_4"} {
		f := newMemFolder(t, map[string]string{from + ".jsonl": text})
		x := f.index(nil)
		f.check(f.m.Rename("/s/"+from+".jsonl", "/s/"+to+".jsonl"))
		watcher{x}.Renamed(from+".jsonl", to+".jsonl")
		f.sameEntries(x)
	}
}

// TestReadFailsAfterAPortion fails a read of the second portion of a file: a refresh
// reads the rest.
func TestReadFailsAfterAPortion(t *testing.T) {
	f := newMemFolder(t, nil)
	x := f.index(&IndexOptions{Analyzer: analysis.Plain})
	f.write("crab_user_1.jsonl", metaLine("crab", "")+strings.Repeat(messageLine("user", strings.Repeat("x", maxTexts)), 2)+messageLine("user", "needle"))
	opened := false
	f.m.Hook = func(c faultfs.Call) error {
		opened = opened || c.Op == "open" && len(x.byName) > 0
		if opened && c.Op == "read" && c.Size > maxSample {
			return syscall.EIO
		}
		return nil
	}
	f.check(x.Refresh())
	f.m.Hook = nil
	if got := fmt.Sprint(x.Unread()); got != "map[crab_user_1.jsonl:read /s/crab_user_1.jsonl: input/output error]" {
		t.Error(got)
	}
	f.check(x.Refresh())
	f.sameEntries(x)
	if got := x.Unread(); len(got) > 0 {
		t.Error(got)
	}
}

// TestRenameDuringARead renames a file that the index is about to open. The folder
// reports the new name while the index removes the entry.
func TestRenameDuringARead(t *testing.T) {
	const from, to = "crab_user_1.jsonl", "crab_user_1_title.jsonl"
	text := metaLine("crab", "") + messageLine("user", "needle")
	for range 10 {
		f := newMemFolder(t, map[string]string{from: text})
		x := f.index(nil)
		renamed := make(chan struct{})
		f.during("open", from, 1, fs.ErrNotExist, func() {
			f.m.Hook = nil
			f.check(f.m.Rename("/s/"+from, "/s/"+to))
			x.mu.Lock()
			go func() {
				// The lock passes in the order of the waiting calls, if the first one
				// has waited for a millisecond and not got it once.
				time.Sleep(3 * time.Millisecond)
				go func() {
					defer close(renamed)
					watcher{x}.Renamed(from, to)
				}()
				time.Sleep(3 * time.Millisecond)
				x.mu.Unlock()
				x.mu.Lock()
				time.Sleep(3 * time.Millisecond)
				x.mu.Unlock()
			}()
		})
		x.update(from)
		<-renamed
		f.sameEntries(x)
	}
}
