package sessionlog_test

import (
	"errors"
	"path"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
)

const displacedPath = "/s/" + displacedID + ".jsonl"

// once calls do before the first call that match describes.
func once(m *faultfs.Mem, match func(faultfs.Call) bool, do func()) (done *bool) {
	done = new(bool)
	m.Hook = func(c faultfs.Call) error {
		if !*done && match(c) {
			*done = true
			do()
		}
		return nil
	}
	return done
}

// replaceWith puts a valid session in the place of a file.
func replaceWith(t *testing.T, m *faultfs.Mem, name, content string) func() {
	return func() {
		m.WriteFile("/other", []byte(content), 0o600)
		noErr(t, m.Rename("/other", name))
	}
}

func pendingSync(c faultfs.Call) bool {
	return c.Op == "sync" && strings.HasPrefix(path.Base(c.Name), ".") && !strings.Contains(c.Name, ".kept")
}

// TestCopyIsRetried lets the copy of a displaced session fail: the error says
// so, the file stays open, and Close copies it.
func TestCopyIsRetried(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, l.Append(user("earlier")))
	noErr(t, m.Remove(displacedPath))
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "write" && strings.Contains(c.Name, ".kept") {
			return syscall.ENOSPC
		}
		return nil
	}
	err := l.Append(user("later"))
	if !errors.Is(err, sessionlog.ErrUnknown) || !strings.Contains(err.Error(), "could not be copied") {
		t.Errorf("append: %v", err)
	}
	m.Hook = nil
	if err := l.Append(user("late")); !errors.Is(err, sessionlog.ErrStopped) {
		t.Errorf("append after it: %v", err)
	}
	var e *sessionlog.DisplacedError
	if err := l.Close(); !errors.As(err, &e) || e.Copy == "" || e.CopyErr != nil {
		t.Fatalf("close: %v", err)
	}
	if got := text(t, m, e.Copy); !strings.Contains(got, "earlier") || !strings.Contains(got, "later") {
		t.Errorf("the copy holds %q", got)
	}
	noErr(t, d.Close())
}

// TestUndoKeepsOtherWriter fills the disk of a writer whose lock file was
// removed, while another writer has the session open. Undoing the write must
// not truncate the other writer's acknowledged lines.
func TestUndoKeepsOtherWriter(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, m.Remove("/s/.locks/"+displacedID+".lock"))
	other := reopen(t, dirOn(t, m, sessionlog.Options{}), displacedID)
	noErr(t, other.Append(user("of the other writer")))
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "write" && c.Name == displacedPath {
			return &faultfs.Fault{Err: syscall.ENOSPC, N: 3}
		}
		return nil
	}
	if err := l.Append(user("first")); !errors.Is(err, sessionlog.ErrUnknown) || !errors.Is(err, sessionlog.ErrDisplaced) {
		t.Errorf("append: %v", err)
	}
	m.Hook = nil
	if got := text(t, m, displacedPath); !strings.Contains(got, "of the other writer") {
		t.Errorf("the session holds %q", got)
	}
	if err := other.Append(user("second")); !errors.Is(err, sessionlog.ErrDisplaced) {
		t.Errorf("append of the other writer: %v", err)
	}
}

// TestDisplacedWhenEvicted removes a session's file before its files are closed
// for another session's: the next write reports it.
func TestDisplacedWhenEvicted(t *testing.T) {
	m, d, warnings := onMem(t, sessionlog.Options{MaxOpen: 1})
	l := begin(t, d)
	noErr(t, l.Append(user("earlier")))
	noErr(t, m.Remove(displacedPath))
	begin(t, d)
	var e *sessionlog.DisplacedError
	if err := l.Append(user("later")); !errors.Is(err, sessionlog.ErrStopped) || !errors.As(err, &e) || e.Copy == "" {
		t.Fatalf("append: %v; warnings %q", err, *warnings)
	}
	if got := text(t, m, e.Copy); !strings.Contains(got, "earlier") {
		t.Errorf("the copy holds %q", got)
	}
}

