package sessionlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
	"crabmem/sessionlog"
	"crabmem/sessionlog/internal/line"
)

func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func text(t testing.TB, fsys vfs.FS, path string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, path, 1<<30)
	noErr(t, err)
	return string(b)
}

var noon = time.Date(2026, 4, 14, 12, 0, 0, 0, time.UTC)

// onMem returns a folder in a new memory file system, and its warnings.
func onMem(t testing.TB, o sessionlog.Options) (*faultfs.Mem, *sessionlog.Dir, *[]string) {
	m := faultfs.NewMem()
	var warnings []string
	o.FS, o.Now = m, func() time.Time { return noon }
	o.Warn = func(s string) { warnings = append(warnings, s) }
	d, err := sessionlog.OpenDir("/s", &o)
	noErr(t, err)
	return m, d, &warnings
}

func user(s string) sessionlog.Message {
	return sessionlog.Message{Role: "user", Content: s}
}

func answer(s string) sessionlog.Message {
	return sessionlog.Message{Role: "assistant", Content: s}
}

func begin(t testing.TB, d *sessionlog.Dir) *sessionlog.Log {
	t.Helper()
	l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	noErr(t, err)
	return l
}

func reopen(t testing.TB, d *sessionlog.Dir, id string) *sessionlog.Log {
	t.Helper()
	l, err := d.Open(id)
	noErr(t, err)
	return l
}

const metaLine = `{"agent":"crab","created_by":"user","created_at":"2026-04-14T12:00:00+00:00","title":"","uptime_secs":0}` + "\n"

// unsynced counts the changes that a crash could lose, except those of lock
// files.
func unsynced(m *faultfs.Mem) int {
	n := 0
	for _, c := range m.Unsynced() {
		if !strings.HasPrefix(c.Name, "/s/.locks/") {
			n++
		}
	}
	return n
}

func TestLogBytes(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, l.Append(user("<hello> & \u2028"),
		sessionlog.Message{Role: "user", Content: "never written", Injected: true},
		sessionlog.Message{Role: "user", Content: "from", Sender: "tg:1"}))
	noErr(t, l.Append(sessionlog.Message{Role: "assistant", ToolCalls: []sessionlog.ToolCall{{ID: "a", Function: sessionlog.Function{Name: "ls"}}}}))
	noErr(t, l.AddUptime(3))
	noErr(t, l.Compact("so far"))
	noErr(t, l.SetTitle("Ünter Deck: 3"))
	noErr(t, l.Close())
	const want = metaLine +
		`{"role":"user","content":"<hello> & ` + "\u2028" + `"}` + "\n" +
		`{"role":"user","content":"from"}` + "\n" +
		`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":""}}]}` + "\n" +
		`{"meta":{"title":"","uptime_secs":3}}` + "\n" +
		`{"compact":"so far"}` + "\n" +
		`{"meta":{"title":"","uptime_secs":3}}` + "\n" +
		`{"meta":{"title":"Ünter Deck: 3","uptime_secs":3}}` + "\n"
	if got := text(t, m, "/s/crab_user_1_Ünter-deck-3.jsonl"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, name := range []string{"/s", "/s/.locks"} {
		if fi, err := m.Lstat(name); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", name, fi, err)
		}
	}
	if fi, err := m.Lstat("/s/crab_user_1_Ünter-deck-3.jsonl"); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi, err)
	}
}

func TestResume(t *testing.T) {
	_, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, l.Append(user("one")))
	noErr(t, l.SetTitle("first"))
	noErr(t, l.AddUptime(5))
	noErr(t, l.Compact("sum"))
	noErr(t, l.Append(user("two"), answer("three")))
	noErr(t, l.Close())
	l = reopen(t, d, "crab_user_1")
	c, err := l.Context()
	noErr(t, err)
	if len(c.Messages) != 3 || c.Messages[0].Content != "sum" || c.Messages[2].Content != "three" || c.Meta.Title != "first" || c.Meta.UptimeSecs != 5 {
		t.Errorf("context %+v", c)
	}
	if m := l.Meta(); m.Title != "first" || m.UptimeSecs != 5 || m.CreatedAt != "2026-04-14T12:00:00+00:00" {
		t.Errorf("meta %+v", m)
	}
	noErr(t, l.SetTitle("second title"))
	if filepath.Base(l.Path()) != "crab_user_1_second-title.jsonl" {
		t.Errorf("path %s", l.Path())
	}
	noErr(t, l.SetTitle(""))
	if filepath.Base(l.Path()) != "crab_user_1.jsonl" {
		t.Errorf("path %s", l.Path())
	}
	noErr(t, l.AddUptime(math.MaxUint64))
	noErr(t, l.Append(user("still here")))
	noErr(t, l.Close())
	if err := l.Append(user("late")); !errors.Is(err, sessionlog.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	infos, err := d.List()
	noErr(t, err)
	if len(infos) != 1 || infos[0].Messages != 4 || infos[0].Damaged != 0 || infos[0].Meta.UptimeSecs != math.MaxUint64 || infos[0].ID != "crab_user_1" {
		t.Errorf("list %+v", infos)
	}
}

