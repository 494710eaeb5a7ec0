package crmem_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
)

// TestPurgeFirst purges in a store that has no log. If the log cannot be created,
// nothing is applied.
func TestPurgeFirst(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "b"})
	p.must(p.s.Checkpoint())
	p.must(p.s.Close())
	p.must(p.m.Remove("/m.db-wal"))
	p.must(p.m.Remove("/m.db-wal.held"))
	p.open()
	p.m.Hook = func(c faultfs.Call) error {
		if strings.HasPrefix(c.Name, "/.m.db-wal") {
			return syscall.ENOSPC
		}
		return nil
	}
	_, err := p.s.Purge("b")
	p.m.Hook = nil
	if _, gerr := p.s.Get("b"); !errors.Is(err, crmem.ErrNotApplied) || gerr != nil {
		t.Errorf("purge without a log on a full disk: %v; the entry: %v", err, gerr)
	}
	if _, err := p.s.Purge("b"); err != nil {
		t.Error(err)
	}
}

// TestPurgeReadOnly purges in a store that is open for reading: no file changes.
func TestPurgeReadOnly(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a"})
	p.must(p.s.Close())
	p.must(p.m.Remove("/m.db-wal"))
	p.must(p.m.Remove("/m.db-wal.held"))
	p.opts.ReadOnly = true
	p.open()
	before := p.m.Hash()
	if _, err := p.s.Purge("a"); !errors.Is(err, crmem.ErrReadOnly) || p.m.Hash() != before {
		t.Errorf("%v, or the files changed", err)
	}
}

// TestChangesDuringPrune prunes all changes and makes others while a reader has read the
// log and not the segments. The reader reads again.
func TestChangesDuringPrune(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a"})
	p.must(p.s.Checkpoint())
	p.do(crmem.Add{Name: "b"})
	r, err := crmem.Open("/m.db", &crmem.Options{FS: p.m, ReadOnly: true})
	p.must(err)
	done := false
	p.m.Hook = func(c faultfs.Call) error {
		if done || c.Op != "readdir" || c.Name != "/m.db-history" {
			return nil
		}
		done = true
		_, err := p.s.Prune(time.Unix(p.now+1, 0))
		p.must(err)
		p.do(crmem.Add{Name: "c"})
		p.must(p.s.Checkpoint())
		p.do(crmem.Add{Name: "d"})
		return nil
	}
	var names []string
	for c, err := range r.Changes() {
		p.must(err)
		names = append(names, c.Entry().Name)
	}
	if !done || !slices.Equal(names, []string{"c", "d"}) {
		t.Errorf("changes of %q", names)
	}
}

// TestPurgeOrder purges removed entries that had one name: the log has their ids in
// order.
func TestPurgeOrder(t *testing.T) {
	p := newPast(t)
	for range 12 {
		p.do(crmem.Add{Name: "a"})
		p.do(crmem.Remove{Name: "a"})
	}
	if _, err := p.s.Purge("a"); err != nil {
		t.Fatal(err)
	}
	scan, err := format.ScanLog([]byte(p.copyFiles()["/m.db-wal"]))
	p.must(err)
	var ids []uint64
	for i := range scan.Frames {
		if f := &scan.Frames[i]; f.Type == format.FramePurged {
			ids = append(ids, f.EntryID())
		}
	}
	if len(ids) != 12 || !slices.IsSorted(ids) {
		t.Errorf("purged %v", ids)
	}
}

// TestUndoIsOneOperation undoes an update: the log gets one operation.
func TestUndoIsOneOperation(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a", Content: "one"})
	p.do(crmem.Update{Name: "a", Content: "two"})
	if _, err := p.s.Undo(2); err != nil {
		t.Fatal(err)
	}
	p.do(crmem.Alias{Name: "a", Aliases: []string{"z"}})
	last := uint64(0)
	for c, err := range p.s.Changes() {
		p.must(err)
		last = c.Seq
	}
	if last != 4 {
		t.Errorf("the last change has the sequence number %d, want 4", last)
	}
}

// TestIndexOfFilledSegment appends to a segment until it is full: it gets its index then.
func TestIndexOfFilledSegment(t *testing.T) {
	p := newPast(t)
	p.segmentLimit = 400
	p.reopen()
	p.do(crmem.Add{Name: "a"})
	p.must(p.s.Checkpoint())
	if n := len(p.history(".idx")); n != 0 {
		t.Fatalf("%d indexes of a segment that is not full", n)
	}
	p.do(crmem.Update{Name: "a", Content: strings.Repeat("x", 300)})
	p.must(p.s.Checkpoint())
	if list := p.history(".idx"); len(list) != 1 || len(p.history(".log")) != 1 {
		t.Errorf("indexes %q of a full segment", list)
	}
	if !crmem.IndexedChanges(p.s, "a") {
		t.Error("the changes of an entry need a read of the complete history")
	}
}

// TestHistoryOfRemovedStore removes a store, but not its history. The next store with
// the name has no problem.
func TestHistoryOfRemovedStore(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "old"})
	p.must(p.s.Checkpoint())
	p.must(p.s.Close())
	for name := range p.copyFiles() {
		if !strings.HasPrefix(name, "/m.db-history/") {
			p.must(p.m.Remove(name))
		}
	}
	for what, step := range map[string]func() error{"in the log": func() error { return nil }, "after a checkpoint": func() error { return p.s.Checkpoint() }} {
		p.open()
		p.do(crmem.Add{Name: what})
		p.must(step())
		if r, err := crmem.Check(p.m, "/m.db", 0); err != nil || len(r.Problems) > 0 {
			t.Errorf("%s: %v, %+v", what, err, r)
		}
		p.must(p.s.Close())
	}
}

// TestFoldOfChangedLog overwrites the header of the log before a checkpoint. The history
// does not take its operations, and the store reports that.
func TestFoldOfChangedLog(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a"})
	f, err := p.m.OpenFile("/m.db-wal", os.O_RDWR, 0)
	p.must(err)
	b := []byte(p.copyFiles()["/m.db-wal"])
	p.must(f.Truncate(0))
	b[50] ^= 1
	_, err = f.Write(b)
	p.must(errors.Join(err, f.Close()))
	if err := p.s.Checkpoint(); err == nil && len(p.warn) == 0 {
		t.Error("no error and no report")
	}
	if _, err := p.s.Get("a"); err != nil {
		t.Error(err)
	}
}

// TestSegmentReplacedDuringFold has another program replace the newest segment while a
// checkpoint appends to it. The operations are in the history.
func TestSegmentReplacedDuringFold(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a"})
	p.must(p.s.Checkpoint())
	old := p.copyFiles()["/m.db-history/00000001.log"]
	p.do(crmem.Add{Name: "b"})
	done := false
	p.m.Hook = func(c faultfs.Call) error {
		if c.Op == "datasync" && c.Name == "/m.db-history/00000001.log" && !done {
			done = true
			p.m.WriteFile("/other", []byte(old), 0o600)
			return p.m.Rename("/other", "/m.db-history/00000001.log")
		}
		return nil
	}
	p.must(p.s.Checkpoint())
	p.m.Hook = nil
	if !done {
		t.Fatal("the segment was not replaced")
	}
	p.wantLog("1 +1 cli add a\n2 +2 cli add b\n")
}
