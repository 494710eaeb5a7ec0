package tree_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"
)

// crashes calls check for crash states of the present moment: no unsynced
// change, all of them, all but one, only one, and random subsets with torn
// writes.
func crashes(r *rand.Rand, m *faultfs.Mem, seen map[[32]byte]bool, check func(*faultfs.Mem)) {
	list := m.Unsynced()
	try := func(outcomes []faultfs.Outcome) {
		c := m.Crash(outcomes...)
		if h := c.Hash(); !seen[h] {
			seen[h] = true
			check(c)
		}
	}
	whole := slices.Repeat([]faultfs.Outcome{faultfs.Kept}, len(list))
	try(nil)
	try(whole)
	for i := range list {
		but, alone := slices.Clone(whole), make([]faultfs.Outcome, len(list))
		but[i], alone[i] = faultfs.Lost, faultfs.Kept
		try(but)
		try(alone)
	}
	for range 4 {
		outcomes := make([]faultfs.Outcome, len(list))
		for i, c := range list {
			outcomes[i] = faultfs.Outcome(r.IntN(2))
			if c.Op == "write" {
				outcomes[i] = []faultfs.Outcome{faultfs.Lost, faultfs.Kept, faultfs.Zeroed, faultfs.Garbage, faultfs.Cut(1 + r.IntN(max(c.Cuts, 1)))}[r.IntN(5)]
				if c.Cuts == 0 && outcomes[i] > faultfs.Garbage {
					outcomes[i] = faultfs.Lost
				}
			}
		}
		try(outcomes)
	}
}

// files reads every file of a tree, temporaries apart.
func files(t *testing.T, fsys vfs.FS, dir string) (all map[string]string, temps []string) {
	t.Helper()
	all = map[string]string{}
	var walk func(sub string)
	walk = func(sub string) {
		list, err := fsys.ReadDir(dir + sub)
		if err != nil {
			return
		}
		for _, d := range list {
			name := sub + "/" + d.Name()
			switch base := d.Name(); {
			case d.IsDir():
				walk(name)
			case base[0] == '.' && base != ".crabmem.json" && base != ".gitattributes":
				temps = append(temps, name)
			case strings.HasPrefix(name, "/.crabmem/"): // a record
			default:
				b, err := vfs.ReadFile(fsys, dir+name, 1<<30)
				if err != nil {
					t.Fatal(err)
				}
				all[name] = string(b)
			}
		}
	}
	walk("")
	return all, temps
}

func snapshotOf(t *testing.T, next uint64, entries ...Entry) *Snapshot {
	t.Helper()
	sn, err := NewSnapshot(next, entries)
	if err != nil {
		t.Fatal(err)
	}
	return sn
}

func crashSnapshots(t *testing.T) (empty, old, next, other *Snapshot) {
	long := strings.Repeat("a page of more than one block\n", 200)
	keep := Entry{ID: 1, Name: "keep", CreatedAt: 5, Content: "kept"}
	change := Entry{ID: 2, Name: "change/d", CreatedAt: 5, Content: "before " + long}
	gone := Entry{ID: 3, Name: "gone", Kind: Archive, CreatedAt: 5, Content: "gone"}
	changed := change
	changed.Content = "after " + long
	added := Entry{ID: 4, Name: "added", Kind: Archive, CreatedAt: 6, Content: "added\n", Aliases: []string{" x"}}
	third := change
	third.Content = "third"
	return snapshotOf(t, 1), snapshotOf(t, 4, keep, change, gone), snapshotOf(t, 5, keep, changed, added), snapshotOf(t, 6, third, added, Entry{ID: 5, Name: "five"})
}

