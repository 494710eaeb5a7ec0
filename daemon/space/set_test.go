package space

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/errtable"
)

const testHome = "/home/crab"

// rig is a home with a Set that counts open stores.
type rig struct {
	fs   *faultfs.Mem
	set  *Set
	open atomic.Int32
	most atomic.Int32
}

func newRig(t *testing.T, limit, maxOpen int) *rig {
	t.Helper()
	r := &rig{fs: faultfs.NewMem()}
	if err := vfs.MkdirAll(r.fs, testHome, 0o700); err != nil {
		t.Fatal(err)
	}
	r.set = NewSet(Options{FS: r.fs, Home: testHome, Main: crmem.New(nil), Max: func() int { return limit }, MaxOpen: maxOpen,
		Open: func(file string) (*crmem.Store, error) {
			r.most.Store(max(r.most.Load(), r.open.Add(1)))
			return crmem.Open(file, &crmem.Options{FS: r.fs})
		}})
	t.Cleanup(func() {
		if err := r.set.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) home() *Home { return &Home{FS: r.fs, Path: testHome, Command: "test"} }

func remember(name string) func(*crmem.Store) error {
	return func(s *crmem.Store) error { _, err := s.Remember(name, "text of "+name, nil); return err }
}

// names returns the spaces and their entries.
func (r *rig) names(t *testing.T) string {
	t.Helper()
	list, err := Names(r.fs, testHome)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, name := range list {
		err := r.set.Use(name, false, func(s *crmem.Store) error {
			fmt.Fprintf(&b, "%s:", name)
			for e := range s.All() {
				fmt.Fprintf(&b, " %s", e.Name)
			}
			b.WriteString("; ")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// TestUse writes to spaces: only that of a sender is created.
func TestUse(t *testing.T) {
	r := newRig(t, 2, 8)
	own := OfSender("tg:7")
	for _, c := range []struct {
		name  string
		write bool
		want  string // kind of the error
	}{
		{Main, true, ""}, {"team", true, "not_found"}, {"team", false, "not_found"}, {own, false, "not_found"}, {own, true, ""}, {own, false, ""},
		{"..", true, "invalid"}, {"a/b", true, "invalid"}, {"con", true, "invalid"}, {"", true, "invalid"},
	} {
		err := r.set.Use(c.name, c.write, func(s *crmem.Store) error {
			if c.write {
				return remember("n")(s)
			}
			return nil
		})
		if got := kind(err); got != c.want {
			t.Errorf("%q: %v, want %s", c.name, err, c.want)
		}
	}
	if err := r.home().Create("team", 2); err != nil {
		t.Fatal(err)
	}
	if err := r.set.Use("team", true, remember("n")); err != nil {
		t.Error(err)
	}
	if err := r.set.Use(OfSender("tg:8"), true, remember("n")); kind(err) != "full" {
		t.Errorf("more than max_spaces: %v", err)
	}
	if got, want := r.names(t), "main: n; "+own+": n; team: n; "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func kind(err error) string {
	if err == nil {
		return ""
	}
	return errtable.Find(err).Kind
}

// TestEvict uses more spaces than may be open, from several goroutines.
func TestEvict(t *testing.T) {
	const spaces, open = 12, 3
	r := newRig(t, spaces, open)
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := range 60 {
				name := OfSender(fmt.Sprint("tg:", (i*7+g)%spaces))
				err := r.set.Use(name, true, func(s *crmem.Store) error {
					r.set.mu.Lock()
					n := len(r.set.open)
					r.set.mu.Unlock()
					if n > open {
						t.Errorf("%d spaces are open", n)
					}
					return remember(fmt.Sprint("n", g, "-", i))(s)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for i := range spaces {
		err := r.set.Use(OfSender(fmt.Sprint("tg:", i)), false, func(s *crmem.Store) error { total += s.Stats().Entries; return nil })
		if err != nil {
			t.Error(err)
		}
	}
	if total != 6*60 {
		t.Errorf("%d entries, want %d", total, 6*60)
	}
}

// TestFailedOpen opens a space whose file is damaged, and again after the repair.
func TestFailedOpen(t *testing.T) {
	r := newRig(t, 2, 1)
	if err := makeDir(r.fs, testHome, "team", 2); err != nil {
		t.Fatal(err)
	}
	r.fs.WriteFile(File(testHome, "team"), []byte("no store"), 0o600)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := r.set.Use("team", false, remember("n")); !errors.Is(err, crmem.ErrFormat) {
				t.Errorf("%v, want that the file is damaged", err)
			}
		})
	}
	wg.Wait()
	if err := r.fs.Remove(File(testHome, "team")); err != nil {
		t.Fatal(err)
	}
	if err := r.set.Use("team", true, remember("n")); err != nil {
		t.Error(err)
	}
}

// TestManage creates, renames, and removes spaces.
func TestManage(t *testing.T) {
	r := newRig(t, 3, 2)
	h := r.home()
	for _, c := range []struct {
		name string
		do   func() error
		want string // kind of the error
	}{
		{"create", func() error { return h.Create("team", 3) }, ""},
		{"create again", func() error { return h.Create("team", 3) }, "exists"},
		{"create main", func() error { return h.Create(Main, 3) }, "invalid"},
		{"create a device", func() error { return h.Create("nul", 3) }, "invalid"},
		{"create too many", func() error { return h.Create("more", 1) }, "full"},
		{"rename a missing one", func() error { return h.Rename("none", "x") }, "not_found"},
		{"rename to main", func() error { return h.Rename("team", Main) }, "invalid"},
		{"rename to itself", func() error { return h.Rename("team", "team") }, "exists"},
		{"write", func() error { return r.set.Use("team", true, remember("n")) }, ""},
		{"rename in use", func() error { return h.Rename("team", "crew") }, "locked"},
		{"remove in use", func() error { _, err := h.Remove("team", true); return err }, "locked"},
		{"close", func() error { return r.set.Use(OfSender("a"), true, func(*crmem.Store) error { return nil }) }, ""},
		{"close", func() error { return r.set.Use(OfSender("b"), true, func(*crmem.Store) error { return nil }) }, ""},
		{"rename", func() error { return h.Rename("team", "crew") }, ""},
		{"rename over", func() error { return h.Rename("crew", OfSender("a")) }, "exists"},
		{"use the old name", func() error { return r.set.Use("team", true, remember("n")) }, "not_found"},
		{"remove with entries", func() error { _, err := h.Remove("crew", false); return err }, "not_empty"},
		{"remove main", func() error { _, err := h.Remove(Main, true); return err }, "invalid"},
	} {
		if got := kind(c.do()); got != c.want {
			t.Errorf("%s: error of kind %q, want %q", c.name, got, c.want)
		}
	}
	if got, want := r.names(t), "main:; crew: n; "; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for range 2 { // evicts crew
		r.names(t)
	}
	if n, err := h.Remove("crew", true); n != 1 || err != nil {
		t.Errorf("removed %d entries, %v", n, err)
	}
	list, err := r.fs.ReadDir(path.Join(testHome, "spaces"))
	if err != nil || len(list) != 2 {
		t.Errorf("%d directories remain, %v", len(list), err)
	}
}

// TestCrashInManage cuts the power in each call of a rename and of a removal. The
// space then exists under exactly one name, or was removed.
func TestCrashInManage(t *testing.T) {
	for _, op := range []string{"rename", "remove"} {
		for after := 0; ; after++ {
			r := newRig(t, 3, 1)
			h := r.home()
			if err := h.Create("team", 3); err != nil {
				t.Fatal(err)
			}
			if err := r.set.Use("team", true, remember("n")); err != nil {
				t.Fatal(err)
			}
			if err := r.set.Close(); err != nil {
				t.Fatal(err)
			}
			calls, failed := 0, false
			r.fs.Hook = func(faultfs.Call) error {
				if calls++; calls > after {
					failed = true
					return errors.New("cut")
				}
				return nil
			}
			if op == "rename" {
				_ = h.Rename("team", "crew")
			} else {
				_, _ = h.Remove("team", true)
			}
			r.fs.Hook = nil
			for _, image := range []*faultfs.Mem{r.fs.Crash(), r.fs.Kill()} {
				checkOne(t, image, op, after)
			}
			r.set = NewSet(Options{}) // closed already
			if !failed {
				break
			}
		}
	}
}

// checkOne checks that the home has the space team under one name, unless op
// removed it.
func checkOne(t *testing.T, image *faultfs.Mem, op string, after int) {
	t.Helper()
	names, err := Names(image, testHome)
	if err != nil {
		t.Fatal(err)
	}
	names = names[1:] // without main
	if len(names) > 1 || op == "rename" && len(names) != 1 {
		t.Fatalf("%s after %d calls: the spaces are %q", op, after, names)
	}
	if len(names) == 0 {
		return
	}
	s, err := crmem.Open(File(testHome, names[0]), &crmem.Options{FS: image})
	if err != nil {
		t.Fatalf("%s after %d calls: %v", op, after, err)
	}
	if n := s.Stats().Entries; n != 1 {
		t.Errorf("%s after %d calls: %s has %d entries", op, after, names[0], n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestAdopt makes a store outside the spaces a space, also after a crash in each
// call: no state lacks the entry.
func TestAdopt(t *testing.T) {
	const file = testHome + "/work.db"
	for after := 0; ; after++ {
		r := newRig(t, 3, 1)
		h := r.home()
		s, err := crmem.Open(file, &crmem.Options{FS: r.fs})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(remember("n")(s), s.Close()); err != nil {
			t.Fatal(err)
		}
		calls, failed := 0, false
		r.fs.Hook = func(faultfs.Call) error {
			if calls++; calls > after {
				failed = true
				return errors.New("cut")
			}
			return nil
		}
		n, kept, err := h.Adopt(file, "work", 3)
		r.fs.Hook = nil
		for _, image := range []*faultfs.Mem{r.fs.Crash(), r.fs.Kill()} {
			found := ""
			for _, name := range []string{file, file + ".adopted", File(testHome, "work")} {
				if _, err := image.Lstat(name); err != nil {
					continue
				}
				s, err := crmem.Open(name, &crmem.Options{FS: image})
				if err != nil {
					t.Fatalf("after %d calls: %s: %v", after, name, err)
				}
				if s.Stats().Entries == 1 {
					found = name
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			if found == "" || err == nil && found != File(testHome, "work") {
				t.Errorf("after %d calls: the entry is in %q", after, found)
			}
		}
		if failed {
			continue
		}
		if n != 1 || kept != file+".adopted" || err != nil {
			t.Errorf("adopted %d entries, kept %s, %v", n, kept, err)
		}
		for _, c := range []struct{ file, name, want string }{
			{file, "more", "exists"}, {kept, "work", "exists"}, {kept, Main, "invalid"}, {File(testHome, Main), "x", "invalid"}, {File(testHome, "work"), "x", "invalid"},
		} {
			if _, _, err := h.Adopt(c.file, c.name, 3); kind(err) != c.want {
				t.Errorf("adopt %s as %s: %v, want %s", c.file, c.name, err, c.want)
			}
		}
		if got, want := r.names(t), "main:; work: n; "; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		return
	}
}
