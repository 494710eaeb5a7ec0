// Package gitsync tests two stores that share a Markdown tree through git. Each
// machine has a store, a clone, and a person who edits pages. The order of writes,
// edits, dumps, merges, pulls, pushes, and resets is random. In the end both stores contain
// every line that no one replaced or removed.
package gitsync

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

var (
	runs  = flag.Int("gitsync.runs", 5, "number of random histories")
	seed  = flag.Uint64("gitsync.seed", 1, "seed of the first history")
	steps = flag.Int("gitsync.steps", 40, "steps of each history")
)

// TestTwoMachines runs random histories. In every second one, the second machine
// begins as a copy of the first home.
func TestTwoMachines(t *testing.T) {
	requireGit(t)
	var mu sync.Mutex
	var sum counts
	t.Run("histories", func(t *testing.T) {
		for i := range *runs {
			copied := i%2 == 1
			t.Run(fmt.Sprintf("seed %d, copied %v", *seed+uint64(i), copied), func(t *testing.T) {
				t.Parallel() // git waits for the disk
				w := newWorld(t, rand.New(rand.NewPCG(*seed+uint64(i), 0)), copied)
				for range *steps {
					w.step()
				}
				w.settle()
				mu.Lock()
				defer mu.Unlock()
				sum.add(&w.counts)
			})
		}
	})
	t.Logf("histories: %d, lines written: %d, lines kept: %d, merges of trees: %d (conflicts: %d), merges of stores: %d (conflicts: %d), dumps: %d (refused: %d), trees reset: %d",
		*runs, sum.written, sum.kept, sum.pulls, sum.gitConflicts, sum.merges, sum.conflicts, sum.dumps, sum.refused, sum.resets)
	if *runs >= 5 && (sum.gitConflicts == 0 || sum.conflicts == 0 || sum.refused == 0 || sum.resets == 0 || sum.kept == 0) {
		t.Error("a kind of event did not occur")
	}
}

type counts struct{ written, kept, pulls, gitConflicts, merges, conflicts, dumps, refused, resets int }

func (c *counts) add(o *counts) {
	c.written += o.written
	c.kept += o.kept
	c.pulls += o.pulls
	c.gitConflicts += o.gitConflicts
	c.merges += o.merges
	c.conflicts += o.conflicts
	c.dumps += o.dumps
	c.refused += o.refused
	c.resets += o.resets
}
