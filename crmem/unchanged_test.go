package crmem

import (
	"errors"
	"path/filepath"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// TestUnchanged checks conditions in batches: a batch is atomic, and a
// condition sees the earlier changes of its batch.
func TestUnchanged(t *testing.T) {
	s := New(nil)
	a, err := s.Remember("a", "one", []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	absent := Unchanged{Entry{Name: "b"}}
	for i, c := range []struct {
		ops  []Op
		want error
	}{
		{[]Op{Unchanged{a}}, nil},
		{[]Op{absent}, nil},
		{[]Op{Unchanged{Entry{Name: "a"}}, Remove{"a"}}, ErrStale},
		{[]Op{Unchanged{Entry{ID: 7, Name: "b"}}, Remove{"a"}}, ErrStale},
		{[]Op{Update{"a", "two", nil}, Unchanged{a}}, ErrStale},
		{[]Op{Add{Name: "b"}, absent}, ErrStale},
		{[]Op{Remove{"a"}, Unchanged{Entry{Name: "a"}}, Unchanged{a}}, ErrStale},
	} {
		if err := s.Apply(c.ops...); !errors.Is(err, c.want) {
			t.Errorf("%d: %v, want %v", i, err, c.want)
		}
		if e, err := s.Get("a"); err != nil || !e.Equal(a) || s.Len() != 1 {
			t.Fatalf("%d: the store changed: %v, %v, %d entries", i, e, err, s.Len())
		}
	}
	list, err := s.Do(Unchanged{a}, Alias{"a", []string{"y"}}, absent, Add{Name: "b", Content: "new", Kind: Archive}, Remove{"a"})
	if err != nil || len(list) != 2 || list[0].Content != "one" || list[0].Aliases[0] != "y" || list[1].Name != "b" || list[1].Kind != Archive {
		t.Errorf("%v, %v", list, err)
	}
}

// TestDeclare checks that who has a socket says so before the first write, of
// a store that is missing too.
func TestDeclare(t *testing.T) {
	m := faultfs.NewMem()
	path := filepath.Join("/home", "memory.db")
	for i := range 2 {
		s, err := Open(path, &Options{FS: m, Command: "crabmem daemon", Socket: "/home/daemon.sock"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(path, &Options{FS: m})
		if e, ok := errors.AsType[*vfs.LockedError](err); !ok || e.Holder.Socket != "/home/daemon.sock" || e.Holder.Command != "crabmem daemon" {
			t.Errorf("%d: %v", i, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		// As before it, clean.
		s, err = Open(path, &Options{FS: m, Warn: func(w string) { t.Errorf("%d: %s", i, w) }})
		if err != nil || s.Close() != nil {
			t.Fatal(err)
		}
	}
}
