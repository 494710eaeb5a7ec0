package crmem

import (
	"fmt"
	"testing"
	"time"

	"crabmem/crmem/vfs/faultfs"
)

// TestPoint describes points by number and by time.
func TestPoint(t *testing.T) {
	at := time.Unix(1_800_000_000, 0).UTC()
	for want, p := range map[string]Point{
		"change 1":             {Seq: 1},
		"change 12":            {Seq: 12, Time: at},
		"2027-01-15T08:00:00Z": {Time: at},
	} {
		if got := p.String(); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}

func TestChangeConcernsTheNamesOfAnEntry(t *testing.T) {
	a, empty := Entry{ID: 1, Name: "a"}, Entry{ID: 1}
	for _, c := range []struct {
		change Change
		name   string
		want   bool
	}{
		{Change{Before: a}, "a", true}, {Change{After: a}, "a", true}, {Change{Before: a}, "b", false},
		{Change{Before: a}, "", false}, {Change{After: a}, "", false}, {Change{Before: a, After: empty}, "", true}, {Change{Before: empty, After: a}, "", true},
	} {
		if got := c.change.concerns(c.name); got != c.want {
			t.Errorf("%+v and %q: %v, want %v", c.change, c.name, got, c.want)
		}
	}
}

// TestRemovedAsFindsTheLastName purges by name only entries that are removed.
func TestRemovedAsFindsTheLastName(t *testing.T) {
	s := opened(t, "/m.db", &Options{FS: faultfs.NewMem()}, 0)
	for _, c := range []struct {
		op   Op
		a, b string
	}{
		{Add{Name: "a"}, "[]", "[]"},
		{Remove{"a"}, "[1]", "[]"},
		{Restore{Entry{ID: 1, Name: "b"}}, "[]", "[]"},
		{Remove{"b"}, "[]", "[1]"},
		{Add{Name: "b"}, "[]", "[1]"},
		{Remove{"b"}, "[]", "[1 2]"},
	} {
		noErr(t, s.Apply(c.op))
		a, err := s.removedAs("a")
		noErr(t, err)
		b, err := s.removedAs("b")
		noErr(t, err)
		if fmt.Sprint(a) != c.a || fmt.Sprint(b) != c.b {
			t.Errorf("after %+v: %v and %v, want %s and %s", c.op, a, b, c.a, c.b)
		}
	}
	noErr(t, s.Close())
}
