package crmem

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem/vfs/faultfs"
)

// onCheckpoint sets a hook that calls f once, when a checkpoint of /m.db
// begins to write its temporary file.
func onCheckpoint(m *faultfs.Mem, f func()) {
	done := false
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "create" && strings.HasPrefix(c.Name, "/.m.db") && !done {
			done = true
			f()
		}
		return nil
	}
}

// TestCheckpointOfUnreadableLog corrupts the log's magic after operations that
// the checkpoint must copy. The checkpoint fails and keeps their file.
func TestCheckpointOfUnreadableLog(t *testing.T) {
	m := faultfs.NewMem()
	o := &Options{FS: m, CheckpointOnClose: CheckpointNever}
	s := opened(t, "/m.db", o, 0)
	noErr(t, s.Apply(Add{Name: "before"}))
	corrupt := false
	onCheckpoint(m, func() {
		noErr(t, s.Apply(Add{Name: "during"}))
		corrupt = true
	})
	write := m.Hook
	hits := 0
	m.Hook = func(c faultfs.Call) error {
		if corrupt && c.Op == "read" && c.Name == "/m.db-wal" {
			hits++
			return &faultfs.Fault{Corrupt: func(b []byte) []byte {
				if len(b) > 0 {
					b[0] ^= 0xff
				}
				return b
			}}
		}
		return write(c)
	}
	if err := s.Checkpoint(); !errors.Is(err, ErrFormat) || hits == 0 {
		t.Errorf("checkpoint after %d corrupt reads: %v", hits, err)
	}
	m.Hook = nil
	if err := s.Apply(Add{Name: "after"}); !errors.Is(err, ErrStopped) {
		t.Errorf("write after a failed checkpoint: %v", err)
	}
	s.Close() // reports the same error
	s = opened(t, "/m.db", o, 2)
	noErr(t, s.Close())
}

// TestRetryAfterFailedLogKeepsLock creates a store whose first log has no
// space. The next write continues under the same lock.
func TestRetryAfterFailedLogKeepsLock(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m}, 0)
	full, unlocks := true, 0
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "unlock" {
			unlocks++
		}
		if full && c.Op == "create" && strings.HasPrefix(c.Name, "/.m.db-wal") {
			return syscall.ENOSPC
		}
		return nil
	}
	if err := s.Apply(Add{Name: "a"}); !errors.Is(err, ErrNotApplied) {
		t.Fatalf("write without space for the log: %v", err)
	}
	if _, err := m.Lstat("/m.db"); err != nil {
		t.Fatal(err)
	}
	full = false
	noErr(t, s.Apply(Add{Name: "a"}))
	if unlocks != 0 {
		t.Errorf("the store released its lock %d times between two writes", unlocks)
	}
	m.Hook = nil
	noErr(t, s.Close())
	opened(t, "/m.db", &Options{FS: m}, 1)
}

// TestAdoptOfDamageDuringLock has another program create an invalid store
// while the first write takes the lock. The write returns the refusal.
func TestAdoptOfDamageDuringLock(t *testing.T) {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m}, 0)
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "lock" {
			m.Hook = nil
			m.WriteFile("/m.db", []byte("not a store, and long enough for a header"), 0o600)
		}
		return nil
	}
	if err := s.Apply(Add{Name: "a"}); !errors.Is(err, ErrFormat) || !errors.Is(err, ErrNotApplied) {
		t.Errorf("write to an invalid store: %v", err)
	}
	if s.Len() != 0 {
		t.Errorf("%d entries", s.Len())
	}
	l, err := m.Lock("/m.db-lock")
	if err != nil {
		t.Fatalf("the refused write holds the lock: %v", err)
	}
	noErr(t, l.Unlock())
}

// TestNewIgnoresReadOnly writes to a store in RAM.
func TestNewIgnoresReadOnly(t *testing.T) {
	s := New(&Options{ReadOnly: true})
	if err := s.Apply(Add{Name: "a"}); err != nil || s.Len() != 1 {
		t.Errorf("%d entries, %v", s.Len(), err)
	}
}

