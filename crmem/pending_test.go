package crmem_test

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
)

// pendingCall is a write that runs in its own goroutine.
type pendingCall struct {
	returned bool
	err      error
}

// apply starts ops and waits until Apply returns or blocks. The caller runs in
// a synctest bubble.
func apply(s *crmem.Store, ops ...crmem.Op) *pendingCall {
	c := new(pendingCall)
	go func() {
		c.err = s.Apply(ops...)
		c.returned = true
	}()
	synctest.Wait()
	return c
}

// blockLogSync blocks each sync of a log in m until release is called.
func blockLogSync(m *faultfs.Mem, name string) (release func()) {
	open := make(chan struct{})
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "datasync" && c.Name == name {
			<-open
		}
		return nil
	}
	return func() { close(open) }
}

// pendingTable is a sequence of writes after those of the group in flight. All
// of them wait for the sync: an error rests on the writes before it.
var pendingTable = []struct {
	what string
	op   crmem.Op
	want error
}{
	{"add a name in flight", crmem.Add{Name: "new"}, crmem.ErrExists},
	{"restore a name in flight", crmem.Restore{Entry: crmem.Entry{Name: "new"}}, crmem.ErrExists},
	{"require the absence of a name in flight", crmem.Unchanged{Entry: crmem.Entry{Name: "new"}}, crmem.ErrStale},
	{"remove a name whose remove is in flight", crmem.Remove{Name: "old"}, crmem.ErrNotFound},
	{"update a name whose remove is in flight", crmem.Update{Name: "old"}, crmem.ErrNotFound},
	{"alias a name whose remove is in flight", crmem.Alias{Name: "old"}, crmem.ErrNotFound},
	{"update a name in flight", crmem.Update{Name: "new", Content: "2"}, nil},
	{"add a name whose remove is in flight", crmem.Add{Name: "old", Content: "2"}, nil},
	{"add a name", crmem.Add{Name: "late"}, nil},

	{"add a staged name", crmem.Add{Name: "late"}, crmem.ErrExists},
	{"remove a staged name", crmem.Remove{Name: "late"}, nil},
	{"remove a name whose remove is staged", crmem.Remove{Name: "late"}, crmem.ErrNotFound},
	{"alias a name whose remove is staged", crmem.Alias{Name: "late"}, crmem.ErrNotFound},
	{"remove a name in flight", crmem.Remove{Name: "new"}, nil},
	{"update a name that is in flight and whose remove is staged", crmem.Update{Name: "new"}, crmem.ErrNotFound},
	{"add a name that was removed in flight and is staged", crmem.Add{Name: "old"}, crmem.ErrExists},
	{"alias a staged name", crmem.Alias{Name: "old", Aliases: []string{"x"}}, nil},
	{"add a name whose remove is staged", crmem.Add{Name: "new", Content: "3"}, nil},
}

// TestApplySeesPendingWrites checks writes against the writes before them that
// are in flight or staged, and not yet durable.
func TestApplySeesPendingWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := faultfs.NewMem()
		o := &crmem.Options{FS: m, Now: at(1), CheckpointOnClose: crmem.CheckpointNever}
		s := must(crmem.Open("/m.db", o))
		ok(t, s.Apply(crmem.Add{Name: "old", Content: "1"}, crmem.Add{Name: "other", Content: "1"}))
		release := blockLogSync(m, "/m.db-wal")
		calls := []*pendingCall{apply(s, crmem.Add{Name: "new", Content: "1"}, crmem.Remove{Name: "old"})}
		for _, row := range pendingTable {
			c := apply(s, row.op)
			if c.returned {
				t.Errorf("%s: returned %v before the sync", row.what, c.err)
			}
			calls = append(calls, c)
		}
		if got := show(s); got != "1:old/note=1[] 2:other/note=1[]" {
			t.Errorf("before the sync: %s", got)
		}
		release()
		synctest.Wait()
		if c := calls[0]; !c.returned || c.err != nil {
			t.Errorf("the write in flight: returned %t, %v", c.returned, c.err)
		}
		for i, c := range calls[1:] {
			if row := pendingTable[i]; !c.returned || !errors.Is(c.err, row.want) || (c.err == nil) != (row.want == nil) {
				t.Errorf("%s: returned %t, %v; want %v", row.what, c.returned, c.err, row.want)
			}
		}
		const want = "2:other/note=1[] 4:old/note=2[x] 6:new/note=3[]"
		if got := show(s); got != want {
			t.Errorf("after the sync:\n got %s\nwant %s", got, want)
		}
		live := slices.Collect(s.All())
		ok(t, s.Close())
		s = must(crmem.Open("/m.db", o))
		if diff := cmp.Diff(live, slices.Collect(s.All())); diff != "" {
			t.Errorf("after a reopen: %s", diff)
		}
		ok(t, s.Close())
	})
}

