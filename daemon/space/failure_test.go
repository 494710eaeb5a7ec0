package space

import (
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// TestAdoptFailure fails each call of Adopt alone. If Adopt returns no error, the
// space has the entry. Otherwise the entry is in one of the files.
func TestAdoptFailure(t *testing.T) {
	const file = testHome + "/work.db"
	for fail := 1; ; fail++ {
		r := newRig(t, 3, 1)
		s, err := crmem.Open(file, &crmem.Options{FS: r.fs})
		if err := errors.Join(err, remember("n")(s), s.Close()); err != nil {
			t.Fatal(err)
		}
		calls := 0
		r.fs.Hook = func(faultfs.Call) error {
			if calls++; calls == fail {
				return errors.New("failed")
			}
			return nil
		}
		_, _, err = r.home().Adopt(file, "work", 3)
		r.fs.Hook = nil
		found := map[string]bool{}
		for _, name := range []string{file, file + ".adopted", File(testHome, "work")} {
			s, oerr := crmem.Open(name, &crmem.Options{FS: r.fs.Kill(), MustExist: true})
			if oerr == nil {
				found[name] = s.Stats().Entries == 1
				s.Close()
			}
		}
		if err == nil && !found[File(testHome, "work")] || !found[file] && !found[File(testHome, "work")] {
			t.Errorf("failed call %d: %v; the entry is in %v", fail, err, found)
		}
		if calls < fail {
			return
		}
	}
}

// TestAdoptNeedsTheHome fails to resolve the home: the file may be a space of it.
func TestAdoptNeedsTheHome(t *testing.T) {
	const file = testHome + "/work.db"
	r := newRig(t, 3, 1)
	s, err := crmem.Open(file, &crmem.Options{FS: r.fs})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	r.fs.Hook = func(c faultfs.Call) error {
		if c.Op == "resolve" && c.Name == testHome {
			return failed
		}
		return nil
	}
	if _, _, err := r.home().Adopt(file, "work", 3); !errors.Is(err, failed) {
		t.Errorf("adopted: %v", err)
	}
}

// TestClosedSet closes a set twice, and uses it after that.
func TestClosedSet(t *testing.T) {
	r := newRig(t, 3, 1)
	if err := r.home().Create("work", 3); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.set.Use("work", true, remember("n")), r.set.Close(), r.set.Close()); err != nil {
		t.Fatal(err)
	}
	if err := r.set.Use("work", true, remember("m")); err == nil {
		t.Error("used after Close")
	}
}

// TestCreateFailure fails each call of Create. It returns the error, or the space is on
// disk.
func TestCreateFailure(t *testing.T) {
	failed := errors.New("failed")
	for fail, calls := 1, 1; calls >= fail-1; fail++ {
		r := newRig(t, 3, 1)
		calls = 0
		r.fs.Hook = func(faultfs.Call) error {
			if calls++; calls == fail {
				return failed
			}
			return nil
		}
		err := r.home().Create("work", 3)
		r.fs.Hook = nil
		if err != nil && !errors.Is(err, failed) || err == nil && Exists(r.fs.Crash(), testHome, "work") != nil {
			t.Errorf("call %d: %v", fail, err)
		}
	}
}