// TestSameLog opens a session twice: it is one, until both have closed it.
func TestSameLog(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			o, err := d.Open("crab_user_1")
			if err != nil || o != l {
				t.Errorf("open %p %v, want %p", o, err, l)
			}
			if err := o.Append(user(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	noErr(t, l.Append(user("last")))
	other, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: m, Command: "two"})
	noErr(t, err)
	var locked *vfs.LockedError
	if _, err := other.Open("crab_user_1"); !errors.As(err, &locked) {
		t.Errorf("a second process: %v", err)
	}
	if err := other.Delete("crab_user_1"); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("delete of an open session: %v", err)
	}
	noErr(t, l.Close())
	o := reopen(t, other, "crab_user_1")
	c, err := o.Context()
	noErr(t, err)
	if len(c.Messages) != 9 {
		t.Errorf("%d messages", len(c.Messages))
	}
	noErr(t, other.Close())
}

// TestFewDescriptors keeps a thousand sessions open with four files.
func TestFewDescriptors(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{MaxOpen: 4})
	open := map[string]int{}
	m.Hook = func(c faultfs.Call) error {
		switch {
		case strings.HasPrefix(c.Name, "/s/.locks/") && c.Op == "lock":
			open["lock"]++
		case strings.HasPrefix(c.Name, "/s/.locks/") && c.Op == "unlock":
			open["lock"]--
		}
		if open["lock"] > 6 {
			t.Errorf("%d locks are held", open["lock"])
		}
		return nil
	}
	var logs []*sessionlog.Log
	n := 200
	for range n {
		logs = append(logs, begin(t, d))
	}
	for round := range 3 {
		for i, l := range logs {
			noErr(t, l.Append(user(fmt.Sprint(round, i))))
		}
	}
	for _, l := range logs[:50] { // by turns, from another process
		other, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: m})
		noErr(t, err)
		o := reopen(t, other, l.ID())
		noErr(t, o.SetTitle("from there"))
		noErr(t, o.Append(user("there")))
		noErr(t, o.Close())
		noErr(t, l.Append(user("here")))
		if l.Meta().Title != "from there" {
			t.Fatalf("title %q", l.Meta().Title)
		}
	}
	noErr(t, d.Close())
	infos, err := d.List()
	noErr(t, err)
	sum := 0
	for _, i := range infos {
		sum += i.Messages
	}
	if len(infos) != n || sum != 3*n+100 {
		t.Errorf("%d sessions with %d messages", len(infos), sum)
	}
	if open["lock"] != 0 {
		t.Errorf("%d locks are left", open["lock"])
	}
}

// TestBuffersAreReleased checks that a session releases the buffer of a
// refused message, and all buffers when its files are closed.
func TestBuffersAreReleased(t *testing.T) {
	race.Skip(t)
	d, err := sessionlog.OpenDir(t.TempDir(), &sessionlog.Options{MaxOpen: 2, MaxLine: 1 << 20, Sync: sessionlog.SyncNone})
	noErr(t, err)
	defer func() { noErr(t, d.Close()) }()
	measured := func(what string, most float64, each func(l *sessionlog.Log)) {
		before := measuredHeap()
		for i := range 100 {
			l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: fmt.Sprintf("%s%d", what, i)})
			noErr(t, err)
			each(l)
		}
		kept := measuredHeap() - before
		t.Logf("%s: %.0f KiB", what, kept/(1<<10))
		if kept > most {
			t.Errorf("100 sessions keep %.0f KiB after %s", kept/(1<<10), what)
		}
	}
	long := strings.Repeat("\x01", 200<<10) // each takes six bytes
	measured("refused", 2<<20, func(l *sessionlog.Log) {
		if err := l.Append(sessionlog.Message{Role: "user", Content: long}); !errors.Is(err, sessionlog.ErrInvalid) {
			t.Fatal(err)
		}
	})
	short := strings.Repeat("x", 40<<10)
	measured("written", 2<<20, func(l *sessionlog.Log) {
		noErr(t, l.Append(sessionlog.Message{Role: "user", Content: short}))
	})
}

