package crash

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/fuzz/fate"
)

var full = os.Getenv("CRABMEM_CRASH") == "full"

// slice is one sequence in how many TestEnumerate plays, by CRABMEM_CRASH_SLICE.
var slice = max(1, atoi(os.Getenv("CRABMEM_CRASH_SLICE")))

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(800) // many small machines, all soon garbage
	os.Exit(m.Run())
}

// run is one sequence of operations on one store.
type run struct {
	j     *judge
	limit int // see fates
	name  string
	m     *vfs.Mem
	s     *crmem.Store
	now   atomic.Uint64 // seconds

	// issued holds the states after each operation so far, of which the first
	// acked are acknowledged, and the present one maybe.
	acked, issued version
	exploring     bool
	grown         bool   // there is more to lose than at the last crash point
	during        func() // of the next checkpoint, once its encode has begun
	points        int
	fail          func(error)
}

// scenes are where sequences start: nothing at all, or a snapshot of two
// entries and a log of one operation that another process left. A third is an
// empty directory.
var scenes = []string{"fresh", "used"}

func newRun(j *judge, scene string) (*run, error) {
	r := &run{j: j, m: vfs.NewMem()}
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

func (r *run) used() error {
	var err error
	r.m.Hook = noReserve
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

// noReserve keeps the reserve file away: 64 blocks that no recovery reads
// would be most of what is unsynced.
func noReserve(c vfs.Call) error {
	if c.Op == "create" && strings.HasSuffix(c.Name, "-reserve") {
		return os.ErrPermission
	}
	return nil
}

func (r *run) open() error {
	o := r.j.opts
	o.FS = r.m
	o.Now = r.clock
	s, err := crmem.Open(db, &o)
	r.s = s
	return err
}

func (r *run) hook(c vfs.Call) error {
	if d := r.during; d != nil && c.Op == "create" && strings.HasPrefix(c.Name, dir+"/.memory.db") && !strings.Contains(c.Name, "wal") {
		r.during = nil
		d()
	}
	if r.exploring && fate.Mutates(c.Op) {
		r.explore(fmt.Sprintf("before call %d, %s %s", c.N, c.Op, c.Name))
		r.grown = r.grown || fate.Grows(c.Op)
	}
	return noReserve(c)
}

// explore crashes the machine here. A sync only takes away from what a crash
// may do; after one, only the two ends are tried.
func (r *run) explore(where string) {
	r.points++
	want := []version{r.acked, r.issued}
	check := func(how string, err error) {
		if err != nil && r.j.bad.Add(1) <= 3 {
			r.fail(fmt.Errorf("%s, %s, %s: %w", r.name, where, how, err))
		}
	}
	if r.j.bad.Load() > 3 {
		return
	}
	changes := r.m.Unsynced()
	limit := r.limit
	if !r.grown {
		limit = fate.Ends
	}
	r.grown = false
	fates(changes, limit, func(f []vfs.Fate) {
		if err := r.j.crashed(r.m.Crash(f...), want); err != nil {
			check(fmt.Sprintf("of %+v kept %v", changes, f), err)
		}
	})
	check("killed", r.j.killed(r.m.Kill(), want))
}

// step does one symbol of the alphabet.
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
		r.acked, r.grown = r.issued, true
		return nil
	case "overlap":
		var inner error
		r.during = func() { inner = r.apply(operations(symbol, r.acked, i)) }
		err := r.s.Checkpoint()
		if r.during != nil { // there was nothing to fold
			r.during = nil
			inner = r.apply(operations(symbol, r.acked, i))
		}
		return errors.Join(err, inner)
	}
	return r.apply(operations(symbol, r.acked, i))
}

func (r *run) apply(ops []crmem.Op) error {
	next, refused := r.acked.apply(r.now.Load(), ops...)
	r.issued = next
	if err := r.s.Apply(ops...); !errors.Is(err, refused) {
		return fmt.Errorf("apply: %w, want %v", err, refused)
	}
	r.acked, r.grown = next, true // by one acknowledgement
	if got := stateOf(r.s); got.print != next.print {
		return fmt.Errorf("the store has %v\nwant %v", got, next)
	}
	return nil
}

