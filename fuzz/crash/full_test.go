package crash

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/checkpoint"
	"crabmem/crmem/vfs/faultfs"
)

// TestDiskFull fills small disks, removes an entry on each full disk, and writes
// after it frees space. It checks the crash state of each stage.
func TestDiskFull(t *testing.T) {
	states := 0
	for limit := int64(300_000); limit < 340_000; limit += 1000 {
		m := faultfs.NewMem()
		m.Limit = limit // includes 256 KiB for the reserve file
		s, err := crmem.Open(db, &crmem.Options{FS: m, Now: func() time.Time { return time.Unix(epoch, 0) }, CheckpointOnClose: checkpoint.Never})
		if err != nil {
			t.Fatal(err)
		}
		want := newVersion(1, nil)
		full := false
		for i := 0; !full; i++ {
			op := crmem.Add{Name: fmt.Sprint("entry ", i), Content: text(1500, i)}
			switch err := s.Apply(op); {
			case err == nil:
				want, _ = want.apply(epoch, op)
			case errors.Is(err, crmem.ErrNotApplied) && errors.Is(err, syscall.ENOSPC):
				full = true
			default:
				t.Fatalf("limit %d, write %d: %v", limit, i, err)
			}
			if i%5 == 4 && !full {
				if err := s.Checkpoint(); err != nil && !errors.Is(err, crmem.ErrNotApplied) {
					t.Fatalf("limit %d, checkpoint %d: %v", limit, i, err)
				}
			}
		}
		check := func(when string) {
			t.Helper()
			states++
			c := m.Crash()
			c.Limit = 0
			r, err := crmem.Open(db, &crmem.Options{FS: c})
			if err != nil {
				t.Fatalf("limit %d, %s: %v", limit, when, err)
			}
			if got := stateOf(r); got.print != want.print {
				t.Fatalf("limit %d, %s: %v\nwant %v", limit, when, got, want)
			}
		}
		check("full")
		// A remove must succeed, as it uses the reserve file.
		op := crmem.Remove{Name: want.first()}
		if err := s.Apply(op); err != nil {
			t.Fatalf("limit %d: remove on a full disk: %v", limit, err)
		}
		want, _ = want.apply(epoch, op)
		check("after a remove")
		m.Limit = 0
		add := crmem.Add{Name: "room", Content: text(3000, 1)}
		if err := errors.Join(s.Apply(add), s.Checkpoint()); err != nil {
			t.Fatalf("limit %d: after space was freed: %v", limit, err)
		}
		want, _ = want.apply(epoch, add)
		check("after space was freed")
	}
	t.Logf("full disks checked: %d states", states)
}