// TestTornTail opens files that end in something unfinished.
func TestTornTail(t *testing.T) {
	whole := metaLine + `{"role":"user","content":"a"}` + "\n"
	for _, c := range []struct{ name, tail, kept, aside string }{
		{"half a message", `{"role":"user","content":"b`, "", `{"role":"user","content":"b`},
		{"a whole message", `{"role":"user","content":"b"}`, `{"role":"user","content":"b"}` + "\n", ""},
		{"a whole record of another writer", `{"x":1}`, `{"x":1}` + "\n", ""},
		{"NULs", "\x00\x00\x00\x00", "", "\x00\x00\x00\x00"},
		{"blanks", "   ", "", "   "},
		{"half a character", "{\"role\":\"user\",\"content\":\"\xe2\x82", "", "{\"role\":\"user\",\"content\":\"\xe2\x82"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, d, warnings := onMem(t, sessionlog.Options{})
			noErr(t, m.Mkdir("/s", 0o700))
			m.WriteFile("/s/crab_user_1.jsonl", []byte(whole+c.tail), 0o600)
			l := reopen(t, d, "crab_user_1")
			noErr(t, l.Append(user("c")))
			noErr(t, l.Close())
			want := whole + c.kept + `{"role":"user","content":"c"}` + "\n"
			if got := text(t, m, "/s/crab_user_1.jsonl"); got != want {
				t.Errorf("got\n%q\nwant\n%q", got, want)
			}
			if c.aside != "" {
				if got := text(t, m, fmt.Sprintf("/s/.torn/crab_user_1-%d.jsonl", len(whole))); got != c.aside {
					t.Errorf("set aside %q, want %q", got, c.aside)
				}
			}
			if len(*warnings) != 1 {
				t.Errorf("warnings %q", *warnings)
			}
		})
	}
}

// TestTornMarkerRecord truncates the meta record after a marker: the title is
// still found, and written after the marker again.
func TestTornMarkerRecord(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, l.SetTitle("kept"))
	noErr(t, l.AddUptime(7))
	noErr(t, l.Append(user("a")))
	noErr(t, l.Compact("sum"))
	noErr(t, l.Close())
	const path = "/s/crab_user_1_kept.jsonl"
	b := text(t, m, path)
	cut := strings.LastIndex(b, `{"meta"`)
	m.WriteFile(path, []byte(b[:cut+9]), 0o600)
	s, err := d.Read("crab_user_1")
	noErr(t, err)
	c, err := s.Context()
	noErr(t, err)
	if c.Meta.Title != "kept" || c.Meta.UptimeSecs != 7 || c.Torn != 9 {
		t.Errorf("before recovery: %+v", c)
	}
	noErr(t, s.Close())
	l = reopen(t, d, "crab_user_1")
	if l.Meta().Title != "kept" {
		t.Errorf("title %q", l.Meta().Title)
	}
	noErr(t, l.Close())
	if got := text(t, m, path); got != b {
		t.Errorf("got\n%s\nwant\n%s", got, b)
	}
}

func TestFullDisk(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, l.Append(user("fits")))
	before := text(t, m, l.Path())
	m.Limit = int64(len(before)) + 200 + 10 // the lock's text, and 10 bytes
	long := user(strings.Repeat("x", 500))
	for _, f := range []func() error{
		func() error { return l.Append(long) },
		func() error { return l.Compact(long.Content) },
		func() error { return l.SetTitle(long.Content) },
	} {
		if err := f(); !errors.Is(err, sessionlog.ErrNotApplied) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("on a full disk: %v", err)
		}
		if got := text(t, m, l.Path()); got != before {
			t.Errorf("left %q", got)
		}
	}
	if l.Meta().Title != "" {
		t.Errorf("title %q", l.Meta().Title)
	}
	m.Limit = 0
	noErr(t, l.Append(user("again")))
	noErr(t, l.Close())
}

