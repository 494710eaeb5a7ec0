package crash

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
)

var full = crashtest.Full

func TestMain(m *testing.M) { crashtest.Main(m) }

func wrong(format string, args ...any) error { return crashtest.Wrong(format, args...) }

// run is one sequence of operations on one store.
type run struct {
	crashtest.Explorer
	j   *oracle
	m   *faultfs.Mem
	s   *crmem.Store
	now atomic.Uint64 // clock, in Unix seconds

	acked  version // state after the acknowledged operations
	issued version // state after all issued operations
	during func()  // runs once, when the next checkpoint creates its temporary file
}

// scenes are the initial states of sequences. fresh has no store. used has a store
// that another process closed, with two entries in the snapshot and one operation
// in the log. newRun also accepts empty, which has only the directory.
var scenes = []string{"fresh", "used"}

func newRun(j *oracle, scene string) (*run, error) {
	r := &run{j: j, m: faultfs.NewMem()}
	r.Explorer = crashtest.Explorer{Limit: 6, Idle: idle, Lost: &j.bad,
		Crashed: func(m *faultfs.Mem) error { return j.crashed(m, []version{r.acked, r.issued}) },
		Killed:  func(m *faultfs.Mem, _ bool) error { return j.killed(m.Kill(), []version{r.acked, r.issued}) }}
	if full {
		r.Limit = 10
	}
	r.now.Store(epoch)
	r.m.Now = r.clock
	r.acked = newVersion(1, nil)
	switch scene {
	case "empty":
		if err := vfs.MkdirAll(r.m, dir, 0o700); err != nil {
			return nil, err
		}
	case "used":
		if err := r.used(); err != nil {
			return nil, err
		}
	}
	r.issued = r.acked
	r.m.Hook = r.hook
	return r, r.open()
}

func (r *run) clock() time.Time { return time.Unix(int64(r.now.Load()), 0) }

// used creates the store of the scene used.
func (r *run) used() error {
	var err error
	r.m.Hook = crashtest.NoReserve
	if err = r.open(); err != nil {
		return err
	}
	for i, op := range []crmem.Op{
		crmem.Add{Name: "a", Content: text(100, 0)}, crmem.Add{Name: "b", Content: text(900, 0), Aliases: []string{"shared"}},
		crmem.Alias{Name: "a", Aliases: []string{"logged"}},
	} {
		if i == 2 {
			err = r.s.Checkpoint()
		}
		if err = errors.Join(err, r.s.Apply(op)); err != nil {
			return err
		}
		if r.acked, err = r.acked.apply(r.now.Load(), op); err != nil {
			return err
		}
	}
	return r.s.Close()
}

func (r *run) open() error {
	o := r.j.opts
	o.FS = r.m
	o.Now = r.clock
	s, err := crmem.Open(db, &o)
	r.s = s
	return err
}

func (r *run) hook(c faultfs.Call) error {
	if d := r.during; d != nil && c.Op == "create" && strings.HasPrefix(c.Name, dir+"/.memory.db") && !strings.Contains(c.Name, "wal") {
		r.during = nil
		d()
	}
	r.Hook(r.m, c)
	return crashtest.NoReserve(c)
}

// step executes a symbol as step i of the sequence.
func (r *run) step(symbol string, i int) error {
	r.now.Store(epoch + uint64(i+1))
	switch symbol {
	case "checkpoint":
		return r.s.Checkpoint()
	case "reopen":
		if err := r.s.Close(); err != nil {
			return err
		}
		return r.open()
	case "load":
		r.issued = loaded(r.acked, i)
		if err := r.s.Replace(r.issued.snapshot()); err != nil {
			return err
		}
		r.acked, r.Grown = r.issued, true
		return nil
	case "purge":
		return r.purge(r.acked.first())
	case "overlap":
		var inner error
		r.during = func() { inner = r.apply(operations(symbol, r.acked, i)) }
		err := r.s.Checkpoint()
		if r.during != nil { // the log was empty, so nothing was checkpointed
			r.during = nil
			inner = r.apply(operations(symbol, r.acked, i))
		}
		return errors.Join(err, inner)
	}
	return r.apply(operations(symbol, r.acked, i))
}

