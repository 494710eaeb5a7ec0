package crmem_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// crashScene is a small store with index files and operations in the log.
func crashScene(t *testing.T) *indexScene {
	c := newIndexScene(t)
	c.apply(writeAll, few(5)...)
	c.fold()
	c.apply(writeAll, crmem.Remember{Name: "logged", Content: "tea"}, crmem.Rename{Name: "deploy 1", To: "renamed"})
	c.save(analysis.Standard, analysis.Plain)
	c.fs = c.fs.Kill()
	return c
}

// A task is what a process does with the store. It calls ack after each operation.
type task struct {
	name    string
	indexes bool // start with index files
	run     func(c *indexScene, ack func()) error
}

var taskOps = []crmem.Op{
	crmem.Remember{Name: "deploy 2", Content: "coffee", Aliases: []string{"cup"}}, crmem.Remove{Name: "deploy 3"},
	crmem.Rename{Name: "renamed", To: "deploy 1"}, crmem.Remember{Name: "new", Content: "tea canary"},
}

func searches(o crmem.Options) func(c *indexScene, ack func()) error {
	return func(c *indexScene, ack func()) error {
		s, err := crmem.Open("/m.db", c.options(o))
		if err != nil {
			return err
		}
		var list []error
		for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
			r, err := s.Search(c.t.Context(), crmem.Query{Text: "tea canary", Analyzer: a})
			if err == nil && len(r.Hits) != 6 {
				c.t.Errorf("%d hits", len(r.Hits))
			}
			list = append(list, err)
		}
		return errors.Join(append(list, s.Close())...)
	}
}

func writes(o crmem.Options) func(c *indexScene, ack func()) error {
	return func(c *indexScene, ack func()) error {
		s, err := crmem.Open("/m.db", c.options(o))
		if err != nil {
			return err
		}
		var list []error
		if o.CheckpointOnClose == crmem.CheckpointAlways {
			_, err := s.Search(c.t.Context(), crmem.Query{Text: "tea"})
			list = append(list, err)
		}
		for _, op := range taskOps {
			err := s.Apply(op)
			if list = append(list, err); err != nil {
				break
			}
			ack()
		}
		return errors.Join(append(list, s.Close())...)
	}
}

var tasks = []task{
	{"recall that writes", false, searches(readLazily)},
	{"recall", true, searches(readLazily)},
	{"complete reader", true, searches(readAll)},
	{"remember", true, writes(writeLazily)},
	{"remember of a daemon", true, writes(crmem.Options{Lazy: true, Socket: "/s", CheckpointOnClose: crmem.CheckpointNever})},
	{"checkpoint that writes", false, writes(crmem.Options{CheckpointOnClose: crmem.CheckpointAlways})},
	{"lazy checkpoint", true, writes(crmem.Options{Lazy: true, CheckpointOnClose: crmem.CheckpointAlways})},
}

// start returns the files at the start of a task.
func (c *indexScene) start(k task) *indexScene {
	d := c.copyOf()
	if d.clock = d.clock.Add(time.Minute); !k.indexes {
		d.removeIndexes()
	}
	d.fs.Now = func() time.Time { return d.clock }
	return d
}

// states returns the states of the entries after each number of the task's operations.
func (c *indexScene) states() (list []string) {
	for n := range len(taskOps) + 1 {
		d := c.start(task{})
		d.apply(writeAll, taskOps[:n]...)
		s := d.open(readAll)
		list = append(list, stateOf(c.t, s))
		noErr(c.t, s.Close())
	}
	return list
}

// check opens the store in each way. The entries are those after at least acked
// operations, and of all that are in the log.
func (c *indexScene) check(what string, states []string, acked int) {
	c.t.Helper()
	for _, o := range []crmem.Options{readLazily, writeLazily, readLazily, readAll, writeAll} {
		s := c.open(o)
		got := stateOf(c.t, s)
		if n := slices.Index(states, got); n < acked {
			c.t.Fatalf("%s: state %d after %d acknowledged operations:\n%s", what, n, acked, got)
		}
		noErr(c.t, s.Close())
	}
	s := c.open(readLazily)
	c.want(what, s)
	noErr(c.t, s.Close())
	if n := c.fs.OpenFiles(); n != 0 {
		c.t.Errorf("%s: %d open files", what, n)
	}
}

// TestIndexCrash cuts the power and kills the process at each call of tasks that use or
// write index files.
func TestIndexCrash(t *testing.T) {
	t.Parallel()
	race.Skip(t)
	rng := rand.New(rand.NewPCG(5, 1))
	base := crashScene(t)
	states := base.states()
	points := 0
	for _, k := range tasks {
		for at := 0; ; at++ {
			c := base.start(k)
			var images []*faultfs.Mem
			calls, acked, now := 0, 0, 0
			c.fs.Hook = func(faultfs.Call) error {
				if calls++; calls-1 != at || images != nil {
					return nil
				}
				acked = now
				images = append(images, c.fs.Kill(), c.fs.Crash())
				changes := c.fs.Unsynced()
				for range 3 {
					outcomes := make([]faultfs.Outcome, len(changes))
					for i := range outcomes {
						outcomes[i] = faultfs.Outcome(rng.IntN(4))
					}
					images = append(images, c.fs.Crash(outcomes...))
				}
				return nil
			}
			if err := k.run(c, func() { now++ }); err != nil {
				t.Fatalf("%s: %v", k.name, err)
			}
			if images == nil {
				break
			}
			for i, m := range images {
				d := *c
				d.fs, d.warn = m, nil
				d.check(fmt.Sprintf("%s, call %d, image %d", k.name, at, i), states, acked)
				points++
			}
			at += rng.IntN(crashStep(t))
		}
	}
	t.Logf("%d crash states", points)
}