// TestFailedSync stops the session, and does not believe the page cache when it
// is opened again.
func TestFailedSync(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, l.Append(user("safe")))
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "datasync" {
			return syscall.EIO
		}
		return nil
	}
	if err := l.Append(user("lost?")); !errors.Is(err, sessionlog.ErrUnknown) || !errors.Is(err, syscall.EIO) {
		t.Errorf("append: %v", err)
	}
	m.Hook = nil
	for _, f := range []func() error{
		func() error { return l.Append(user("x")) }, l.Sync,
		func() error { return l.Compact("x") }, func() error { return l.SetTitle("x") }, func() error { return l.AddUptime(1) },
	} {
		if err := f(); !errors.Is(err, sessionlog.ErrStopped) {
			t.Errorf("after it: %v", err)
		}
	}
	again := reopen(t, d, "crab_user_1")
	noErr(t, again.Append(user("after")))
	noErr(t, l.Close())
	m = m.Crash()
	d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: m})
	noErr(t, err)
	l = reopen(t, d, "crab_user_1")
	c, err := l.Context()
	noErr(t, err)
	var got []string
	for _, m := range c.Messages {
		got = append(got, m.Content)
	}
	if s := strings.Join(got, " "); s != "safe lost? after" {
		t.Errorf("after the power cut: %q", s)
	}
	noErr(t, l.Close())
}

// TestSyncPolicies counts the syncs of each policy.
func TestSyncPolicies(t *testing.T) {
	call := sessionlog.Message{Role: "assistant", ToolCalls: []sessionlog.ToolCall{{ID: "a"}}}
	result := sessionlog.Message{Role: "tool", ToolCallID: "a", Content: "r"}
	for policy, want := range map[sessionlog.SyncPolicy][]bool{
		sessionlog.SyncTurns: {true, false, false, true, true, true, false},
		sessionlog.SyncAll:   {true, true, true, true, true, true, true},
		sessionlog.SyncNone:  {false, false, false, false, false, false, false},
	} {
		m, d, _ := onMem(t, sessionlog.Options{Sync: policy})
		l := begin(t, d)
		var got []bool
		for _, f := range []func() error{
			func() error { return l.Append(user("u")) },
			func() error { return l.Append(call) },
			func() error { return l.Append(result) },
			func() error { return l.Append(answer("a")) },
			func() error { return l.Compact("s") },
			func() error { return l.SetTitle("t") },
			func() error { return l.AddUptime(1) },
		} {
			synced := false
			m.Hook = func(c faultfs.Call) error { synced = synced || c.Op == "datasync"; return nil }
			noErr(t, f())
			got = append(got, synced)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("policy %d: %v, want %v", policy, got, want)
		}
		m.Hook = nil
		noErr(t, l.Close())
		if n := unsynced(m); n > 0 {
			t.Errorf("policy %d: %d changes are unsynced after close", policy, n)
		}
	}
}

func TestInvalidWrites(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{MaxLine: 100})
	l := begin(t, d)
	before := text(t, m, l.Path())
	for _, f := range []func() error{
		func() error { return l.Append(sessionlog.Message{Content: "no role"}) },
		func() error { return l.Append(user("good"), user("\xff")) },
		func() error {
			return l.Append(sessionlog.Message{Role: "assistant", ToolCalls: []sessionlog.ToolCall{{Function: sessionlog.Function{Arguments: "\xff"}}}})
		},
		func() error { return l.Append(user(strings.Repeat("x", 100))) },
		func() error { return l.Compact("\xff") },
		func() error { return l.Compact(strings.Repeat("x", 100)) },
		func() error { return l.SetTitle("\xff") },
		func() error { return l.SetTitle(strings.Repeat("x", 5000)) },
		func() error { return l.SetTitle("a\x00b") },
		func() error { _, err := d.Create(sessionlog.Meta{Agent: "crab"}); return err },
		func() error { _, err := d.Create(sessionlog.Meta{Agent: "\xff", CreatedBy: "u"}); return err },
		func() error { _, _, err := d.Import(sessionlog.Meta{Agent: "a", CreatedBy: "u"}, nil); return err },
	} {
		if err := f(); !errors.Is(err, sessionlog.ErrInvalid) {
			t.Errorf("%v, want %v", err, sessionlog.ErrInvalid)
		}
	}
	if got := text(t, m, l.Path()); got != before {
		t.Errorf("written: %q", got)
	}
	for _, id := range []string{"", ".", "..", "../s/crab_user_1", "crab_user_1/x", ".locks", "nobody", strings.Repeat("x", 300), "a\x00"} {
		if _, err := d.Open(id); !errors.Is(err, sessionlog.ErrNotFound) {
			t.Errorf("open %q: %v", id, err)
		}
		if _, err := d.Read(id); !errors.Is(err, sessionlog.ErrNotFound) {
			t.Errorf("read %q: %v", id, err)
		}
	}
	noErr(t, l.Close())
}