// TestReplaceDuringWrites stages writes while a Replace waits for the group
// before it: they apply to the state after the Replace, and survive it.
func TestReplaceDuringWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := faultfs.NewMem()
		o := &crmem.Options{FS: m, Now: at(1), CheckpointOnClose: crmem.CheckpointNever}
		s := must(crmem.Open("/m.db", o))
		ok(t, s.Apply(crmem.Add{Name: "old"}, crmem.Add{Name: "both", Content: "1"}))
		steps := make(chan struct{})
		m.Hook = func(c faultfs.Call) error {
			if c.Op == "datasync" && c.Name == "/m.db-wal" {
				<-steps
			}
			return nil
		}
		first := apply(s, crmem.Add{Name: "first"}) // holds the token during its sync
		replaced := new(pendingCall)
		go func() {
			replaced.err = s.Replace(must(crmem.NewSnapshot(20, []crmem.Entry{{ID: 9, Name: "both", Content: "2"}})))
			replaced.returned = true
		}()
		synctest.Wait()
		second := apply(s, crmem.Add{Name: "second"}) // written by Replace
		steps <- struct{}{}
		synctest.Wait()
		add := apply(s, crmem.Add{Name: "late"})
		update := apply(s, crmem.Update{Name: "old"})
		alias := apply(s, crmem.Alias{Name: "both", Aliases: []string{"x"}})
		close(steps)
		synctest.Wait()
		for what, c := range map[string]*pendingCall{"first": first, "second": second, "replace": replaced, "add": add, "alias": alias} {
			if !c.returned || c.err != nil {
				t.Errorf("%s: returned %t, %v", what, c.returned, c.err)
			}
		}
		if !errors.Is(update.err, crmem.ErrNotFound) {
			t.Errorf("update an entry that the snapshot lacks: %v", update.err)
		}
		got := show(s)
		if got != "9:both/note=2[x] 20:late/note=[]" {
			t.Errorf("after the replace: %s", got)
		}
		m = m.Crash()
		s = must(crmem.Open("/m.db", &crmem.Options{FS: m, Warn: func(w string) { t.Error(w) }}))
		if again := show(s); again != got {
			t.Errorf("after a power cut: %s, want %s", again, got)
		}
	})
}

// TestErrorsDependOnDurableWrites refuses a write because of another that then
// fails: the refusal must not outlive its reason.
func TestErrorsDependOnDurableWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := faultfs.NewMem()
		s := must(crmem.Open("/m.db", &crmem.Options{FS: m}))
		ok(t, s.Apply(crmem.Add{Name: "other"}))
		open, full := make(chan struct{}), true
		m.Hook = func(c faultfs.Call) error {
			if c.Op == "write" && c.Name == "/m.db-wal" && full {
				<-open
				full = false
				return syscall.ENOSPC
			}
			return nil
		}
		first, second := apply(s, crmem.Add{Name: "a", Content: "1"}), apply(s, crmem.Add{Name: "a", Content: "2"})
		close(open)
		synctest.Wait()
		e, err := s.Get("a")
		if !errors.Is(first.err, crmem.ErrNotApplied) || second.err != nil || err != nil || e.Content != "2" {
			t.Errorf("first: %v; second: %v; then get: %+v, %v", first.err, second.err, e, err)
		}
	})
}