// crashStep returns the largest number of calls between two crashes.
func crashStep(t *testing.T) int { return max(1, 600/indexStores(t)) }

// TestIndexFaults fails each call of tasks. The answer is right, or the error is that of
// the system, and the store is intact.
func TestIndexFaults(t *testing.T) {
	t.Parallel()
	race.Skip(t)
	base := crashScene(t)
	states := base.states()
	failed, ignored := 0, 0
	for _, k := range tasks {
		for _, fault := range []error{syscall.ENOSPC, syscall.EIO, &faultfs.Fault{Err: syscall.EIO, Done: true}} {
			for _, forever := range []bool{false, true} {
				for at := 0; ; at++ {
					c := base.start(k)
					calls, op := 0, ""
					c.fs.Hook = func(call faultfs.Call) error {
						if calls++; calls-1 < at || calls-1 > at && !forever {
							return nil
						}
						if op == "" {
							op = call.Op + " " + call.Name
						}
						return fault
					}
					acked := 0
					err := k.run(c, func() { acked++ })
					what := fmt.Sprintf("%s, call %d (%s), %v, forever %v", k.name, at, op, fault, forever)
					if op == "" {
						break
					}
					if err == nil {
						ignored++
					} else if failed++; !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) {
						t.Errorf("%s: %v", what, err)
					}
					if n := c.fs.OpenFiles(); n != 0 && !forever && !strings.HasPrefix(op, "unlock") {
						t.Errorf("%s: %d open files", what, n)
					}
					c.fs.Hook = nil
					d := *c
					d.fs = c.fs.Kill()
					d.warn = nil
					d.check(what, states, acked)
					at += crashStep(t) - 1
				}
			}
		}
	}
	t.Logf("%d tasks failed, %d did not", failed, ignored)
}

// TestIndexReadOnlyDirectory searches in a directory that this user may not write.
func TestIndexReadOnlyDirectory(t *testing.T) {
	c := newIndexScene(t)
	c.apply(writeAll, few(5)...)
	c.fold()
	c.fs.Chmod("/", 0o500)
	s := c.open(readAll)
	want := answers(t, s, 1)
	noErr(t, s.Close())
	for _, saved := range []bool{false, true} {
		if saved {
			c.fs.Chmod("/", 0o755)
			c.save(analysis.Standard)
			c.fs.Chmod("/", 0o500)
		}
		for range 2 {
			s := c.open(readLazily)
			compareAnswers(t, 1, "read-only", answers(t, s, 1), want)
			noErr(t, s.Close())
			if len(c.warn) > 0 || c.hasFile(indexFiles[0]) != saved {
				t.Errorf("saved %v: warnings %q", saved, c.warn)
			}
		}
	}
}

// TestIndexConcurrent runs readers that write index files, writers, and checkpoints at
// the same time.
func TestIndexConcurrent(t *testing.T) {
	c := newIndexScene(t)
	c.apply(writeAll, few(20)...)
	c.fold()
	clock := c.clock
	c.fs.Now = func() time.Time { return clock }
	open := func(o crmem.Options) (*crmem.Store, error) {
		o.FS, o.Now, o.LockWait = c.fs, c.fs.Now, time.Minute
		return crmem.Open("/m.db", &o)
	}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for n := range 15 {
				s, err := open(readLazily)
				if err != nil {
					t.Error(err)
					return
				}
				var both sync.WaitGroup
				for range 2 {
					both.Go(func() {
						r, err := s.Search(t.Context(), crmem.Query{Text: "tea", Analyzer: analysis.Analyzer((i + n) % 2)})
						if err != nil || len(r.Hits) < 20 || r.Searched != len(r.Hits) {
							t.Errorf("%d hits of %d, %v", len(r.Hits), r.Searched, err)
						}
						if n%4 == 0 {
							if err := s.Load(); err != nil {
								t.Error(err)
							}
						}
						if e, err := s.Get("ship 3"); err != nil || e.Name != "deploy 3" {
							t.Errorf("%v, %v", e, err)
						}
					})
				}
				both.Wait()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 2 {
		wg.Go(func() {
			for n := range 8 {
				s, err := open(crmem.Options{Lazy: n%2 == 0, CheckpointOnClose: []crmem.CheckpointMode{crmem.CheckpointAlways, crmem.CheckpointNever}[i]})
				if err != nil {
					t.Error(err)
					return
				}
				err = errors.Join(s.Apply(crmem.Remember{Name: fmt.Sprint("more ", i, " ", n), Content: "tea"}), s.Close())
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	c.clock = c.clock.Add(time.Minute)
	c.compareAll("at the end")
	c.removeIndexes()
	c.save(analysis.Standard)
	if s := c.open(readLazily); !crmem.UsesIndexFile(s) || s.Len() != 36 {
		t.Errorf("%d entries", s.Len())
	} else {
		noErr(t, s.Close())
	}
}