// TestNumbers checks that every session gets a unique number, whoever creates
// it, including titled and deleted sessions.
func TestNumbers(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: m, LockWait: time.Second})
			if err != nil {
				t.Error(err)
				return
			}
			for k := range 10 {
				l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: []string{"tg:1", "tg-1"}[i%2]})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[l.ID()] {
					t.Errorf("%s twice", l.ID())
				}
				seen[l.ID()] = true
				mu.Unlock()
				if k%3 == 0 {
					err = l.SetTitle(fmt.Sprint("title ", k))
				}
				if err := errors.Join(err, l.Close()); err != nil {
					t.Error(err)
				}
				if k%4 == 0 {
					if err := d.Delete(l.ID()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	// A number may be skipped: while one goroutine claims it, another can create
	// the session of the following number.
	if len(seen) != 80 {
		t.Errorf("%d ids, want 80", len(seen))
	}
	id, err := d.Latest("crab", "tg:1", "")
	noErr(t, err)
	l := reopen(t, d, id)
	if l.Meta().CreatedBy != "tg:1" {
		t.Errorf("the latest of tg:1 is of %s", l.Meta().CreatedBy)
	}
	noErr(t, l.Close())
	if _, err := d.Latest("crab", "tg 1", ""); !errors.Is(err, sessionlog.ErrNotFound) {
		t.Errorf("the latest of another sender with the slug: %v", err)
	}
}

// TestLatestSkipsUnreadable: a file without a meta line is no session of the
// empty agent and sender.
func TestLatestSkipsUnreadable(t *testing.T) {
	dir := t.TempDir()
	writeSession(t, dir, "__1.jsonl", "no meta line")
	if id, err := openDir(t, dir).Latest("", "", ""); !errors.Is(err, sessionlog.ErrNotFound) {
		t.Errorf("the latest is %q, error %v, want %v", id, err, sessionlog.ErrNotFound)
	}
}

func TestDeleteRestore(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, l.Append(user("a")))
	noErr(t, l.SetTitle("b"))
	noErr(t, l.Close())
	before := text(t, m, "/s/crab_user_1_b.jsonl")
	noErr(t, d.Delete("crab_user_1"))
	if _, err := d.Open("crab_user_1"); !errors.Is(err, sessionlog.ErrNotFound) {
		t.Errorf("open of a deleted session: %v", err)
	}
	trash, err := d.Trashed()
	noErr(t, err)
	if len(trash) != 1 || trash[0].ID != "crab_user_1" {
		t.Errorf("trash %+v", trash)
	}
	if l := begin(t, d); l.ID() != "crab_user_2" {
		t.Errorf("the id of a deleted session was given again: %s", l.ID())
	}
	noErr(t, d.Restore("crab_user_1"))
	if got := text(t, m, "/s/crab_user_1_b.jsonl"); got != before {
		t.Errorf("restored %q", got)
	}
	if n := unsynced(m); n > 0 {
		t.Errorf("%d changes are unsynced", n)
	}
	if err := d.Restore("crab_user_1"); !errors.Is(err, sessionlog.ErrNotFound) {
		t.Errorf("a second restore: %v", err)
	}
	// A stranger's file in the way is not replaced.
	noErr(t, d.Delete("crab_user_1"))
	m.WriteFile("/s/crab_user_1_b.jsonl", []byte("mine"), 0o600)
	if err := d.Restore("crab_user_1"); !errors.Is(err, sessionlog.ErrExists) {
		t.Errorf("restore over a file: %v", err)
	}
	if got := text(t, m, "/s/crab_user_1_b.jsonl"); got != "mine" {
		t.Errorf("it holds %q", got)
	}
}