// TestNumberOfKeptSession creates a session after one was removed of which a
// copy is kept: the number is not given again.
func TestNumberOfKeptSession(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, m.Remove(displacedPath))
	if err := l.Append(user("later")); !errors.Is(err, sessionlog.ErrDisplaced) {
		t.Errorf("append: %v", err)
	}
	if id := begin(t, d).ID(); id != "crab_user_2" {
		t.Errorf("created %s", id)
	}
}

// TestReadNamesKeptCopy reads a session that was removed and of which a copy is
// kept.
func TestReadNamesKeptCopy(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, m.Remove(displacedPath))
	var e *sessionlog.DisplacedError
	if err := l.Append(user("later")); !errors.As(err, &e) {
		t.Fatalf("append: %v", err)
	}
	if _, err := d.Read(displacedID); !errors.Is(err, sessionlog.ErrNotFound) || !strings.Contains(err.Error(), e.Copy) {
		t.Errorf("read: %v", err)
	}
	list, err := d.List()
	if err != nil || len(list) != 0 {
		t.Errorf("listed %+v, %v", list, err)
	}
}

// TestReplacedBeforeRename replaces a session's file in the last moment before
// a rename, a deletion or a rewrite: the file of the other program stays as it
// is.
func TestReplacedBeforeRename(t *testing.T) {
	meta := importedMeta("")
	imported := "/s/codex_user_1.jsonl"
	for _, c := range []struct {
		name  string
		path  string
		match func(faultfs.Call) bool
		do    func(m *faultfs.Mem, d *sessionlog.Dir) error
	}{
		{"title", displacedPath,
			func(c faultfs.Call) bool { return c.Op == "lstat" && c.Name == "/s/"+displacedID+"_port.jsonl" },
			func(_ *faultfs.Mem, d *sessionlog.Dir) error { return reopen(t, d, displacedID).SetTitle("port") }},
		{"delete", displacedPath,
			func(c faultfs.Call) bool { return c.Op == "readdir" && c.Name == "/s/.trash" },
			func(_ *faultfs.Mem, d *sessionlog.Dir) error { return d.Delete(displacedID) }},
		{"repair", displacedPath, pendingSync,
			func(m *faultfs.Mem, d *sessionlog.Dir) error {
				_, err := d.Repair(displacedID)
				return err
			}},
		{"import", imported, pendingSync,
			func(m *faultfs.Mem, d *sessionlog.Dir) error {
				_, _, err := d.Import(meta, []sessionlog.Item{{Message: user("a")}, {Message: user("b")}})
				return err
			}},
		{"create", "/s/crab_user_2.jsonl", pendingSync,
			func(_ *faultfs.Mem, d *sessionlog.Dir) error {
				_, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
				return err
			}},
	} {
		m, d, _ := onMem(t, sessionlog.Options{})
		l := begin(t, d)
		noErr(t, l.Append(user("earlier")))
		noErr(t, l.Close())
		_, _, err := d.Import(meta, []sessionlog.Item{{Message: user("a")}})
		noErr(t, err)
		if c.name == "repair" {
			m.WriteFile(displacedPath, []byte(metaLine+`{"role":"user","content":"earlier"}`+"\nbad\n"), 0o600)
		}
		done := once(m, c.match, replaceWith(t, m, c.path, foreignSession))
		err = c.do(m, d)
		m.Hook = nil
		if !*done || !errors.Is(err, sessionlog.ErrDisplaced) {
			t.Errorf("%s: replaced %v, %v", c.name, *done, err)
		}
		if got := text(t, m, c.path); got != foreignSession {
			t.Errorf("%s: the other program's file holds %q", c.name, got)
		}
	}
}

// TestReplacedDuringRewrite replaces a session's file while the next writer
// after a kill rewrites it: the lines are kept.
func TestReplacedDuringRewrite(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	noErr(t, begin(t, d).Append(user("earlier")))
	m = m.Kill()
	done := once(m, pendingSync, replaceWith(t, m, displacedPath, foreignSession))
	_, err := dirOn(t, m, sessionlog.Options{}).Open(displacedID)
	var e *sessionlog.DisplacedError
	if !*done || !errors.As(err, &e) || e.Copy == "" {
		t.Fatalf("replaced %v: %v", *done, err)
	}
	if got := text(t, m, e.Copy); !strings.Contains(got, "earlier") {
		t.Errorf("the copy holds %q", got)
	}
	if got := text(t, m, displacedPath); got != foreignSession {
		t.Errorf("the other program's file holds %q", got)
	}
}