// purge purges an entry from the store and the model.
func (r *run) purge(name string) error {
	next, refused := r.acked.purge(name)
	r.issued = next
	if _, err := r.s.Purge(name); !errors.Is(err, refused) {
		return fmt.Errorf("purge: %w, want %v", err, refused)
	}
	r.acked, r.Grown = next, true // a crash must not show a purged text from here on
	return checkGone(r.m, next.gone)
}

// apply applies operations to the store and the model, and compares the results.
func (r *run) apply(ops []crmem.Op) error {
	next, refused := r.acked.apply(r.now.Load(), ops...)
	r.issued = next
	if err := r.s.Apply(ops...); !errors.Is(err, refused) {
		return fmt.Errorf("apply: %w, want %v", err, refused)
	}
	r.acked, r.Grown = next, true // a crash must not lose the operation from here on
	if got := stateOf(r.s); got.print != next.print {
		return fmt.Errorf("the store has %v\nwant %v", got, next)
	}
	return nil
}

// TestEnumerate implements L1 and L2. In each sequence it crashes only the last
// operation, because shorter sequences cover the other operations.
func TestEnumerate(t *testing.T) {
	length, every := 2, uint64(8)
	if full {
		length, every = 3, 1
	}
	distinct := map[uint64]struct{}{} // images of both modes and layers
	for _, mode := range []string{"log", "literal"} {
		j := newOracle(mode == "literal")
		points, count := enumerate(t, j, mode, length)
		again := newOracle(mode == "literal")
		again.recrashEvery = every
		enumerate(t, again, mode, length-1)
		if j.torn.Load() == 0 || j.decoded.Load() == 0 || j.checkpointed.Load() == 0 || j.written.Load() == 0 || again.seen2.Len() == 0 {
			t.Errorf("%s mode: a counter is 0: torn %d, decoded %d, checkpointed %d, written %d, crashed twice %d", mode,
				j.torn.Load(), j.decoded.Load(), j.checkpointed.Load(), j.written.Load(), again.seen2.Len())
		}
		lost := j.bad.Load() + again.bad.Load()
		t.Logf("%s mode: crash states checked: %d distinct, %d lost (%d sequences, %d crash points, %d torn tails quarantined, %d kills)",
			mode, j.seen.Len(), lost, count, points, j.torn.Load(), j.kills.Load())
		t.Logf("%s mode: crashes during recovery checked: %d distinct, %d lost", mode, again.seen2.Len(), again.bad.Load())
		for image := range j.seen.Keys() {
			distinct[image] = struct{}{}
		}
		for image := range again.seen2.Keys() {
			distinct[image] = struct{}{}
		}
	}
	t.Logf("crash states checked: %d distinct in all", len(distinct))
	if want := map[bool]int{false: 10_000, true: 500_000}[full] / crashtest.Slice; len(distinct) < want && !t.Failed() {
		t.Errorf("%d distinct crash states, want at least %d", len(distinct), want)
	}
}

// enumerate plays all sequences of up to length symbols, and some with load. It
// returns the number of crash points and of completed sequences.
func enumerate(t *testing.T, j *oracle, mode string, length int) (points, count int) {
	var seqs [][]string
	for n := range length {
		seqs = append(seqs, crashtest.Sequences(alphabet, n+1)...)
	}
	seqs = append(seqs, []string{"load"})
	for _, symbol := range append(slices.Clone(alphabet), "load") {
		if length > 1 {
			seqs = append(seqs, []string{symbol, "load"}, []string{"load", symbol})
		}
	}
	return crashtest.Enumerate(t, &j.bad, func(yield func(crashtest.Job)) {
		for _, scene := range scenes {
			for i := 0; i < len(seqs); i += crashtest.Slice {
				yield(crashtest.Job{Scene: scene, Seq: seqs[i]})
			}
		}
	}, func(w crashtest.Job) (int, bool, error) {
		r, err := newRun(j, w.Scene)
		if err != nil {
			return 0, false, err
		}
		r.Name = fmt.Sprintf("%s mode, %s store, %s", mode, w.Scene, strings.Join(w.Seq, " "))
		r.Fail = func(err error) { t.Error(err) }
		done, err := r.Play(r.m, w.Seq, func(symbol string, i int) (bool, error) { return true, r.step(symbol, i) })
		return r.Points, done, err
	})
}