func TestCompactions(t *testing.T) {
	_, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	var want []string
	for i := range 5 {
		var lines []byte
		if i > 0 {
			lines = line.AppendMetaRecord(lines, "", 0) // of the marker before
		}
		for k := range i {
			m := user(fmt.Sprint(i, k))
			noErr(t, l.Append(m))
			lines = line.AppendMessage(lines, &m)
		}
		noErr(t, l.Compact(fmt.Sprint("sum ", i)))
		want = append(want, string(lines))
	}
	noErr(t, l.Close())
	s, err := d.Read("crab_user_1")
	noErr(t, err)
	defer s.Close()
	cs, err := s.Compactions()
	noErr(t, err)
	if len(cs) != len(want) {
		t.Fatalf("%d compactions", len(cs))
	}
	for i, c := range cs {
		var b bytes.Buffer
		noErr(t, s.Expand(c, &b))
		if b.String() != want[i] || c.Summary != fmt.Sprint("sum ", i) || c.N != i+1 || c.Messages != i {
			t.Errorf("compaction %+v expands to\n%s\nwant\n%s", c, b.String(), want[i])
		}
		if n := int64(strings.Count(want[i], "\n")); c.LastLine-c.FirstLine+1 != n || c.Line != c.LastLine+1 {
			t.Errorf("compaction %+v has %d lines", c, n)
		}
	}
}

func TestImport(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	meta := sessionlog.Meta{Agent: "claude-code", CreatedBy: "user", CreatedAt: "2026-01-01T00:00:00+00:00", Source: "claude-code:1"}
	items := []sessionlog.Item{{Message: user("a")}, {Marker: true, Summary: "s"}, {Message: answer("b")}}
	id, changed, err := d.Import(meta, items)
	noErr(t, err)
	if id != "claude-code_user_1" || !changed {
		t.Errorf("%s %v", id, changed)
	}
	for _, dir := range []string{"/s", "/s"} { // a new Dir knows it too
		d, err := sessionlog.OpenDir(dir, &sessionlog.Options{FS: m})
		noErr(t, err)
		again, changed, err := d.Import(meta, items)
		noErr(t, err)
		if again != id || changed {
			t.Errorf("again: %s %v", again, changed)
		}
	}
	if _, err := d.Open(id); !errors.Is(err, sessionlog.ErrReadOnly) {
		t.Errorf("open for writing: %v", err)
	}
	if _, err := d.Latest("claude-code", "user", ""); !errors.Is(err, sessionlog.ErrNotFound) {
		t.Errorf("an imported session is resumed: %v", err)
	}
	meta.Title = "grown"
	again, changed, err := d.Import(meta, append(items, sessionlog.Item{Message: user("c")}))
	noErr(t, err)
	infos, err := d.List()
	noErr(t, err)
	if again != id || !changed || len(infos) != 1 || infos[0].Messages != 3 || infos[0].File != "claude-code_user_1_grown.jsonl" {
		t.Errorf("a longer transcript: %s %v %+v", again, changed, infos)
	}
	meta.Source = "claude-code:2"
	if id, _, err = d.Import(meta, items); err != nil || id != "claude-code_user_2" {
		t.Errorf("another: %s %v", id, err)
	}
	if n := unsynced(m); n > 0 {
		t.Errorf("%d changes are unsynced", n)
	}
}

