package sessionlog

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog/record"
)

// calls runs do and counts the calls of an operation. fail decides their errors.
func calls(m *faultfs.Mem, op, name string, fail func(n int) error, do func()) (n int) {
	m.Hook = func(c faultfs.Call) error {
		if c.Op != op || name != "" && c.Name != name {
			return nil
		}
		n++
		return fail(n)
	}
	do()
	m.Hook = nil
	return n
}

// TestMovedTooOften changes the folder during each attempt: every method gives up
// after as many attempts.
func TestMovedTooOften(t *testing.T) {
	m, d, _ := memDir(t, Options{})
	const path = "/s/crab_user_1.jsonl"
	m.WriteFile(path, []byte(`{"agent":"crab","created_by":"user","created_at":"","source":"s"}`+"\n"), 0o600)
	missing := func(int) error { return fs.ErrNotExist }
	none := func(int) error { return nil }
	var err error
	if n := calls(m, "open", path, missing, func() { _, err = d.find("/s", "crab_user_1.jsonl.jsonl") }); n != 0 || !errors.Is(err, ErrNotFound) {
		t.Errorf("find of another id: %d, %v", n, err)
	}
	if n := calls(m, "open", path, missing, func() { _, err = d.Latest("crab", "user", "") }); n != 2*maxMoves || !errors.Is(err, ErrNotFound) { // for both prefixes
		t.Errorf("latest: %d, %v", n, err)
	}
	if n := calls(m, "open", path, missing, func() { _, err = d.find("/s", "crab_user") }); n != maxMoves || !errors.Is(err, ErrNotFound) {
		t.Errorf("find: %d, %v", n, err)
	}
	second := func(n int) error { // the read after find
		if n%2 == 0 {
			return fs.ErrNotExist
		}
		return nil
	}
	if n := calls(m, "open", path, second, func() { _, err = d.Read("crab_user_1") }); n != 2*maxMoves || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read: %d, %v", n, err)
	}
	im, err := d.NewImporter(true)
	must(t, err)
	if n := calls(m, "open", path, second, func() { _, err = im.Import(Meta{Agent: "crab", CreatedBy: "user", CreatedAt: "x", Source: "s"}, nil) }); n != 2*maxMoves || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("import: %d, %v", n, err)
	}
	must(t, im.Close())
	name := "crab_user_1.jsonl"
	m.Hook = nil
	moves := func(n int) error {
		next := fmt.Sprintf("crab_user_%d.jsonl", n+1)
		hook := m.Hook
		m.Hook = nil
		must(t, m.Rename("/s/"+name, "/s/"+next))
		m.Hook, name = hook, next
		return nil
	}
	var infos []Info
	lists := 0
	opens := calls(m, "open", "", moves, func() { infos, err = d.List() })
	if opens != maxMoves || err != nil || len(infos) != 1 || !errors.Is(infos[0].Err, fs.ErrNotExist) {
		t.Errorf("list: %d, %v, %+v", opens, err, infos)
	}
	m.Symlink("nowhere", "/s/crab_user_90.jsonl")
	if lists = calls(m, "readdir", "/s", none, func() { infos, err = d.List() }); lists > 2 || err != nil || len(infos) != 2 {
		t.Errorf("list with a link: %d, %v, %+v", lists, err, infos)
	}
	must(t, m.Remove("/s/crab_user_90.jsonl"))
	m.WriteFile("/s/b.jsonl", []byte(`{"agent":"b","created_by":"c","created_at":""}`+"\n"), 0o600)
	if n := calls(m, "lstat", "/s/b.jsonl", func(int) error { return syscall.EIO }, func() { _, err = d.Open("b") }); n != 3 || !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "file was replaced during open") {
		t.Errorf("open: %d, %v", n, err)
	}
}

