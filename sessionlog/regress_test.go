package sessionlog_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
)

// Regression tests for failures that crash tests found, each reduced to a
// minimum.

// dirOn opens the folder of another process on a machine.
func dirOn(t testing.TB, m *faultfs.Mem, o sessionlog.Options) *sessionlog.Dir {
	t.Helper()
	o.FS = m
	d, err := sessionlog.OpenDir("/s", &o)
	noErr(t, err)
	return d
}

// failOn fails the calls of one kind.
func failOn(op string) func(faultfs.Call) error {
	return func(c faultfs.Call) error {
		if c.Op == op {
			return syscall.EIO
		}
		return nil
	}
}

// TestCopyOfTornIsDurable kills a process that has put a copy aside and not
// synced its name. The next one finds the copy and cuts the file.
func TestCopyOfTornIsDurable(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	noErr(t, m.Mkdir("/s", 0o700))
	m.WriteFile("/s/crab_user_1.jsonl", []byte(metaLine+"torn"), 0o600)
	var killed *faultfs.Mem
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "syncdir" && strings.HasSuffix(c.Name, ".torn") {
			killed = m.Kill()
		}
		return nil
	}
	noErr(t, reopen(t, d, "crab_user_1").Close())
	d = dirOn(t, killed, sessionlog.Options{})
	noErr(t, reopen(t, d, "crab_user_1").Close())
	cut := killed.Crash()
	if got := text(t, cut, "/s/crab_user_1.jsonl"); got != metaLine {
		t.Errorf("the file holds %q", got)
	}
	if got := text(t, cut, fmt.Sprintf("/s/.torn/crab_user_1-%d.jsonl", len(metaLine))); got != "torn" {
		t.Errorf("kept %q", got)
	}
}

func importedMeta(title string) sessionlog.Meta {
	return sessionlog.Meta{Agent: "codex", CreatedBy: "user", CreatedAt: "2026-04-14T12:00:00+00:00", Title: title, Source: "codex:1"}
}

// TestImportIsOneFile cuts the power at every call of an import that gives the
// session another title.
func TestImportIsOneFile(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	items := []sessionlog.Item{{Message: user("a")}}
	_, _, err := d.Import(importedMeta("one"), items)
	noErr(t, err)
	cuts := 0
	m.Hook = func(faultfs.Call) error {
		for i := range m.Unsynced() {
			outcomes := make([]faultfs.Outcome, i+1)
			outcomes[i] = faultfs.Kept
			s, err := dirOn(t, m.Crash(outcomes...), sessionlog.Options{}).Read("codex_user_1")
			noErr(t, err)
			noErr(t, s.Close())
			cuts++
		}
		return nil
	}
	_, _, err = d.Import(importedMeta("two"), items)
	noErr(t, err)
	if cuts == 0 {
		t.Error("no write was unsynced")
	}
}

// TestImportAgainIsDurable imports an existing transcript that was never
// synced.
func TestImportAgainIsDurable(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	noErr(t, begin(t, d).Close())
	items := []sessionlog.Item{{Message: user("a")}}
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "syncdir" && c.Name == "/s" {
			return syscall.EIO
		}
		return nil
	}
	if _, _, err := d.Import(importedMeta(""), items); !errors.Is(err, sessionlog.ErrUnknown) {
		t.Errorf("import: %v", err)
	}
	m.Hook = nil
	_, _, err := d.Import(importedMeta(""), items)
	noErr(t, err)
	s, err := dirOn(t, m.Crash(), sessionlog.Options{}).Read("codex_user_1")
	noErr(t, err)
	noErr(t, s.Close())
}

// TestCreateUnknown lets everything fail from the sync of the new name on: the
// file may be there.
func TestCreateUnknown(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	noErr(t, begin(t, d).Close())
	failed := false
	m.Hook = func(c faultfs.Call) error {
		if failed = failed || c.Op == "syncdir" && c.Name == "/s"; failed {
			return syscall.EIO
		}
		return nil
	}
	_, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	if !errors.Is(err, sessionlog.ErrUnknown) || errors.Is(err, sessionlog.ErrNotApplied) {
		t.Errorf("create: %v", err)
	}
}