// TestFilesThatAreNotSessions puts other files, links, and folders next to a session.
func TestFilesThatAreNotSessions(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, l.Close())
	m.Mkfifo("/s/fifo.jsonl")
	m.Symlink("/s/crab_user_1.jsonl", "/s/link.jsonl")
	noErr(t, m.Mkdir("/s/dir.jsonl", 0o700))
	m.WriteFile("/s/empty.jsonl", nil, 0o600)
	m.WriteFile("/s/notes.txt", []byte("no"), 0o600)
	m.WriteFile("/s/half.jsonl", []byte(metaLine[:40]), 0o600)
	m.WriteFile("/s/prose.jsonl", []byte("once upon a time\nthere was\n"), 0o600)
	infos, err := d.List()
	noErr(t, err)
	got := map[string]string{}
	for _, i := range infos {
		got[i.File] = fmt.Sprint(i.Damaged, " ", i.Err != nil)
	}
	want := map[string]string{"crab_user_1.jsonl": "0 false", "fifo.jsonl": "0 true", "link.jsonl": "0 true", "dir.jsonl": "0 true",
		"empty.jsonl": "1 false", "half.jsonl": "1 false", "prose.jsonl": "2 false"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for _, id := range []string{"fifo", "link", "dir", "empty", "half", "prose"} {
		_, err := d.Open(id)
		if !errors.Is(err, sessionlog.ErrFormat) && !errors.Is(err, vfs.ErrNotRegular) {
			t.Errorf("open %s: %v", id, err)
		}
	}
	for _, name := range []string{"half", "prose"} {
		noErr(t, d.Delete(name)) // an unreadable session can be deleted
		noErr(t, d.Restore(name))
	}
	if _, err := m.Lstat("/s/.locks/half.lock"); err != nil {
		t.Error(err)
	}
	if id, err := d.Latest("crab", "user", ""); id != "crab_user_1" || err != nil {
		t.Errorf("latest %s %v", id, err)
	}
	var list []fs.DirEntry
	list, err = m.ReadDir("/s")
	noErr(t, err)
	if len(list) != 10 {
		t.Errorf("%d names in the folder", len(list))
	}
}

// TestRepair removes bad lines and keeps a copy of the complete file.
func TestRepair(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{MaxLine: 1000})
	noErr(t, m.Mkdir("/s", 0o700))
	good := []string{`{"role":"user","content":"a"}`, `{"x":[1, 2]}`, ``, `{"role":"user","content":"b"}`, `{"role":"assistant","content":"c"}`}
	all := metaLine + good[0] + "\n" + "\x00\x00\x00\n" + good[1] + "\n" + good[2] + "\n" +
		`{"role":"user","con` + good[3] + "\n" + strings.Repeat("x", 1001) + "\n" + good[4] + "\n" + `{"role":`
	m.WriteFile("/s/crab_user_1.jsonl", []byte(all), 0o600)
	s, err := d.Read("crab_user_1")
	noErr(t, err)
	c, err := s.Check()
	noErr(t, err)
	noErr(t, s.Close())
	if c.Damaged != 3 || c.Messages != 3 || c.Unknown != 1 || c.Torn != 8 || c.Lines != 8 ||
		c.Damage[0].Line != 3 || c.Damage[1].Line != 6 || c.Damage[2].Line != 7 || c.TornAt != int64(len(all)-8) {
		t.Errorf("check %+v", c)
	}
	did, err := d.Repair("crab_user_1")
	noErr(t, err)
	if did.Dropped != 3 || did.Unglued != 1 || text(t, m, did.Copy) != all {
		t.Errorf("%+v", did)
	}
	want := metaLine + strings.Join(good, "\n") + "\n"
	if got := text(t, m, "/s/crab_user_1.jsonl"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if did, err := d.Repair("crab_user_1"); err != nil || did != (sessionlog.Repaired{}) {
		t.Errorf("a second time: %+v %v", did, err)
	}
	l := reopen(t, d, "crab_user_1")
	_, err = l.Context()
	noErr(t, err)
	noErr(t, l.Close())
	m.WriteFile("/s/prose.jsonl", []byte("once\n"), 0o600)
	if _, err := d.Repair("prose"); !errors.Is(err, sessionlog.ErrFormat) {
		t.Errorf("repair of prose: %v", err)
	}
	if n := unsynced(m); n > 3 { // the files this test wrote
		t.Errorf("%d changes are unsynced", n)
	}
}

