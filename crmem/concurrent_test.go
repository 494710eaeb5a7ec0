package crmem_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/linear"
)

// contest is a run of goroutines that write to the same names of one store.
type contest struct {
	path          string
	o             *crmem.Options
	checkpoints   bool // there are some; another goroutine makes them, too
	writers, each int
	pause         func() // between calls
}

// run plays a round on a store that holds begin. It checks the history, and
// that the store holds the same after a reopen. It returns the state.
func (c *contest) run(t *testing.T, begin linear.State, seed uint64, tag string) linear.State {
	t.Helper()
	s, err := crmem.Open(c.path, c.o)
	ok(t, err)
	stop := make(chan struct{})
	var checkpoints sync.WaitGroup
	checkpoints.Go(func() {
		for c.checkpoints {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.Checkpoint(); err != nil {
				t.Errorf("checkpoint: %v", err)
				return
			}
			for range 8 {
				c.pause()
			}
		}
	})
	calls, err := linear.Play(s, seed, tag, c.writers, c.each, c.pause)
	close(stop)
	checkpoints.Wait()
	if err != nil {
		t.Fatalf("%s: %v", tag, err)
	}
	live, err := linear.StateOf(s)
	ok(t, err)
	if err := linear.Check(calls, begin, live, !c.checkpoints); err != nil {
		t.Fatalf("%s: %v", tag, err)
	}
	ok(t, s.Close())
	s, err = crmem.Open(c.path, c.o)
	ok(t, err)
	after, err := linear.StateOf(s)
	ok(t, err)
	if after != live {
		t.Fatalf("%s: after a reopen: %+v, want %+v", tag, after, live)
	}
	ok(t, s.Close())
	return live
}

// TestConcurrentWritesToSameNames runs in memory. Calls to the files yield a
// random number of times, so that groups, checkpoints, and Close overlap.
func TestConcurrentWritesToSameNames(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 15
	}
	for seed := range uint64(seeds) {
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(seed, 6))
		yield := func(most int) {
			mu.Lock()
			n := rng.IntN(most)
			mu.Unlock()
			for range n {
				runtime.Gosched()
			}
		}
		m := faultfs.NewMem()
		m.Hook = func(c faultfs.Call) error {
			switch c.Op {
			case "sync", "datasync":
				yield(50)
			case "write", "rename", "syncdir":
				yield(10)
			}
			return nil
		}
		o := &crmem.Options{FS: m, Now: linear.Clock, CheckpointOnClose: crmem.CheckpointMode(seed % 3)}
		c := contest{"/m.db", o, seed%2 == 0, 8, 25, func() { yield(30) }}
		if c.checkpoints {
			o.LogLimit = 2000
			o.Literal = seed%5 == 4
		}
		state := linear.Empty()
		for round := range 2 {
			state = c.run(t, state, seed<<8+uint64(round), fmt.Sprintf("seed %d round %d", seed, round))
		}
	}
}

// TestConcurrentWritesToSameNamesOnDisk has the real scheduler and real syncs.
func TestConcurrentWritesToSameNamesOnDisk(t *testing.T) {
	o := &crmem.Options{Now: linear.Clock, LogLimit: 4 << 10, CheckpointOnClose: crmem.CheckpointAuto}
	c := contest{filepath.Join(t.TempDir(), "memory.db"), o, true, 16, 12, runtime.Gosched}
	state := linear.Empty()
	for round := range 3 {
		state = c.run(t, state, uint64(round), fmt.Sprint("round ", round))
	}
}