// TestTitleOfAnotherProcess writes records to a session while another process
// set a title and a run time. The files of the session were closed.
func TestTitleOfAnotherProcess(t *testing.T) {
	for name, write := range map[string]func(*sessionlog.Log) error{
		"compact": func(l *sessionlog.Log) error { return l.Compact("sum") },
		"uptime":  func(l *sessionlog.Log) error { return l.AddUptime(1) },
		"title":   func(l *sessionlog.Log) error { return l.SetTitle("theirs") },
	} {
		t.Run(name, func(t *testing.T) {
			m, d, _ := onMem(t, sessionlog.Options{MaxOpen: 1})
			l := begin(t, d)
			noErr(t, begin(t, d).Append(user("the other session is the latest used")))
			other := reopen(t, dirOn(t, m, sessionlog.Options{}), "crab_user_1")
			noErr(t, other.AddUptime(5))
			noErr(t, other.SetTitle("theirs"))
			noErr(t, other.Close())
			noErr(t, write(l))
			c, err := l.Context()
			noErr(t, err)
			if c.Meta.Title != "theirs" || c.Meta.UptimeSecs < 5 {
				t.Errorf("title %q, run time %d", c.Meta.Title, c.Meta.UptimeSecs)
			}
		})
	}
}

// TestWriteRecoversFirst appends to a session whose files were closed, and which
// then lost the meta record after its marker.
func TestWriteRecoversFirst(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{MaxOpen: 1})
	l := begin(t, d)
	noErr(t, l.Compact("sum"))
	noErr(t, begin(t, d).Append(user("the other session is the latest used")))
	all := text(t, m, l.Path())
	m.WriteFile(l.Path(), []byte(all[:strings.LastIndex(all, `{"meta"`)]), 0o600)
	noErr(t, l.Append(user("a message")))
	want := all + `{"role":"user","content":"a message"}` + "\n"
	if got := text(t, m, l.Path()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestNameThatCannotBeSynced sets a title while the folder cannot be synced,
// rewrites the file after a kill, and cuts the power: exactly one file remains.
func TestNameThatCannotBeSynced(t *testing.T) {
	m, d, warnings := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	m.Hook = failOn("syncdir")
	noErr(t, l.SetTitle("port"))
	if len(*warnings) != 1 {
		t.Errorf("warnings %q", *warnings)
	}
	m = m.Kill()
	l = reopen(t, dirOn(t, m, sessionlog.Options{}), "crab_user_1")
	noErr(t, l.Append(user("a")))
	l = reopen(t, dirOn(t, m.Crash(), sessionlog.Options{}), "crab_user_1")
	c, err := l.Context()
	noErr(t, err)
	if len(c.Messages) != 1 || c.Meta.Title != "port" {
		t.Errorf("%+v", c)
	}
}

// TestCloseAfterLostSync closes a session whose last sync failed when its files
// were closed for another session.
func TestCloseAfterLostSync(t *testing.T) {
	step := sessionlog.Message{Role: "assistant", ToolCalls: []sessionlog.ToolCall{{ID: "a"}}}
	for _, told := range []bool{false, true} {
		m, d, _ := onMem(t, sessionlog.Options{MaxOpen: 1})
		l := begin(t, d)
		noErr(t, l.Append(step))
		m.Hook = failOn("datasync")
		begin(t, d)
		m.Hook = nil
		if told {
			if err := l.Append(step); !errors.Is(err, sessionlog.ErrStopped) {
				t.Errorf("append: %v", err)
			}
		}
		if err := l.Close(); errors.Is(err, sessionlog.ErrStopped) == told {
			t.Errorf("close, reported before %v: %v", told, err)
		}
	}
}

// TestRestoreIsDurable writes to a session that was restored, where the names
// are not on the disk, and cuts the power.
func TestRestoreIsDurable(t *testing.T) {
	for _, killed := range []bool{true, false} {
		m, d, _ := onMem(t, sessionlog.Options{})
		noErr(t, begin(t, d).Close())
		noErr(t, d.Delete("crab_user_1"))
		var kill *faultfs.Mem
		failed := false
		m.Hook = func(c faultfs.Call) error {
			if c.Op != "syncdir" || c.Name != "/s" {
				return nil
			}
			for _, change := range m.Unsynced() {
				if kill == nil && change.Op == "rename" {
					kill = m.Kill()
				}
			}
			if kill == nil || killed || failed {
				return nil
			}
			failed = true
			return syscall.EIO
		}
		err := d.Restore("crab_user_1")
		m.Hook = nil
		if killed {
			noErr(t, err)
			m = kill
			d = dirOn(t, m, sessionlog.Options{})
		} else {
			if !errors.Is(err, sessionlog.ErrNotApplied) {
				t.Errorf("restore: %v", err)
			}
			if _, err := d.Open("crab_user_1"); !errors.Is(err, sessionlog.ErrNotFound) {
				t.Errorf("it was not put back: %v", err)
			}
			continue
		}
		l, err := d.Open("crab_user_1")
		noErr(t, err)
		noErr(t, l.Append(user("a")))
		l = reopen(t, dirOn(t, m.Crash(), sessionlog.Options{}), "crab_user_1")
		c, err := l.Context()
		noErr(t, err)
		if len(c.Messages) != 1 {
			t.Errorf("%+v", c)
		}
	}
}

// TestRepairAgainIsDurable repairs a session that was repaired but never
// synced.
func TestRepairAgainIsDurable(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	noErr(t, begin(t, d).Close())
	m.WriteFile("/s/crab_user_1.jsonl", []byte(metaLine+"bad\n"), 0o600)
	renamed := false
	m.Hook = func(c faultfs.Call) error {
		renamed = renamed || c.Op == "rename" && c.Name == "/s/crab_user_1.jsonl"
		if renamed && c.Op == "syncdir" {
			return syscall.EIO
		}
		return nil
	}
	if _, err := d.Repair("crab_user_1"); !errors.Is(err, sessionlog.ErrUnknown) {
		t.Errorf("repair: %v", err)
	}
	m.Hook = nil
	did, err := d.Repair("crab_user_1")
	noErr(t, err)
	if did != (sessionlog.Repaired{}) {
		t.Errorf("%+v", did)
	}
	if got := text(t, m.Crash(), "/s/crab_user_1.jsonl"); got != metaLine {
		t.Errorf("after a crash: %q", got)
	}
}

// TestOneNameAfterRewrite undoes a rename that is durable, and cuts the power
// while the file is rewritten under the old name.
func TestOneNameAfterRewrite(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "syncdir" {
			return &faultfs.Fault{Err: syscall.EIO, Done: true}
		}
		return nil
	}
	noErr(t, l.SetTitle("port"))
	m.Hook = failOn("datasync")
	if err := l.Append(user("a")); !errors.Is(err, sessionlog.ErrUnknown) {
		t.Errorf("append: %v", err)
	}
	cuts := 0
	m.Hook = func(faultfs.Call) error {
		for i := range m.Unsynced() {
			outcomes := make([]faultfs.Outcome, i+1)
			outcomes[i] = faultfs.Kept
			noErr(t, reopen(t, dirOn(t, m.Crash(outcomes...), sessionlog.Options{}), "crab_user_1").Close())
			cuts++
		}
		return nil
	}
	noErr(t, reopen(t, d, "crab_user_1").Close())
	if cuts == 0 {
		t.Error("no write was unsynced")
	}
}

