package crash

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// TestReaders repeatedly opens a store for reading while a writer makes a thousand
// checkpoints. Each reader must find a state between the last acknowledged batch
// before the open and the last issued batch after it.
func TestReaders(t *testing.T) {
	t.Run("mem", func(t *testing.T) { readers(t, faultfs.NewMem(), db, 1000) })
	t.Run("os", func(t *testing.T) {
		n := 20
		if full {
			n = 1000
		}
		readers(t, vfs.OS{}, t.TempDir()+"/memory.db", n)
	})
}

// readers runs a writer and two readers on a file system.
func readers(t *testing.T, fsys vfs.FS, path string, checkpoints int) {
	s, err := crmem.Open(path, &crmem.Options{FS: fsys, CheckpointOnClose: crmem.CheckpointNever})
	if err != nil {
		t.Fatal(err)
	}
	pair := func(k int) []crmem.Op {
		return []crmem.Op{crmem.Update{Name: "left", Content: strconv.Itoa(k)}, crmem.Update{Name: "right", Content: strconv.Itoa(k)}}
	}
	if err := s.Apply(crmem.Add{Name: "left", Content: "0"}, crmem.Add{Name: "right", Content: "0"}); err != nil {
		t.Fatal(err)
	}
	var acked, issued, opens atomic.Int64
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !done.Load() && !t.Failed() {
				low := acked.Load()
				r, err := crmem.Open(path, &crmem.Options{FS: fsys, ReadOnly: true, MustExist: true, Warn: func(line string) { t.Errorf("reader warned: %s", line) }})
				high := issued.Load()
				if err != nil {
					t.Errorf("reader: %v", err)
					return
				}
				left, err := r.Get("left")
				right, err2 := r.Get("right")
				k, err3 := strconv.ParseInt(left.Content, 10, 64)
				if err != nil || err2 != nil || err3 != nil || left.Content != right.Content || k < low || k > high || r.Len() != 2 {
					t.Errorf("reader found %q and %q, want both between %d and %d", left.Content, right.Content, low, high)
				}
				if err := r.Close(); err != nil {
					t.Errorf("reader: %v", err)
				}
				opens.Add(1)
			}
		})
	}
	k := 0
	for i := range checkpoints {
		for range 1 + i%3 {
			k++
			issued.Store(int64(k))
			if err := s.Apply(pair(k)...); err != nil {
				t.Error(err)
			}
			acked.Store(int64(k))
		}
		if err := s.Checkpoint(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			break
		}
		if i%100 == 0 {
			time.Sleep(time.Millisecond) // real time: readers run without the writer, in parallel
		}
	}
	done.Store(true)
	wg.Wait()
	if opens.Load() == 0 {
		t.Error("no reads")
	}
	t.Logf("reads checked: %d during %d checkpoints and %d batches", opens.Load(), checkpoints, k)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
