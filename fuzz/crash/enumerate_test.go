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
	lacks  bool    // the store reported that the history lacks operations
	during func()  // runs once, when the next checkpoint creates its temporary file
}

// scenes are the initial states of sequences. fresh has no store. used has a store
// that another process closed, with two entries in the snapshot and one operation
// in the log. long has the same with a history of ten segments. newRun also accepts
// empty, which has only the directory.
var scenes = []string{"fresh", "used", "long"}

// rewrites are the symbols that read or rewrite old segments. Without
// CRABMEM_CRASH=full, only sequences that end in one begin with the scene long.
var rewrites = []string{"purge", "redact", "undo", "prune"}

// scene is a prepared initial state.
type scene struct {
	m     *faultfs.Mem
	acked version
}

func newRun(j *oracle, name string) (*run, error) {
	r := &run{j: j, m: faultfs.NewMem()}
	r.Explorer = crashtest.Explorer{Limit: 6, Idle: idle, Lost: &j.bad,
		Crashed: func(m *faultfs.Mem) error { return j.crashed(m, []version{r.acked, r.issued}) },
		Killed:  func(m *faultfs.Mem, _ bool) error { return j.killed(m.Kill(), []version{r.acked, r.issued}) }}
	if full {
		r.Limit = 10
	}
	r.m.Now = r.clock
	r.acked = newVersion(1, nil)
	switch name {
	case "empty":
		if err := vfs.MkdirAll(r.m, dir, 0o700); err != nil {
			return nil, err
		}
	case "used", "long":
		start, ok := j.scenes.Get(name)
		if !ok {
			if err := r.used(name == "long"); err != nil {
				return nil, err
			}
			start = scene{r.m, r.acked}
			j.scenes.Put(name, start)
		}
		r.m, r.acked = start.m.Kill(), start.acked
		r.m.Now = r.clock
	}
	r.now.Store(epoch)
	r.issued = r.acked
	r.m.Hook = r.hook
	return r, r.open()
}

func (r *run) clock() time.Time { return time.Unix(int64(r.now.Load()), 0) }

// used creates the store of the scene used or long.
func (r *run) used(long bool) error {
	r.m.Hook = crashtest.NoReserve
	r.now.Store(epoch - 20)
	if err := r.open(); err != nil {
		return err
	}
	apply := func(op crmem.Op) (err error) {
		r.now.Add(1)
		if err := r.s.Apply(op); err != nil {
			return err
		}
		r.acked, err = r.acked.apply(r.now.Load(), op)
		return err
	}
	err := errors.Join(apply(crmem.Add{Name: "a", Content: text(100, 0)}), apply(crmem.Add{Name: "b", Content: text(900, 0), Aliases: []string{"shared"}}), r.s.Checkpoint())
	for i := 1; long && i < 10 && err == nil; i++ {
		op := crmem.Update{Name: "a", Content: text(100, 100+i), Aliases: []string{"kept"}}
		err = r.seal(func() error { return apply(op) })
	}
	r.now.Store(epoch - 1)
	return errors.Join(err, apply(crmem.Alias{Name: "a", Aliases: []string{"logged"}}), r.s.Close())
}

// seal calls do and checkpoints while the newest segment has a second name, so that the
// next fold begins a segment. It compresses the older ones.
func (r *run) seal(do func() error) error {
	const link = "/second-name"
	unhooked := func(do func() error) error {
		hook := r.m.Hook
		r.m.Hook = nil
		defer func() { r.m.Hook = hook }()
		return errors.Join(do(), r.m.SyncDir("/"))
	}
	newest := ""
	for name := range crashtest.Files(r.m, db+"-history", func(name string) bool { return strings.HasSuffix(name, ".log") }) {
		newest = max(newest, name)
	}
	if newest == "" {
		return errors.Join(do(), r.s.Checkpoint())
	}
	if err := unhooked(func() error { return r.m.Link(db+"-history/"+newest, link) }); err != nil {
		return err
	}
	err := errors.Join(do(), r.s.Checkpoint())
	return errors.Join(err, unhooked(func() error { return r.m.Remove(link) }))
}

func (r *run) open() error {
	o := r.j.opts
	o.FS = r.m
	o.Now = r.clock
	o.Warn = func(line string) {
		r.lacks = r.lacks || strings.Contains(line, "the history lacks the operations of this log")
	}
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
	case "seal":
		return r.seal(func() error { return r.issue(symbol, i) })
	case "reopen":
		if err := r.s.Close(); err != nil {
			return err
		}
		return r.open()
	case "overlap":
		var inner error
		r.during = func() { inner = r.issue(symbol, i) }
		err := r.s.Checkpoint()
		if r.during != nil { // the log was empty, so nothing was checkpointed
			r.during = nil
			inner = r.issue(symbol, i)
		}
		return errors.Join(err, inner)
	}
	return r.issue(symbol, i)
}

// issue executes a symbol that changes the entries or the history, and compares the
// result with the model.
func (r *run) issue(symbol string, i int) error {
	next, refused := r.acked.issue(symbol, r.now.Load(), i)
	return r.expect(next, refused, func() error { return r.call(symbol, r.acked, i) })
}