// TestDumpCrash cuts power at any call of a dump: every page is complete, load
// takes the old tree or the new one or refuses, and the next dump completes the
// tree.
func TestDumpCrash(t *testing.T) {
	r := seed.Random(t)
	empty, old, next, other := crashSnapshots(t)
	seen := map[[32]byte]bool{}
	states, refusals := 0, 0
	for _, from := range []*Snapshot{nil, empty, old} {
		start := faultfs.NewMem()
		if from != nil {
			if _, err := DumpSnapshot(start, "/home/brain", from, DumpOptionsFor("/home/brain")); err != nil {
				t.Fatal(err)
			}
		}
		before, _ := files(t, start, "/home/brain")
		done := start.Kill()
		if _, err := DumpSnapshot(done, "/home/brain", next, DumpOptionsFor("/home/brain")); err != nil {
			t.Fatal(err)
		}
		after, temps := files(t, done, "/home/brain")
		if len(temps) > 0 {
			t.Fatalf("a dump leaves %q", temps)
		}
		check := func(c *faultfs.Mem) {
			states++
			now, _ := files(t, c, "/home/brain")
			for name, text := range now {
				if name != "/.crabmem.json" && text != before[name] && text != after[name] {
					t.Fatalf("%s is neither old nor new: %.200q", name, text)
				}
			}
			s := New(&Options{FS: c})
			if _, err := Load(s, "/home/brain", LoadOptionsFor("/home/brain")); err == nil {
				got := encoded(t, s.Snapshot())
				if (from == nil || got != encoded(t, from)) && got != encoded(t, next) {
					t.Fatalf("loads to neither the old store nor the new:\n%s", diffEntries(next, s.Snapshot()))
				}
			} else if !errors.Is(err, ErrTree) {
				t.Fatal(err)
			} else {
				refusals++
			}
			// Another dump finishes it, of the same store or of one that has
			// moved on.
			for _, sn := range []*Snapshot{next, other} {
				k := c.Kill()
				if _, err := DumpSnapshot(k, "/home/brain", sn, DumpOptionsFor("/home/brain")); err != nil {
					t.Fatalf("the next dump: %v\n%v", err, now)
				}
				s := New(&Options{FS: k})
				if _, err := Load(s, "/home/brain", LoadOptionsFor("/home/brain")); err != nil {
					t.Fatal(err)
				}
				if got, want := encoded(t, s.Snapshot()), encoded(t, sn); got != want {
					t.Fatalf("the next dump loads to another store:\n%s", diffEntries(sn, s.Snapshot()))
				}
				if got, temps := files(t, k, "/home/brain"); sn == next && len(got) != len(after) || len(temps) > 0 {
					t.Fatalf("the next dump leaves %d files, %q", len(got), temps)
				}
			}
		}
		m := start.Kill()
		m.Hook = func(faultfs.Call) error {
			crashes(r, m, seen, check)
			return nil
		}
		if _, err := DumpSnapshot(m, "/home/brain", next, DumpOptionsFor("/home/brain")); err != nil {
			t.Fatal(err)
		}
		m.Hook = nil
		crashes(r, m, seen, check)
	}
	if states < 100 || refusals < 50 {
		t.Fatalf("only %d states, %d refused by load", states, refusals)
	}
	t.Logf("crash states of dump: %d distinct, load refused %d", states, refusals)
}

