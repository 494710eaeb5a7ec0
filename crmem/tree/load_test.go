package tree_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// mustNotWait runs f and fails the test if f waits for a lock.
func mustNotWait(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(gate.Hang):
		t.Error("the call waits")
	}
}

// TestConfirmBlocksNoWriter changes the store during Confirm.
func TestConfirmBlocksNoWriter(t *testing.T) {
	for name, c := range map[string]struct {
		o         tree.LoadOptions
		write     func(s *crmem.Store) error // the first time
		confirmed []string                   // the removed entries, each time
		err       error
		have      string
	}{
		"replace, one more": {
			write:     func(s *crmem.Store) error { return s.Apply(crmem.Add{Name: "d", Content: "late"}) },
			confirmed: []string{"[c]", "[c d]"}, have: "a tree|b text|",
		},
		"replace, one less": {
			write:     func(s *crmem.Store) error { return s.Forget("c") },
			confirmed: []string{"[c]", "[]"}, have: "a tree|b text|",
		},
		"replace, another text where the tree's goes": {
			write:     func(s *crmem.Store) error { return s.Apply(crmem.Update{Name: "a", Content: "late"}) },
			confirmed: []string{"[c]"}, have: "a tree|b text|",
		},
		"replace, one that stayed": {
			write:     func(s *crmem.Store) error { return s.Apply(crmem.Update{Name: "b", Content: "late"}) },
			confirmed: []string{"[c]", "[c]"}, have: "a tree|b text|",
		},
		"merge": {
			o:         tree.LoadOptions{Merge: true},
			write:     func(s *crmem.Store) error { return s.Apply(crmem.Add{Name: "d", Content: "late"}) },
			confirmed: []string{"[]"}, have: "a tree|b text|c since|d late|",
		},
		"merge, a conflict": {
			o:         tree.LoadOptions{Merge: true},
			write:     func(s *crmem.Store) error { return s.Apply(crmem.Update{Name: "a", Content: "late"}) },
			confirmed: []string{"[]", "[]"}, have: "a late|b text|c since|",
		},
		"guarded": {
			o: tree.LoadOptions{Guard: true},
			write: func(s *crmem.Store) error {
				return s.Apply(crmem.Add{Name: "d", Content: "late"})
			},
			confirmed: []string{"[]"}, err: tree.ErrChanged, have: "a text|b text|d late|",
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := faultfs.NewMem()
			s := open(t, "/s/memory.db", &crmem.Options{FS: mem})
			for _, n := range []string{"a", "b"} {
				if _, err := s.Remember(n, "text", nil); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := tree.Dump(s, "/book", tree.DumpOptionsFor("/book")); err != nil {
				t.Fatal(err)
			}
			page, err := vfs.ReadFile(mem, "/book/notes/a.md", 1<<20)
			if err == nil {
				err = vfs.WriteFile(mem, "/book/notes/a.md", 0o600, bytes.Replace(page, []byte("text"), []byte("tree"), 1))
			}
			if err != nil {
				t.Fatal(err)
			}
			if !c.o.Guard {
				if _, err := s.Remember("c", "since", nil); err != nil {
					t.Fatal(err)
				}
			}
			var confirmed []string
			c.o.Bases = tree.BasesFor("/book")
			c.o.Confirm = func(r tree.LoadReport) error {
				if confirmed = append(confirmed, fmt.Sprint(r.Removed)); len(confirmed) == 1 {
					mustNotWait(t, func() error { return c.write(s) })
				}
				return nil
			}
			_, err = tree.Load(s, "/book", &c.o)
			if !errors.Is(err, c.err) || err != nil && c.err == nil {
				t.Errorf("%v", err)
			}
			have := ""
			for e := range s.All() {
				have += e.Name + " " + e.Content + "|"
			}
			if have != c.have || !slices.Equal(confirmed, c.confirmed) {
				t.Errorf("the store has %s, confirmed %v", have, confirmed)
			}
		})
	}
}

// TestConfirmWithoutEnd: a store that changes each time is not loaded.
func TestConfirmWithoutEnd(t *testing.T) {
	mem := faultfs.NewMem()
	s := open(t, "/s/memory.db", &crmem.Options{FS: mem})
	if _, err := s.Remember("a", "text", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Dump(s, "/book", tree.DumpOptionsFor("/book")); err != nil {
		t.Fatal(err)
	}
	n := 0
	_, err := tree.Load(s, "/book", &tree.LoadOptions{Bases: tree.BasesFor("/book"), Confirm: func(tree.LoadReport) error {
		n++
		mustNotWait(t, func() error { return s.Apply(crmem.Add{Name: fmt.Sprint(n)}) })
		return nil
	}})
	if !errors.Is(err, crmem.ErrStale) || s.Len() != n+1 || n != 10 {
		t.Errorf("%v, %d entries after %d confirmations", err, s.Len(), n)
	}
}

// TestConfirmOfReadOnlyStore loads into a store that is open for reading. Load
// reports the changes of a dry run, and else asks for no confirmation.
func TestConfirmOfReadOnlyStore(t *testing.T) {
	mem := faultfs.NewMem()
	s := open(t, "/s/memory.db", &crmem.Options{FS: mem})
	if _, err := s.Remember("a", "text", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Dump(s, "/book", tree.DumpOptionsFor("/book")); err != nil {
		t.Fatal(err)
	}
	mem.WriteFile("/book/notes/b.md", []byte("more"), 0o600)
	s = open(t, "/s/memory.db", &crmem.Options{FS: mem, ReadOnly: true})
	for _, dry := range []bool{true, false} {
		asked := 0
		r, err := tree.Load(s, "/book", &tree.LoadOptions{Bases: tree.BasesFor("/book"), DryRun: dry, Confirm: func(tree.LoadReport) error { asked++; return nil }})
		want := tree.LoadReport{Dir: "/book"}
		if dry {
			want = tree.LoadReport{Dir: "/book", Dumped: true, Pages: 2, Added: []string{"b"}, Kept: 1}
		}
		if errors.Is(err, crmem.ErrReadOnly) == dry || (err == nil) != dry || !reflect.DeepEqual(r, want) || (asked > 0) != dry {
			t.Errorf("dry run %t: %+v, %v, asked %d times", dry, r, err, asked)
		}
	}
}