// TestTornMiddle opens files with the effects of power cuts in the middle of
// unsynced lines, and files that only look similar.
func TestTornMiddle(t *testing.T) {
	const (
		ask    = `{"role":"user","content":"a"}` + "\n"
		call   = `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{}"}}]}` + "\n"
		result = `{"role":"tool","content":"r","tool_call_id":"c"}` + "\n"
		hole   = "{\"role\":\"tool\",\"con\x00\x00\x00\x00\n"
		same   = `{"meta":{"title":"t","uptime_secs":9}}` + "\n"
		other  = `{"meta":{"title":"new","uptime_secs":9}}` + "\n"
	)
	head := strings.Replace(metaLine, `"title":""`, `"title":"t"`, 1) + ask
	for _, c := range []struct{ name, tail, torn string }{
		{"a hole", hole, hole},
		{"a hole before a result", call + hole + result, hole + result},
		{"two holes", hole + call + hole + result, hole + call + hole + result},
		{"a hole and half a line", call + hole + result + ask[:9], hole + result + ask[:9]},
		{"a hole and an answer without its end", call + hole + result + ask[:len(ask)-1], hole + result + ask[:len(ask)-1]},
		{"a hole before the same title", hole + same, hole + same},
		{"a hole before another title", hole + other, ""},
		{"a hole before a user's message", hole + ask, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, d, _ := onMem(t, sessionlog.Options{})
			l := begin(t, d)
			noErr(t, l.Append(user("a")))
			path := l.Path()
			killed := m.Kill()
			cut := m.Crash()
			all := head + c.tail
			for _, m := range []*faultfs.Mem{killed, cut} {
				m.WriteFile(path, []byte(all), 0o600)
				d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: m})
				noErr(t, err)
				l := reopen(t, d, "crab_user_1")
				noErr(t, l.Close())
				want, torn := all, ""
				if m == cut && c.torn != "" {
					torn = c.torn
				} else if i := strings.LastIndexByte(all, '\n') + 1; i < len(all) {
					torn = all[i:]
					if torn == ask[:len(ask)-1] {
						want, torn = want+"\n", ""
					}
				}
				want = want[:len(want)-len(torn)]
				if got := text(t, m, path); got != want {
					t.Errorf("cut %v: got\n%q\nwant\n%q", m == cut, got, want)
				}
				if torn != "" {
					if got := text(t, m, fmt.Sprintf("/s/.torn/crab_user_1-%d.jsonl", len(want))); got != torn {
						t.Errorf("cut %v: set aside %q, want %q", m == cut, got, torn)
					}
				}
			}
		})
	}
}

// TestTitleNeverReplacesAFile gives titles for which the folder has another
// file of that name: the session keeps its name, and the other file its bytes.
func TestTitleNeverReplacesAFile(t *testing.T) {
	const other = "not a session of this program\n"
	m, d, warnings := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, l.Append(user("hello")))
	m.WriteFile("/s/crab_user_1_which-port.jsonl", []byte(other), 0o600)
	noErr(t, m.Mkdir("/s/crab_user_1_a-folder.jsonl", 0o700))
	for _, title := range []string{"Which port?", "A folder"} {
		*warnings = nil
		noErr(t, l.SetTitle(title))
		if l.Path() != "/s/crab_user_1.jsonl" {
			t.Errorf("%s: the session is %s", title, l.Path())
		}
		if got := text(t, m, "/s/crab_user_1_which-port.jsonl"); got != other {
			t.Errorf("%s: the other file is %q", title, got)
		}
		if want := "/s/crab_user_1.jsonl keeps its name"; len(*warnings) != 1 || !strings.Contains((*warnings)[0], want) {
			t.Errorf("%s: warnings %q, want one: %q", title, *warnings, want)
		}
		c, err := l.Context()
		noErr(t, err)
		if c.Meta.Title != title || len(c.Messages) != 1 {
			t.Errorf("the session has the title %q and %d messages, want %q and 1", c.Meta.Title, len(c.Messages), title)
		}
	}
	// A rename that fails.
	*warnings = nil
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "rename" {
			return syscall.EACCES
		}
		return nil
	}
	noErr(t, l.SetTitle("A fixed port"))
	m.Hook = nil
	if want := "/s/crab_user_1.jsonl keeps its name: "; l.Path() != "/s/crab_user_1.jsonl" || len(*warnings) != 1 || !strings.Contains((*warnings)[0], want) {
		t.Errorf("a failed rename: the session is %s, warnings %q, want one: %q", l.Path(), *warnings, want)
	}
	noErr(t, l.Append(user("still here")))
	// A name that is free is taken.
	noErr(t, l.SetTitle("Another port"))
	if l.Path() != "/s/crab_user_1_another-port.jsonl" {
		t.Errorf("the session is %s", l.Path())
	}
}