// TestOverwrittenBeforeCut overwrites a session with a torn tail before the tail
// is cut off.
func TestOverwrittenBeforeCut(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	noErr(t, begin(t, d).Close())
	put(t, m, displacedPath, metaLine+`{"role":"user","content":"to`)
	done := once(m, func(c faultfs.Call) bool { return c.Op == "syncdir" && c.Name == "/s/.torn" },
		func() { m.WriteFile(displacedPath, []byte(foreignSession), 0o600) })
	if _, err := d.Open(displacedID); !*done || !errors.Is(err, sessionlog.ErrDisplaced) {
		t.Errorf("replaced %v: %v", *done, err)
	}
	if got := text(t, m, displacedPath); got != foreignSession {
		t.Errorf("the other program's file holds %q", got)
	}
}

// TestRenameThatReportsAnError writes after a title whose rename took effect
// but returned an error: the file is still the writer's.
func TestRenameThatReportsAnError(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "rename" {
			return &faultfs.Fault{Err: syscall.EIO, Done: true}
		}
		return nil
	}
	noErr(t, l.SetTitle("port"))
	m.Hook = nil
	noErr(t, l.Append(user("later")))
	noErr(t, l.Close())
	list, err := d.List()
	if err != nil || len(list) != 1 || list[0].Meta.Title != "port" || list[0].Messages != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestReplacedAfterRename replaces a session's file between the rename that
// gives it the name and the open that follows.
func TestReplacedAfterRename(t *testing.T) {
	for _, create := range []bool{true, false} {
		m, d, _ := onMem(t, sessionlog.Options{})
		if !create {
			noErr(t, begin(t, d).Append(user("earlier")))
			m = m.Kill()
			d = dirOn(t, m, sessionlog.Options{})
		}
		renamed := false
		done := once(m, func(c faultfs.Call) bool {
			renamed = renamed || c.Op == "rename" && c.Name == displacedPath
			return renamed && c.Op == "open" && c.Name == displacedPath
		}, replaceWith(t, m, displacedPath, foreignSession))
		var err error
		if create {
			_, err = d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
		} else {
			_, err = d.Open(displacedID)
		}
		if !*done || !errors.Is(err, sessionlog.ErrDisplaced) {
			t.Errorf("create %v: replaced %v, %v", create, *done, err)
		}
	}
}

// TestReplacedBeforeUndo fails the sync of a new name, and replaces the
// file of the old or the new name: the undo must not rename or replace another
// file.
func TestReplacedBeforeUndo(t *testing.T) {
	const titled, trashed = "/s/" + displacedID + "_port.jsonl", "/s/.trash/" + displacedID + ".jsonl"
	for _, c := range []struct{ name, to, taken string }{
		{"title", titled, titled}, {"title", titled, displacedPath},
		{"delete", trashed, trashed}, {"delete", trashed, displacedPath},
	} {
		m, d, _ := onMem(t, sessionlog.Options{})
		l := begin(t, d)
		if c.name == "delete" {
			noErr(t, l.Close())
		}
		renamed, failed := false, false
		m.Hook = func(call faultfs.Call) error {
			renamed = renamed || call.Op == "rename" && call.Name == c.to
			if !renamed || failed || call.Op != "syncdir" {
				return nil
			}
			failed = true
			replaceWith(t, m, c.taken, foreignSession)()
			return syscall.EIO
		}
		if c.name == "title" {
			_ = l.SetTitle("port") // the title is written
		} else if err := d.Delete(displacedID); !errors.Is(err, sessionlog.ErrUnknown) {
			t.Errorf("delete: %v", err)
		}
		m.Hook = nil
		if got := text(t, m, c.taken); !failed || got != foreignSession {
			t.Errorf("%s, %s: failed %v, holds %q", c.name, c.taken, failed, got)
		}
	}
}