// sequences returns all sequences of the alphabet up to a length.
func sequences(length int) [][]string {
	all := [][]string{}
	last := [][]string{nil}
	for range length {
		var next [][]string
		for _, seq := range last {
			for _, symbol := range alphabet {
				next = append(next, append(append([]string(nil), seq...), symbol))
			}
		}
		all = append(all, next...)
		last = next
	}
	return all
}

// TestEnumerate is L1 and L2. Of each sequence only the last operation is
// crashed: the crashes of the others are those of a shorter sequence.
func TestEnumerate(t *testing.T) {
	length, every := 2, uint64(8)
	if full {
		length, every = 3, 1
	}
	distinct := map[uint64]struct{}{} // over both modes and both layers
	for _, mode := range []string{"log", "literal"} {
		j := newJudge(mode == "literal")
		points, count := enumerate(t, j, mode, length)
		again := newJudge(mode == "literal")
		again.again = every
		enumerate(t, again, mode, length-1)
		if j.torn.Load() == 0 || j.decoded.Load() == 0 || j.folded.Load() == 0 || j.written.Load() == 0 || len(again.seen2) == 0 {
			t.Errorf("%s mode: nothing was torn (%d), checkpointed (%d), written (%d) or crashed twice (%d)", mode,
				j.torn.Load(), j.folded.Load(), j.written.Load(), len(again.seen2))
		}
		lost := j.bad.Load() + again.bad.Load()
		t.Logf("%s mode: crash states checked: %d distinct, %d lost (%d sequences, %d crash points, %d torn tails kept, %d killed processes)",
			mode, len(j.seen), lost, count, points, j.torn.Load(), j.deaths.Load())
		t.Logf("%s mode: crashes during recovery checked: %d distinct, %d lost", mode, len(again.seen2), again.bad.Load())
		for image := range j.seen {
			distinct[image] = struct{}{}
		}
		for image := range again.seen2 {
			distinct[image] = struct{}{}
		}
	}
	t.Logf("crash states checked: %d distinct in all", len(distinct))
	if want := map[bool]int{false: 10_000, true: 500_000}[full] / slice; len(distinct) < want && !t.Failed() {
		t.Errorf("%d distinct crash states, want %d at least", len(distinct), want)
	}
}

func enumerate(t *testing.T, j *judge, mode string, length int) (points, count int) {
	type job struct {
		scene string
		seq   []string
	}
	jobs := make(chan job)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 2 {
		wg.Go(func() {
			for w := range jobs {
				r, err := newRun(j, w.scene)
				if err != nil {
					t.Errorf("scene %s: %v", w.scene, err)
					continue
				}
				r.name = fmt.Sprintf("%s mode, %s store, %s", mode, w.scene, strings.Join(w.seq, " "))
				r.limit = 6
				if full {
					r.limit = 10
				}
				r.fail = func(err error) { t.Error(err) }
				for i, symbol := range w.seq {
					r.exploring = i == len(w.seq)-1
					if err := r.step(symbol, i); err != nil {
						j.bad.Add(1)
						t.Errorf("%s: step %d: %v", r.name, i, err)
						break
					}
				}
				r.grown = true
				r.explore("at the end")
				mu.Lock()
				points += r.points
				mu.Unlock()
			}
		})
	}
	seqs := sequences(length)
	seqs = append(seqs, []string{"load"})
	for _, symbol := range append(slices.Clone(alphabet), "load") {
		if length > 1 {
			seqs = append(seqs, []string{symbol, "load"}, []string{"load", symbol})
		}
	}
	for _, scene := range scenes {
		for i, seq := range seqs {
			if j.bad.Load() > 3 {
				break
			}
			if i%slice != 0 {
				continue
			}
			count++
			jobs <- job{scene, seq}
		}
	}
	close(jobs)
	wg.Wait()
	return points, count
}