// apply applies operations, and compares the result with the model.
func (r *run) apply(ops []crmem.Op) error {
	next, refused := r.acked.apply(r.now.Load(), ops...)
	return r.expect(next, refused, func() error { return r.s.Apply(ops...) })
}

func (r *run) expect(next version, refused error, do func() error) error {
	r.issued = next
	if next.print == r.acked.print && len(next.past) < len(r.acked.past) {
		r.acked.loose = len(r.acked.past) - len(next.past) // a prune
	}
	if err := do(); !errors.Is(err, refused) {
		return fmt.Errorf("%w, want %v", err, refused)
	}
	r.acked, r.Grown = next, true // from here on, a crash must not lose the operation, nor show a purged text
	if got := stateOf(r.s); got.print != next.print {
		return fmt.Errorf("the store has %v\nwant %v", got, next)
	}
	return checkGone(r.m, next.gone)
}

// call executes a symbol in a store with the content of v.
func (r *run) call(symbol string, v version, i int) error {
	switch symbol {
	case "load":
		return r.s.Replace(loaded(v, 0, i).snapshot())
	case "purge":
		_, err := r.s.Purge(v.purged())
		return err
	case "redact":
		id, text := v.redacted()
		_, err := r.s.Redact(id, r.seqOf(func(c *crmem.Change) bool { return c.After.ID == id && c.After.Content == text }))
		return err
	case "undo":
		_, err := r.s.Undo(r.seqOf(func(*crmem.Change) bool { return true }))
		return err
	case "prune":
		_, err := r.s.Prune(time.Unix(pruneLimit(i), 0))
		return err
	}
	return r.s.Apply(operations(symbol, v, i)...)
}

// seqOf returns the sequence number of the last change that matches. It injects no
// fault.
func (r *run) seqOf(matches func(*crmem.Change) bool) (seq uint64) {
	hook := r.m.Hook
	r.m.Hook = nil
	defer func() { r.m.Hook = hook }()
	for c, err := range r.s.Changes() {
		if err == nil && matches(&c) {
			seq = c.Seq
		}
	}
	return seq
}

// TestEnumerate implements L1 and L2. In each sequence it crashes only the last
// operation, because shorter sequences cover the other operations.
func TestEnumerate(t *testing.T) {
	length, every, step, single := 2, uint64(512), 59*crashtest.Slice, 3*crashtest.Slice // 59, 9, and 3 have no common divisor with 14 symbols
	switch {
	case full:
		length, every, step, single = 3, 1, crashtest.Slice, crashtest.Slice
	case crashtest.Calls:
		every, step = 32, 9*crashtest.Slice
	}
	distinct := map[uint64]struct{}{} // images of both modes and layers
	for _, mode := range []string{"log", "literal"} {
		j := newOracle(mode == "literal")
		points, count := enumerate(t, j, mode, length, step)
		if t.Failed() {
			return // the rest would take most of a mutant's time
		}
		again := newOracle(mode == "literal")
		again.recrashEvery = every
		enumerate(t, again, mode, length-1, single)
		if j.torn.Load() == 0 || j.decoded.Load() == 0 || j.checkpointed.Load() == 0 || j.written.Load() == 0 || j.compressed.Load() == 0 || again.seen2.Len() == 0 {
			t.Errorf("%s mode: a counter is 0: torn %d, decoded %d, checkpointed %d, written %d, compressed %d, crashed twice %d", mode,
				j.torn.Load(), j.decoded.Load(), j.checkpointed.Load(), j.written.Load(), j.compressed.Load(), again.seen2.Len())
		}
		lost := j.bad.Load() + again.bad.Load()
		t.Logf("%s mode: crash states checked: %d distinct, %d lost (%d sequences, %d crash points, %d torn tails quarantined, %d kills, %d with compressed segments)",
			mode, j.seen.Len(), lost, count, points, j.torn.Load(), j.kills.Load(), j.compressed.Load())
		t.Logf("%s mode: crashes during recovery checked: %d distinct, %d lost", mode, again.seen2.Len(), again.bad.Load())
		for image := range j.seen.Keys() {
			distinct[image] = struct{}{}
		}
		for image := range again.seen2.Keys() {
			distinct[image] = struct{}{}
		}
	}
	t.Logf("crash states checked: %d distinct in all", len(distinct))
	if want := map[bool]int{false: 10_000, true: 500_000}[full] / step; len(distinct) < want && !t.Failed() {
		t.Errorf("%d distinct crash states, want at least %d", len(distinct), want)
	}
}

// enumerate plays one in step sequences of up to length symbols, and some with load. It
// returns the number of crash points and of completed sequences.
func enumerate(t *testing.T, j *oracle, mode string, length, step int) (points, count int) {
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
			for i := 0; i < len(seqs); i += step {
				if scene != "long" || full || slices.Contains(rewrites, seqs[i][len(seqs[i])-1]) {
					yield(crashtest.Job{Scene: scene, Seq: seqs[i]})
				}
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