// TestDumpErrors fails each call: the dump returns the error, every page is
// complete, and the next dump completes the tree.
func TestDumpErrors(t *testing.T) {
	_, old, next, _ := crashSnapshots(t)
	runs := 0
	for _, errno := range []error{syscall.EIO, syscall.ENOSPC, syscall.EACCES} {
		for n := 1; ; n++ {
			m := faultfs.NewMem()
			if _, err := DumpSnapshot(m, "/brain", old, DumpOptionsFor("/brain")); err != nil {
				t.Fatal(err)
			}
			before, _ := files(t, m, "/brain")
			first, failed := m.Calls(), faultfs.Call{}
			m.Hook = func(c faultfs.Call) error {
				if c.N == first+n {
					failed = c
					return errno
				}
				return nil
			}
			r, err := DumpSnapshot(m, "/brain", next, DumpOptionsFor("/brain"))
			m.Hook = nil
			if failed.N == 0 {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			runs++
			if err == nil && failed.Op != "close" && failed.Name != "/" && len(r.Warnings) == 0 {
				t.Fatalf("call %d (%s %s) failed with %v and the dump did not", n, failed.Op, failed.Name, errno)
			}
			now, _ := files(t, m, "/brain")
			if failed.Op == "lstat" && len(now) == 0 {
				t.Fatal("pages are missing")
			}
			for name := range before {
				if name != "/archives/gone.md" && now[name] == "" {
					t.Fatalf("call %d (%s %s): %s is missing", n, failed.Op, failed.Name, name)
				}
			}
			if _, err := DumpSnapshot(m, "/brain", next, DumpOptionsFor("/brain")); err != nil {
				t.Fatalf("call %d (%s %s) failed: the next dump: %v", n, failed.Op, failed.Name, err)
			}
			s := New(&Options{FS: m})
			if _, err := Load(s, "/brain", LoadOptionsFor("/brain")); err != nil {
				t.Fatal(err)
			}
			if encoded(t, s.Snapshot()) != encoded(t, next) {
				t.Fatalf("call %d (%s %s): loads to another store", n, failed.Op, failed.Name)
			}
		}
	}
	if runs < 100 {
		t.Fatalf("only %d failed calls", runs)
	}
	t.Logf("failed calls of dump: %d", runs)
}

// TestForcedDumpCrash cuts power during a forced dump: no moved file is lost.
func TestForcedDumpCrash(t *testing.T) {
	r := seed.Random(t)
	_, old, next, _ := crashSnapshots(t)
	start := faultfs.NewMem()
	if _, err := DumpSnapshot(start, "/brain", old, DumpOptionsFor("/brain")); err != nil {
		t.Fatal(err)
	}
	start.WriteFile("/brain/notes/keep.md", []byte("edited by hand"), 0o600)
	start.WriteFile("/brain/notes/mine.md", []byte("written by hand"), 0o600)
	start = synced(start)
	seen := map[[32]byte]bool{}
	states := 0
	check := func(c *faultfs.Mem) {
		states++
		now, _ := files(t, c, "/brain")
		var have string
		for _, text := range now {
			have += text + "\n"
		}
		for _, text := range []string{"edited by hand", "written by hand"} {
			if strings.Count(have, text) != 1 {
				t.Fatalf("%q occurs %d times", text, strings.Count(have, text))
			}
		}
		if _, err := DumpSnapshot(c, "/brain", next, &DumpOptions{Bases: BasesFor("/brain"), Force: true}); err != nil {
			t.Fatal(err)
		}
		s := New(&Options{FS: c})
		if _, err := Load(s, "/brain", LoadOptionsFor("/brain")); err != nil {
			t.Fatal(err)
		}
		if encoded(t, s.Snapshot()) != encoded(t, next) {
			t.Fatal("the next dump loads to another store")
		}
	}
	m := start.Kill()
	m.Hook = func(faultfs.Call) error { crashes(r, m, seen, check); return nil }
	report, err := DumpSnapshot(m, "/brain", next, &DumpOptions{Bases: BasesFor("/brain"), Force: true})
	if err != nil || len(report.Aside) != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	m.Hook = nil
	crashes(r, m, seen, check)
	if states < 30 {
		t.Fatalf("only %d states", states)
	}
	t.Logf("crash states of a forced dump: %d", states)
}

// loadScene is a store file and an edited tree on one machine.
func loadScene(t *testing.T) (*faultfs.Mem, *Snapshot) {
	t.Helper()
	m := faultfs.NewMem()
	s, err := Open("/home/memory.db", &Options{FS: m})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"both", "here", "there", "gone"} {
		if _, err := s.Remember(name, "base of "+name, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Dump(s, "/home/brain", DumpOptionsFor("/home/brain")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"both", "here"} {
		if _, err := s.Remember(name, "store's "+name, nil); err != nil {
			t.Fatal(err)
		}
	}
	before := s.Snapshot()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"both", "there"} {
		writeText(t, m, "/home/brain/notes/"+name+".md", "tree's "+name+"\n")
	}
	m.WriteFile("/home/brain/notes/new.md", []byte("tree's new\n"), 0o600)
	if err := m.Remove("/home/brain/notes/gone.md"); err != nil {
		t.Fatal(err)
	}
	return synced(m), before
}

// synced is the machine with everything on its disk.
func synced(m *faultfs.Mem) *faultfs.Mem {
	return m.Crash(slices.Repeat([]faultfs.Outcome{faultfs.Kept}, len(m.Unsynced()))...)
}

// contents returns the state that a test of load compares: names and texts.
func contents(sn *Snapshot) string {
	var b strings.Builder
	for e := range sn.All() {
		b.WriteString(e.Name + "=" + e.Content + ";")
	}
	return b.String()
}

// After a power cut at any call of a load the store is the old or the new one,
// no page has changed, and the next load arrives.
func TestLoadCrash(t *testing.T) {
	race.Skip(t)
	r := seed.Random(t)
	for _, merge := range []bool{false, true} {
		start, before := loadScene(t)
		want := "both=tree's both;here=base of here;there=tree's there;new=tree's new;"
		if merge {
			want = "both=store's both;here=store's here;there=tree's there;new=tree's new;"
		}
		pages, _ := files(t, start, "/home/brain/notes")
		seen := map[[32]byte]bool{}
		states, arrived, refused := 0, 0, 0
		check := func(c *faultfs.Mem) {
			states++
			if now, temps := files(t, c, "/home/brain/notes"); len(now) != len(pages) || now["/both.md"] != pages["/both.md"] || len(temps) > 0 {
				t.Fatalf("pages are now %v, %q", now, temps)
			}
			s, err := Open("/home/memory.db", &Options{FS: c})
			if err != nil {
				t.Fatal(err)
			}
			got := contents(s.Snapshot())
			switch got {
			case contents(before):
			case want:
				arrived++
			default:
				t.Fatalf("merge %v: the store is %s", merge, got)
			}
			if _, err := Load(s, "/home/brain", &LoadOptions{Bases: BasesFor("/home/brain"), Merge: merge}); errors.Is(err, ErrTree) && merge {
				refused++
				now, _ := files(t, c, "/home/brain/conflicts")
				if !strings.Contains(now["/notes/both.md"], "store's both") {
					t.Fatalf("the conflict's file is %q", now)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if got := contents(s.Snapshot()); got != want {
				t.Fatalf("merge %v: after the next load the store is %s, want %s", merge, got, want)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		m := start.Kill()
		s, err := Open("/home/memory.db", &Options{FS: m})
		if err != nil {
			t.Fatal(err)
		}
		m.Hook = func(faultfs.Call) error { crashes(r, m, seen, check); return nil }
		if _, err := Load(s, "/home/brain", &LoadOptions{Bases: BasesFor("/home/brain"), Merge: merge}); err != nil {
			t.Fatal(err)
		}
		crashes(r, m, seen, check)
		m.Hook = nil
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if states < 50 || arrived == 0 || arrived == states || merge && refused == 0 {
			t.Fatalf("merge %v: %d states, %d with the new store, %d refused", merge, states, arrived, refused)
		}
		t.Logf("crash states of load, merge %v: %d distinct, %d with the new store, %d with a conflict to settle", merge, states, arrived, refused)
	}
}

// A load that fails at any call, a page's or another, leaves the store as it
// was, or has arrived.
func TestLoadErrors(t *testing.T) {
	runs, unread := 0, 0
	for _, merge := range []bool{false, true} {
		for n := 1; ; n++ {
			m, before := loadScene(t)
			s := New(&Options{FS: m})
			if err := s.Replace(before); err != nil {
				t.Fatal(err)
			}
			first, failed := m.Calls(), faultfs.Call{}
			m.Hook = func(c faultfs.Call) error {
				if c.N == first+n {
					failed = c
					return syscall.EIO
				}
				return nil
			}
			report, err := Load(s, "/home/brain", &LoadOptions{Bases: BasesFor("/home/brain"), Merge: merge})
			m.Hook = nil
			if failed.N == 0 {
				break
			}
			runs++
			same := contents(s.Snapshot()) == contents(before)
			switch {
			case err != nil && same:
				unread++
			case err == nil && !same: // a close failed, or the update of the manifest
				if len(report.Warnings) == 0 && failed.Op != "close" {
					t.Fatalf("call %d (%s %s) failed without an error", n, failed.Op, failed.Name)
				}
			case err != nil && merge && len(report.Conflicts) > 0: // its file could not be written
			default:
				t.Fatalf("merge %v: call %d (%s %s) failed: err %v, store unchanged %v", merge, n, failed.Op, failed.Name, err, same)
			}
		}
	}
	if unread < 20 {
		t.Fatalf("only %d calls failed before the store changed", unread)
	}
	t.Logf("failed calls of load: %d, %d of them with the store as it was", runs, unread)
}
