package crmem_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
)

// TestIdentityAfterSegments gives a store with two segments a new identity.
func TestIdentityAfterSegments(t *testing.T) {
	p := newSegments(t, 2)
	p.must(p.s.NewIdentity())
	p.do(crmem.Add{Name: "a3"})
	p.must(p.s.Checkpoint())
	if got := p.brief(); got != "1 2 3" {
		t.Errorf("changes %s\n%s", got, p.log())
	}
}

// TestFoldWithoutCheckpoint folds operations that stay in the log, because the disk
// is full when the checkpoint writes the snapshot. The next fold begins a segment
// (H3).
func TestFoldWithoutCheckpoint(t *testing.T) {
	p := newSegments(t, 2)
	p.do(crmem.Add{Name: "a3"})
	p.m.Hook = func(c faultfs.Call) error {
		if c.Op == "write" && strings.HasPrefix(c.Name, "/.m.db") {
			return syscall.ENOSPC
		}
		return nil
	}
	if err := p.s.Checkpoint(); !errors.Is(err, crmem.ErrNotApplied) {
		t.Errorf("checkpoint on a full disk: %v", err)
	}
	p.m.Hook = nil
	p.do(crmem.Add{Name: "a4"})
	p.must(p.s.Checkpoint())
	if got := p.brief(); got != "1 2 3 4" || len(p.originals()) != 4 {
		t.Errorf("changes %s, files %q", got, p.originals())
	}
}

// TestNewEpoch folds operations after an older copy was restored. The segment has a
// new epoch if the history has other or later operations (H6).
func TestNewEpoch(t *testing.T) {
	for _, c := range []struct{ restored, last int }{{1, 2}, {1, 3}, {2, 3}} { // operations of the copy, and of the history
		restored := c.restored
		p := newPast(t)
		p.do(crmem.Add{Name: "a1"})
		p.must(p.s.Checkpoint())
		var old map[string]string
		for i := 2; i <= c.last; i++ {
			if i == restored+1 {
				old = p.copyFiles()
			}
			p.do(crmem.Add{Name: fmt.Sprint("a", i)})
		}
		p.must(p.s.Checkpoint())
		p.must(p.s.Close())
		p.put("/m.db", old["/m.db"])
		p.put("/m.db-wal", old["/m.db-wal"])
		p.must(p.m.Remove("/m.db-wal.held"))
		p.must(p.m.SyncDir("/"))
		now := p.m.Now
		p.m = p.m.Crash()
		p.m.Now = now
		p.open()
		if restored == 1 {
			p.do(crmem.Add{Name: "other"})
		}
		p.must(p.s.Checkpoint())
		epochs := map[format.ID]bool{}
		for name, text := range p.copyFiles() {
			if strings.HasSuffix(name, ".zst") {
				text = decompressed(text)
			}
			if strings.Contains(name, ".log") {
				h, err := format.ReadLogHeader([]byte(text))
				p.must(err)
				epochs[h.Epoch] = true
			}
		}
		if len(epochs) != 2 || p.brief() != "1 2" {
			t.Errorf("%+v: %d epochs, changes %s", c, len(epochs), p.brief())
		}
	}
}

// TestUpdateOfConcurrentlyCreatedStore creates the store during Update. Update calls
// next again.
func TestUpdateOfConcurrentlyCreatedStore(t *testing.T) {
	p := newPast(t)
	p.must(p.s.Update(func(sn *crmem.Snapshot) (*crmem.Snapshot, error) {
		if _, err := p.m.Lstat("/m.db"); errors.Is(err, fs.ErrNotExist) {
			s, err := crmem.Open("/m.db", &crmem.Options{FS: p.m})
			p.must(err)
			p.must(errors.Join(s.Apply(crmem.Add{Name: "first"}), s.Close()))
			return sn, nil
		}
		list := append(slices.Collect(sn.All()), crmem.Entry{ID: 9, Name: "second", CreatedAt: 1})
		return crmem.NewSnapshot(10, list)
	}))
	if _, err := p.s.Get("first"); err != nil || p.s.Len() != 2 {
		t.Errorf("%d entries: %v", p.s.Len(), err)
	}
}