// TestExpandBounds expands ranges at the bounds of a file, and reads its last lines.
func TestExpandBounds(t *testing.T) {
	m, d, _ := memDir(t, Options{})
	const text = `{"agent":"crab","created_by":"user","created_at":""}` + "\na\nb\nc"
	m.WriteFile("/s/crab_user_1.jsonl", []byte(text), 0o600)
	s, err := d.Read("crab_user_1")
	must(t, err)
	defer s.Close()
	size := int64(len(text))
	for _, c := range []struct {
		from, to int64
		ok       bool
	}{{0, size, true}, {0, 0, true}, {size, size, true}, {1, 2, true}, {-1, 0, false}, {-1, size + 1, false}, {2, 1, false}, {0, size + 1, false}, {size + 1, size + 1, false}} {
		var b strings.Builder
		err := s.Expand(Compaction{From: c.from, To: c.to}, &b)
		if (err == nil) != c.ok || c.ok && b.String() != text[c.from:c.to] || !c.ok && !errors.Is(err, ErrInvalid) {
			t.Errorf("%d to %d: %q, %v", c.from, c.to, b.String(), err)
		}
	}
	for n, want := range map[int]string{-1: "", 0: "", 1: "c", 2: "b\nc", 3: "a\nb\nc", 4: text, 5: text} {
		if at, err := s.LastLines(n); err != nil || text[at:] != want {
			t.Errorf("last %d lines: %q, %v", n, text[at:], err)
		}
	}
	if c, err := s.Check(); err != nil || c.Lines != 3 || c.Torn != 1 || c.Damaged != 2 || c.Damage[0].Msg == "" {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{"": "0 1 no meta line", "torn": "0 1 no meta line", "\n": "1 1 no meta line: line 1 is of kind " + fmt.Sprint(record.KindBlank)} {
		m.WriteFile("/s/x.jsonl", []byte(text), 0o600)
		s, err := d.Read("x")
		must(t, err)
		c, err := s.Check()
		must(t, err)
		if got := fmt.Sprint(c.Lines, c.Damaged, " ", c.Damage[0].Msg); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		must(t, s.Close())
	}
}

// TestAcquireWithFaults fails each call that takes a lock. The lock is free again.
func TestAcquireWithFaults(t *testing.T) {
	for _, exists := range []bool{false, true} {
		failed := true
		for at := 1; failed; at++ {
			m, d, _ := memDir(t, Options{})
			must(t, d.makeFolder("/s/.locks"))
			if exists {
				m.WriteFile("/s/.locks/x.lock", []byte(vfs.LockHolder{PID: 7, Clean: 3}.Text()), 0o600)
			}
			n, op := 0, ""
			m.Hook = func(c faultfs.Call) error {
				if n++; n == at {
					op = c.Op
					return syscall.EIO
				}
				return nil
			}
			lock, before, ours, err := d.acquire("x", 0)
			m.Hook = nil
			failed = op != ""
			if (err != nil) != failed || failed && (lock != nil || ours || before.PID+int(before.Clean) != 0 || !errors.Is(err, syscall.EIO)) {
				t.Errorf("exists %t, call %d, %s: %v, %+v, %t, %v", exists, at, op, lock, before, ours, err)
			}
			if !failed {
				if ours != exists || exists && before.PID != 7 || lock.info == nil || lock.path != "/s/.locks/x.lock" {
					t.Errorf("exists %t: %+v, %t", exists, before, ours)
				}
				must(t, lock.Unlock())
			}
			if op == "unlock" {
				continue
			}
			lock, _, _, err = d.acquire("x", 0)
			must(t, err)
			must(t, lock.Unlock())
		}
	}
}

// TestExplainNotFound explains why a session is missing, by its lock file.
func TestExplainNotFound(t *testing.T) {
	m, d, _ := memDir(t, Options{})
	must(t, m.Mkdir("/s/.locks", 0o700))
	for _, c := range []struct {
		h    vfs.LockHolder
		want string
	}{
		{vfs.LockHolder{Boot: m.BootID(), Clean: 0}, "; lock file /s/.locks/x.lock, written since the last boot, records a session of 0 bytes: another program removed or renamed the session file"},
		{vfs.LockHolder{Boot: m.BootID(), Clean: 5}, "; lock file /s/.locks/x.lock, written since the last boot, records a session of 5 bytes: another program removed or renamed the session file"},
		{vfs.LockHolder{Boot: m.BootID(), Clean: -1, PID: 7, Command: "cmd"}, "; lock file /s/.locks/x.lock, written since the last boot, records process 7 (cmd), which did not close the session"},
		{vfs.LockHolder{Boot: "other", Clean: 5}, ""}, {vfs.LockHolder{Clean: 5}, ""},
	} {
		m.WriteFile("/s/.locks/x.lock", []byte(c.h.Text()), 0o600)
		if _, err := d.Open("x"); !errors.Is(err, ErrNotFound) || err.Error() != `no such session: "x" in /s`+c.want {
			t.Errorf("%+v: %v", c.h, err)
		}
	}
	for _, id := range []string{"x", "x.jsonl"} {
		m.WriteFile("/s/.locks/x.lock", []byte(vfs.LockHolder{Boot: m.BootID(), Clean: 5}.Text()), 0o600)
		if _, err := d.Read(id); !errors.Is(err, ErrNotFound) || !strings.HasSuffix(err.Error(), "renamed the session file") {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestKeepBytesWithFaults keeps copies of readers that fail.
func TestKeepBytesWithFaults(t *testing.T) {
	m, d, _ := memDir(t, Options{})
	for fail := 1; fail <= 3; fail++ {
		r := &readsOf{ReaderAt: strings.NewReader("some bytes"), fail: fail}
		path, err := d.keepBytes("x", "kept", r, 10)
		if fail <= 2 && (path != "" || !errors.Is(err, syscall.EIO)) || fail == 3 && (err != nil || path != "/s/.kept/x_kept-f6cd5543.jsonl") {
			t.Errorf("read %d: %q, %v", fail, path, err)
		}
		if list, _ := m.ReadDir("/s/.kept"); len(list) != fail/3 {
			t.Errorf("read %d: %d files", fail, len(list))
		}
	}
	for path, want := range map[string]fs.FileMode{"/s/.kept": 0o700, "/s/.kept/x_kept-f6cd5543.jsonl": 0o600} {
		fi, err := m.Lstat(path)
		if must(t, err); fi.Mode().Perm() != want {
			t.Errorf("%s: %v", path, fi.Mode())
		}
	}
}