// TestExists checks names of spaces that exist, do not exist, and are invalid.
func TestExists(t *testing.T) {
	r := newRig(t, 3, 1)
	if err := r.home().Create("work", 3); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{Main: "", "work": "", "other": "not_found", "../work": "invalid", "": "invalid"} {
		if err := Exists(r.fs, testHome, name); kind(err) != want {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}

// TestRemoveFailure fails each call of Remove on the renamed directory. It returns the error,
// and the space is gone or complete.
func TestRemoveFailure(t *testing.T) {
	for fail, calls := 1, 1; calls >= fail-1; fail++ {
		r := newRig(t, 3, 1)
		if err := errors.Join(r.home().Create("work", 3), r.set.Use("work", true, remember("n")), r.set.Close()); err != nil {
			t.Fatal(err)
		}
		calls = 0
		r.fs.Hook = func(c faultfs.Call) error {
			if c.Op != "remove" && c.Op != "readdir" || !strings.Contains(c.Name, removedPrefix) {
				return nil
			}
			if calls++; calls == fail {
				return errors.New("failed")
			}
			return nil
		}
		_, err := r.home().Remove("work", true)
		r.fs.Hook = nil
		if (err != nil) != (calls >= fail) {
			t.Errorf("failed call %d of %d: %v", fail, calls, err)
		}
		if Exists(r.fs, testHome, "work") == nil {
			t.Errorf("failed call %d: the space exists", fail)
		}
	}
}

// TestOpenElsewhere removes, renames, and adopts stores that another process has open.
func TestOpenElsewhere(t *testing.T) {
	r := newRig(t, 3, 1)
	if err := errors.Join(r.home().Create("work", 3), r.set.Use("work", true, remember("n"))); err != nil {
		t.Fatal(err)
	}
	const file = testHome + "/other.db"
	s, err := crmem.Open(file, &crmem.Options{FS: r.fs})
	if err := errors.Join(err, remember("n")(s)); err != nil {
		t.Fatal(err)
	}
	_, removed := r.home().Remove("work", true)
	_, _, adopted := r.home().Adopt(file, "other", 3)
	for what, err := range map[string]error{"remove": removed, "rename": r.home().Rename("work", "play"), "adopt": adopted} {
		if !errors.Is(err, vfs.ErrLocked) {
			t.Errorf("%s: %v, want %v", what, err, vfs.ErrLocked)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAdoptHistory adopts a store: its history gets the name of the kept file, and its
// derived files are removed.
func TestAdoptHistory(t *testing.T) {
	r := newRig(t, 3, 1)
	const file = testHome + "/work.db"
	s, err := crmem.Open(file, &crmem.Options{FS: r.fs})
	if err := errors.Join(err, remember("n")(s), s.Close()); err != nil {
		t.Fatal(err)
	}
	derived := []string{"-usage", "-index-plain", "-index-standard", "-vectors"}
	for _, suffix := range derived {
		r.fs.WriteFile(file+suffix, []byte("n"), 0o600)
	}
	r.fs.Hook = func(c faultfs.Call) error {
		if c.Op == "rename" && strings.HasSuffix(c.Name, "-history") {
			return errors.New("failed")
		}
		return nil
	}
	if _, _, err := r.home().Adopt(file, "work", 3); err == nil {
		t.Error("no error if the history cannot be renamed")
	}
	r.fs.Hook = nil
	if _, err := r.home().Remove("work", true); err != nil {
		t.Fatal(err)
	}
	_, kept, err := r.home().Adopt(file, "work", 3)
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := r.fs.Lstat(kept + "-history"); err != nil || !fi.IsDir() {
		t.Errorf("history of the kept file: %v", err)
	}
	for _, suffix := range derived {
		if _, err := r.fs.Lstat(file + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("derived file %s: %v", file+suffix, err)
		}
	}
	if list, err := Names(r.fs.Crash(), testHome); err != nil || len(list) != 2 {
		t.Errorf("spaces after a crash: %v, %v", list, err)
	}
	if _, err := r.fs.Crash().Lstat(kept); err != nil {
		t.Errorf("after a crash: %v", err)
	}
}

// TestCorruptSpace removes a space whose file is corrupt, without force.
func TestCorruptSpace(t *testing.T) {
	r := newRig(t, 3, 1)
	if err := r.home().Create("work", 3); err != nil {
		t.Fatal(err)
	}
	r.fs.WriteFile(File(testHome, "work"), []byte("corrupt"), 0o600)
	if _, err := r.home().Remove("work", false); !errors.Is(err, crmem.ErrFormat) {
		t.Errorf("%v, want %v", err, crmem.ErrFormat)
	}
	if err := Exists(r.fs, testHome, "work"); err != nil {
		t.Error(err)
	}
}

// TestRemovedNames removes spaces of one name that cannot be deleted. Each directory has
// the first unused number, from 1.
func TestRemovedNames(t *testing.T) {
	r := newRig(t, 3, 1)
	for _, aside := range []string{".removed-work-1", ".removed-work-2"} {
		if err := r.home().Create("work", 3); err != nil {
			t.Fatal(err)
		}
		r.fs.Hook = func(c faultfs.Call) error {
			if c.Op == "remove" && strings.Contains(c.Name, removedPrefix) {
				return errors.New("failed")
			}
			return nil
		}
		_, err := r.home().Remove("work", true)
		r.fs.Hook = nil
		if _, lerr := r.fs.Lstat(Dir(testHome, aside)); err == nil || lerr != nil {
			t.Errorf("%s: %v, %v", aside, err, lerr)
		}
	}
}

// TestFailedUsers fails an open for which two users wait. Both give their places to
// users of other spaces.
func TestFailedUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := make(chan struct{})
		s := NewSet(Options{FS: faultfs.NewMem(), Home: testHome, Max: func() int { return 9 }, MaxOpen: 2,
			Open: func(file string) (*crmem.Store, error) {
				if file == File(testHome, "failing") {
					<-fail
					return nil, errors.New("failed")
				}
				return crmem.New(nil), nil
			}})
		for _, name := range []string{"a", "b", "c", "d", "failing"} {
			if err := vfs.MkdirAll(s.o.FS, Dir(testHome, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		end := make(chan struct{})
		var used atomic.Int32
		defer close(end)
		use := func(name string, until chan struct{}) {
			go func() { _ = s.Use(name, false, func(*crmem.Store) error { used.Add(1); <-until; return nil }) }()
			synctest.Wait()
		}
		a, b := make(chan struct{}), make(chan struct{})
		use("a", a)
		use("b", b)
		for _, name := range []string{"failing", "failing", "c", "d"} {
			use(name, end)
		}
		for _, c := range []chan struct{}{a, b, fail} {
			close(c)
			synctest.Wait()
		}
		if n := used.Load(); n != 4 {
			t.Errorf("%d users had a space, want 4", n)
		}
	})
}
