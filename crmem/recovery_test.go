package crmem

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// TestShortenedLogWarns truncates the log of a cleanly closed store at the end
// of a write. The next open warns, if the lock file is of the same boot.
func TestShortenedLogWarns(t *testing.T) {
	for _, c := range []struct {
		what   string
		cut    bool // the last write is missing
		reboot bool
		dirty  bool // the writer did not close the store
		warns  bool
	}{
		{what: "unchanged"},
		{what: "shortened", cut: true, warns: true},
		{what: "shortened before a reboot", cut: true, reboot: true},
		{what: "shortened under a killed writer", cut: true, dirty: true},
		{what: "unchanged after a reboot", reboot: true},
	} {
		m := faultfs.NewMem()
		s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
		noErr(t, s.Apply(Add{Name: "a"}))
		end := s.Stats().LogBytes
		noErr(t, s.Apply(Add{Name: "b"}))
		if c.dirty {
			m = m.Kill()
		} else {
			noErr(t, s.Close())
		}
		want := 2
		if c.cut {
			wal, err := vfs.ReadFile(m, "/m.db-wal", 1<<20)
			noErr(t, err)
			m.WriteFile("/m.db-wal", wal[:end], 0o600)
			want = 1
		}
		if c.reboot {
			lock, err := vfs.ReadFile(m, "/m.db-lock", 1<<20)
			noErr(t, err)
			m = m.Crash()
			m.WriteFile("/m.db-lock", lock, 0o600) // it may survive, and is not synced
		}
		var warned []string
		s = opened(t, "/m.db", &Options{FS: m, Warn: func(w string) { warned = append(warned, w) }}, want)
		if got := len(warned) == 1 && strings.Contains(warned[0], "/m.db-wal"); got != c.warns || len(warned) > 1 {
			t.Errorf("%s: warned %q", c.what, warned)
		}
		noErr(t, s.Close())
	}
}

// TestQuarantineKeepsOtherFiles opens a store with a torn tail where files of
// the quarantine name exist. Equal bytes are of the same incident and need no
// second copy; other files stay as they are.
func TestQuarantineKeepsOtherFiles(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, s.Close())
	wal, err := vfs.ReadFile(m, "/m.db-wal", 1<<20)
	noErr(t, err)
	m.WriteFile("/m.db-wal", append(wal, "torn"...), 0o600)
	const first, second, third = "/m.db-wal.torn-2", "/m.db-wal.torn-2.1", "/m.db-wal.torn-2.2"
	for _, c := range []struct {
		what         string
		there, after map[string]string
	}{
		{"no file", nil, map[string]string{first: "torn"}},
		{"equal bytes", map[string]string{first: "torn"}, map[string]string{first: "torn"}},
		{"other bytes of the same length", map[string]string{first: "TORN"}, map[string]string{first: "TORN", second: "torn"}},
		{"fewer bytes", map[string]string{first: "tor"}, map[string]string{first: "tor", second: "torn"}},
		{"no bytes", map[string]string{first: ""}, map[string]string{first: "", second: "torn"}},
		{"more bytes", map[string]string{first: "torn!"}, map[string]string{first: "torn!", second: "torn"}},
		{"equal bytes in the second", map[string]string{first: "TORN", second: "torn"}, map[string]string{first: "TORN", second: "torn"}},
		{"other bytes in both", map[string]string{first: "TORN", second: "Torn"}, map[string]string{first: "TORN", second: "Torn", third: "torn"}},
	} {
		m := m.Kill()
		for name, text := range c.there {
			m.WriteFile(name, []byte(text), 0o600)
		}
		var warned []string
		s := opened(t, "/m.db", &Options{FS: m, Warn: func(w string) { warned = append(warned, w) }}, 1)
		noErr(t, s.Close())
		got := map[string]string{}
		list, err := m.ReadDir("/")
		noErr(t, err)
		for _, e := range list {
			if name := "/" + e.Name(); strings.Contains(name, "torn") {
				b, err := vfs.ReadFile(m, name, 1<<20)
				noErr(t, err)
				got[name] = string(b)
			}
		}
		if len(got) != len(c.after) {
			t.Errorf("%s: %q", c.what, got)
		}
		for name, text := range c.after {
			if got[name] != text {
				t.Errorf("%s: %s has %q, want %q", c.what, name, got[name], text)
			}
			if text == "torn" && !slices.ContainsFunc(warned, func(w string) bool { return strings.HasSuffix(w, " "+name) }) {
				t.Errorf("%s: %q do not name %s", c.what, warned, name)
			}
		}
	}
}

// TestReaderNamesAKeptCopyOnce opens a store for reading whose log extends
// another snapshot. The reader retries before it accepts that, and reports the
// copy of a stopped writer once.
func TestReaderNamesAKeptCopyOnce(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, s.Close())
	other, err := NewSnapshot(8, []Entry{{ID: 7, Name: "other"}})
	noErr(t, err)
	b, err := other.AppendBinary(nil)
	noErr(t, err)
	m.WriteFile("/m.db", b, 0o600)
	m.WriteFile("/m.db.own-01234567", b, 0o600)
	named := 0
	_, err = Open("/m.db", &Options{FS: m, ReadOnly: true, Warn: func(line string) {
		if strings.HasPrefix(line, "/m.db.own-01234567 is a copy of the store that a writer saved ") {
			named++
		}
	}})
	noErr(t, err)
	if named != 1 {
		t.Errorf("the copy is named %d times", named)
	}
}

// TestRecoveryCutsATornTail fails the checkpoint at the end of a recovery. The log then
// ends with the last valid record.
func TestRecoveryCutsATornTail(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	noErr(t, s.Close())
	wal := memBytes(t, m, "/m.db-wal")
	m.WriteFile("/m.db-wal", append(slices.Clone(wal), "torn"...), 0o600)
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "rename" && !strings.Contains(c.Name, tornSuffix) {
			return syscall.EIO
		}
		return nil
	}
	if _, err := Open("/m.db", &Options{FS: m}); !errors.Is(err, syscall.EIO) {
		t.Errorf("open: %v", err)
	}
	if got := memBytes(t, m, "/m.db-wal"); !bytes.Equal(got, wal) {
		t.Errorf("the log is %q, want %q", got, wal)
	}
}

// TestFailedOpenNamesKeptCopies opens an invalid store by its path and by a link. Both
// directories have copies of stopped writers.
func TestFailedOpenNamesKeptCopies(t *testing.T) {
	m := faultfs.NewMem()
	noErr(t, m.Mkdir("/d", 0o700))
	m.Symlink("/m.db", "/d/link.db")
	for _, name := range []string{"/m.db", "/m.db.own-01234567", "/d/link.db.own-89abcdef"} {
		m.WriteFile(name, []byte("text"), 0o600)
	}
	for path, want := range map[string]string{"/m.db": "/m.db.own-01234567", "/d/link.db": "/m.db.own-01234567 /d/link.db.own-89abcdef"} {
		var named []string
		_, err := Open(path, &Options{FS: m, Warn: func(line string) {
			if name, _, ok := strings.Cut(line, " is a copy "); ok {
				named = append(named, name)
			}
		}})
		if got := strings.Join(named, " "); !errors.Is(err, ErrFormat) || got != want {
			t.Errorf("%s: named %q, want %q: %v", path, got, want, err)
		}
	}
}