// TestRefusedMethods calls the methods that write in a store that is closed, or open for
// reading: they return ErrClosed or ErrReadOnly, do not block, and change no file.
func TestRefusedMethods(t *testing.T) {
	for _, want := range []error{fs.ErrClosed, ErrReadOnly} {
		m := faultfs.NewMem()
		s := opened(t, "/m.db", &Options{FS: m}, 0)
		noErr(t, s.Apply(Add{Name: "a", Content: "one"}))
		noErr(t, s.Apply(Update{Name: "a", Content: "two"}))
		noErr(t, s.Close())
		calls := map[string]func() error{"close": s.Close}
		if want == ErrReadOnly {
			s = opened(t, "/m.db", &Options{FS: m, ReadOnly: true}, 1)
			calls = map[string]func() error{}
		}
		maps.Copy(calls, map[string]func() error{
			"apply":        func() error { return s.Apply(Add{Name: "b"}) },
			"do":           func() error { _, err := s.Do(Add{Name: "b"}); return err },
			"forget":       func() error { return s.Forget("a") },
			"remember":     func() error { _, err := s.Remember("a", "c", nil); return err },
			"overwrite":    func() error { _, _, err := s.Overwrite(Remember{Name: "a", Content: "c"}); return err },
			"replace":      func() error { return s.Replace(s.Snapshot()) },
			"update":       func() error { return s.Update(func(sn *Snapshot) (*Snapshot, error) { return sn, nil }) },
			"undo":         func() error { _, err := s.Undo(2); return err },
			"purge":        func() error { _, err := s.Purge("a"); return err },
			"redact":       func() error { _, err := s.Redact(1, 1); return err },
			"prune":        func() error { _, err := s.Prune(time.Now()); return err },
			"new identity": s.NewIdentity,
			"writable":     s.Writable,
		})
		before := m.Hash()
		for name, call := range calls {
			if err := call(); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		if m.Hash() != before {
			t.Errorf("%v: the files changed", want)
		}
	}
}

// TestEqualComparesEveryField changes one field at a time.
func TestEqualComparesEveryField(t *testing.T) {
	entry := func() Entry {
		return Entry{ID: 1, Name: "a", Kind: Note, CreatedAt: 2, Content: "c", Aliases: []string{"x", "y"}}
	}
	for field, change := range map[string]func(*Entry){
		"id":            func(e *Entry) { e.ID++ },
		"name":          func(e *Entry) { e.Name = "b" },
		"kind":          func(e *Entry) { e.Kind = Archive },
		"created_at":    func(e *Entry) { e.CreatedAt++ },
		"content":       func(e *Entry) { e.Content = "d" },
		"first alias":   func(e *Entry) { e.Aliases[0] = "z" },
		"last alias":    func(e *Entry) { e.Aliases[1] = "z" },
		"fewer aliases": func(e *Entry) { e.Aliases = e.Aliases[:1] },
		"more aliases":  func(e *Entry) { e.Aliases = append(e.Aliases, "z") },
		"no aliases":    func(e *Entry) { e.Aliases = nil },
	} {
		a, b := entry(), entry()
		change(&b)
		if a.Equal(b) || b.Equal(a) {
			t.Errorf("entries that differ in %s are equal", field)
		}
	}
	if !entry().Equal(entry()) {
		t.Error("an entry differs from its copy")
	}
	none, empty := entry(), entry()
	none.Aliases, empty.Aliases = nil, []string{}
	if !none.Equal(empty) {
		t.Error("nil aliases differ from empty ones")
	}
}

// TestTextsOrder checks the fields that a search reads again: the name, the
// aliases and the content.
func TestTextsOrder(t *testing.T) {
	s := New(nil)
	noErr(t, s.Apply(Add{Name: "name", Content: "content", Aliases: []string{"one", "two", "three"}}))
	if got := texts(s.t.byID(1)); !slices.Equal(got, []string{"name", "one", "two", "three", "content"}) {
		t.Errorf("%q", got)
	}
}
