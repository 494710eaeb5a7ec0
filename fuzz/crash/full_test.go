package crash

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
)

// TestDiskFull fills small disks, removes an entry on each full disk, and writes
// after it frees space. It checks the crash state of each stage.
func TestDiskFull(t *testing.T) {
	states, step := 0, int64(30_000)
	if crashtest.Full {
		step = 10_000
	}
	for limit := int64(3_700_000); limit < 4_100_000; limit += step {
		m := faultfs.NewMem()
		m.Limit = limit
		s, err := crmem.Open(db, &crmem.Options{FS: m, Now: func() time.Time { return time.Unix(epoch, 0) }, CheckpointOnClose: crmem.CheckpointNever})
		if err != nil {
			t.Fatal(err)
		}
		first := crmem.Add{Name: "first", Content: text(1<<20, 0)} // large enough for a reserve file
		want, _ := newVersion(1, nil).apply(epoch, first)
		if err := s.Apply(first); err != nil {
			t.Fatal(err)
		}
		full := false
		for i := 0; !full; i++ {
			op := crmem.Add{Name: fmt.Sprint("entry ", i), Content: text(20_000, i)}
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
		op := crmem.Remove{Name: "entry 0"}
		if err := s.Apply(op); err != nil {
			t.Fatalf("limit %d: remove on a full disk: %v", limit, err)
		}
		want, _ = want.apply(epoch, op)
		check("after a remove")
		m.Limit = 0
		add := crmem.Add{Name: "room", Content: text(30_000, 1)}
		if err := errors.Join(s.Apply(add), s.Checkpoint()); err != nil {
			t.Fatalf("limit %d: after space was freed: %v", limit, err)
		}
		want, _ = want.apply(epoch, add)
		check("after space was freed")
	}
	t.Logf("full disks checked: %d states", states)
}