// TestTornInTrash moves a file that a power cut tore into the trash and back
// before recovery.
func TestTornInTrash(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, l.Append(user("a")))
	path := l.Path()
	all := text(t, m, path)
	m = m.Crash()
	const hole = "{\"role\":\"tool\",\"con\x00\x00\x00\x00\n"
	m.WriteFile(path, []byte(all+hole), 0o600)
	d = dirOn(t, m, sessionlog.Options{})
	noErr(t, d.Delete("crab_user_1"))
	noErr(t, d.Restore("crab_user_1"))
	noErr(t, reopen(t, d, "crab_user_1").Close())
	if got := text(t, m, path); got != all {
		t.Errorf("it holds %q", got)
	}
	if got := text(t, m, fmt.Sprintf("/s/.torn/crab_user_1-%d.jsonl", len(all))); got != hole {
		t.Errorf("kept %q", got)
	}
}

// TestTornTailStays fails the truncation of a torn tail: Open fails and changes nothing,
// and the next one succeeds.
func TestTornTailStays(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	const file, torn = "/s/crab_user_1.jsonl", metaLine + `{"role":"us`
	noErr(t, m.Mkdir("/s", 0o700))
	m.WriteFile(file, []byte(torn), 0o600)
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "truncate" && c.Name == file {
			return syscall.EIO
		}
		return nil
	}
	if _, err := d.Open("crab_user_1"); !errors.Is(err, syscall.EIO) || text(t, m, file) != torn {
		t.Errorf("%v, the file is %q", err, text(t, m, file))
	}
	m.Hook = nil
	l, err := d.Open("crab_user_1")
	noErr(t, err)
	if noErr(t, l.Close()); text(t, m, file) != metaLine {
		t.Errorf("the file is %q", text(t, m, file))
	}
}

// TestLatestIsTheHighest lists sessions in the order of their names, in which 10 comes
// before 9.
func TestLatestIsTheHighest(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	noErr(t, m.Mkdir("/s", 0o700))
	for _, n := range []int{1, 9, 10} {
		m.WriteFile(fmt.Sprintf("/s/crab_user_%d.jsonl", n), []byte(metaLine), 0o600)
	}
	if id, err := d.Latest("crab", "user", ""); id != "crab_user_10" || err != nil {
		t.Errorf("%s, %v", id, err)
	}
}