// TestKilledReportsNothing kills a process before each of its calls, and opens
// the session: the open must not report another program.
func TestKilledReportsNothing(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	kills := 0
	m.Hook = func(faultfs.Call) error {
		kills++
		for _, left := range []*faultfs.Mem{m.Kill(), m.Crash()} {
			var said []string
			d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: left, Warn: func(s string) { said = append(said, s) }})
			noErr(t, err)
			if _, err := d.Open(displacedID); err != nil {
				said = append(said, err.Error())
			}
			if all := strings.Join(said, "\n"); strings.Contains(all, "another program") {
				t.Fatalf("killed before call %d: %s", kills, all)
			}
		}
		return nil
	}
	l := begin(t, d)
	noErr(t, l.Append(user("a")))
	noErr(t, l.SetTitle("port"))
	noErr(t, l.Append(stepMessage("b")))
	m = killed(m)
	d = dirOn(t, m, sessionlog.Options{})
	noErr(t, reopen(t, d, displacedID).Close()) // rewrites the file
	noErr(t, d.Delete(displacedID))
	if _, err := d.Open(displacedID); !errors.Is(err, sessionlog.ErrNotFound) || strings.Contains(err.Error(), "lock file") {
		t.Errorf("open of a deleted session: %v", err)
	}
	noErr(t, d.Restore(displacedID))
	noErr(t, reopen(t, d, displacedID).Append(user("c")))
	m.Hook = nil
	noErr(t, m.Remove("/s/"+displacedID+"_port.jsonl"))
	if _, err := dirOn(t, m.Kill(), sessionlog.Options{}).Open(displacedID); err == nil || !strings.Contains(err.Error(), "lock file") {
		t.Errorf("open of a removed session: %v", err)
	}
	all := make([]faultfs.Outcome, len(m.Unsynced()))
	for i := range all {
		all[i] = faultfs.Kept
	}
	if _, err := dirOn(t, m.Crash(all...), sessionlog.Options{}).Open(displacedID); err == nil || strings.Contains(err.Error(), "lock file") {
		t.Errorf("open of a removed session in another boot: %v", err)
	}
	if kills < 50 {
		t.Errorf("%d kills", kills)
	}
}

// killed returns the machine of m after the process died, with the same hook.
func killed(m *faultfs.Mem) *faultfs.Mem {
	hook := m.Hook
	m.Hook = nil
	left := m.Kill()
	left.Hook = hook
	return left
}

// TestMovedSessionIsReported moves a session that another program replaced into
// the trash and back: the next open still reports it.
func TestMovedSessionIsReported(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	noErr(t, begin(t, d).Append(user("earlier")))
	m = m.Kill()
	replaceWith(t, m, displacedPath, foreignSession)()
	var said []string
	d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: m, Warn: func(s string) { said = append(said, s) }})
	noErr(t, err)
	noErr(t, d.Delete(displacedID))
	noErr(t, d.Restore(displacedID))
	noErr(t, reopen(t, d, displacedID).Close())
	if !strings.Contains(strings.Join(said, "\n"), "another program") {
		t.Errorf("reported %q", said)
	}
}

// TestMovedFolder moves the complete folder, with a kept copy: the next copy is
// in a new folder.
func TestMovedFolder(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	first, l := begin(t, d), begin(t, d)
	noErr(t, m.Remove(displacedPath))
	if err := first.Append(user("later")); !errors.Is(err, sessionlog.ErrDisplaced) {
		t.Errorf("append: %v", err)
	}
	noErr(t, l.Append(user("earlier")))
	noErr(t, m.Rename("/s", "/away"))
	var e *sessionlog.DisplacedError
	if err := l.Append(user("later")); !errors.As(err, &e) || e.Copy == "" {
		t.Fatalf("append: %v", err)
	}
	if got := text(t, m, e.Copy); !strings.Contains(got, "earlier") {
		t.Errorf("the copy holds %q", got)
	}
}
