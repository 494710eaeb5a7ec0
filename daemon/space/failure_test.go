package space

import (
	"errors"
	"testing"

	"crabmem/crmem"
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
