package sessioncrash

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/fuzz/fate"
)

var full = os.Getenv("CRABMEM_CRASH") == "full"

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(800) // many small machines, all soon garbage
	os.Exit(m.Run())
}

// run is one sequence of symbols on one folder.
type run struct {
	*actor
	j         *judge
	name      string
	limit     int // see fate.Each
	exploring bool
	grown     bool // there is more to lose than at the last crash point
	points    int
	fail      func(error)
}

// scenes are where sequences start: nothing at all; a session that another
// process left, titled and closed; one whose writer was killed after a step
// that no sync has reached.
var scenes = []string{"fresh", "used", "killed"}

func newRun(j *judge, scene string) (*run, error) {
	m := vfs.NewMem()
	a := newActor(&world{}, m, 1)
	if err := a.open(); err != nil {
		return nil, err
	}
	symbols := map[string][]string{"used": {"create", "user", "answer", "title", "uptime", "reopen"}, "killed": {"create", "user", "title", "compact", "step"}}
	for _, symbol := range symbols[scene] {
		if err := a.do(symbol); err != nil {
			return nil, fmt.Errorf("scene %s: %s: %w", scene, symbol, err)
		}
	}
	if scene == "killed" {
		m = m.Kill()
	} else if err := a.d.Close(); err != nil {
		return nil, err
	}
	r := &run{actor: newActor(a.w, m, 1), j: j}
	r.cur = a.cur
	m.Hook = r.hook
	return r, r.open()
}

func (r *run) hook(c vfs.Call) error {
	if r.exploring && fate.Mutates(c.Op) {
		r.explore(fmt.Sprintf("before call %d, %s %s", c.N, c.Op, c.Name))
		r.grown = r.grown || fate.Grows(c.Op)
	}
	return nil
}

// explore crashes the machine here. A sync only takes away from what a crash
// may do; after one, only the two ends are tried.
func (r *run) explore(where string) {
	r.points++
	check := func(how string, err error) {
		if err != nil && r.j.bad.Add(1) <= 3 {
			r.fail(fmt.Errorf("%s, %s, %s: %w", r.name, where, how, err))
		}
	}
	if r.j.bad.Load() > 3 {
		return
	}
	changes := r.m.Unsynced()
	limit, grown := r.limit, r.grown
	if !grown {
		limit = fate.Ends
	}
	r.grown = false
	fates(changes, limit, func(f []vfs.Fate) {
		if err := r.j.crashed(r.m.Crash(f...), r.w); err != nil {
			check(fmt.Sprintf("of %+v kept %v", changes, f), err)
		}
	})
	if grown {
		check("without the process", r.j.killed(r.m.Kill(), r.w, false))
	}
}

// sequences returns all sequences of the alphabet of a length.
func sequences(length int) [][]string {
	all := [][]string{nil}
	for range length {
		var next [][]string
		for _, seq := range all {
			for _, symbol := range alphabet {
				next = append(next, append(append([]string(nil), seq...), symbol))
			}
		}
		all = next
	}
	return all
}

// TestEnumerate is L1 and L2. Of each sequence only the last symbol is crashed:
// the crashes of the others are those of a shorter sequence.
func TestEnumerate(t *testing.T) {
	length, every := 2, uint64(24)
	if full {
		length, every = 3, 2
	}
	j := newJudge()
	j.goes = 2
	points, count := enumerate(t, j, length)
	again := newJudge()
	again.again, again.goes = every, 2
	enumerate(t, again, length-1)
	if j.torn.Load() == 0 || j.ended.Load() == 0 || j.flawed.Load() == 0 || j.read.Load() == 0 || j.written.Load() == 0 || len(again.seen2) == 0 {
		t.Errorf("nothing was torn (%d), ended (%d), repaired (%d), read (%d), written (%d) or crashed twice (%d)",
			j.torn.Load(), j.ended.Load(), j.flawed.Load(), j.read.Load(), j.written.Load(), len(again.seen2))
	}
	t.Logf("session crash states checked: %d distinct, %d lost (%d sequences, %d crash points, %d torn ends kept, %d records ended, %d writes of several messages repaired, %d killed processes)",
		len(j.images), j.bad.Load(), count, points, j.torn.Load(), j.ended.Load(), j.flawed.Load(), j.deaths.Load())
	t.Logf("session crashes during recovery checked: %d distinct, %d lost", len(again.seen2), again.bad.Load())
	for image := range again.seen2 {
		j.images[image] = struct{}{}
	}
	if want := map[bool]int{false: 4_000, true: 100_000}[full]; len(j.images) < want && !t.Failed() {
		t.Errorf("%d distinct crash states, want %d at least", len(j.images), want)
	}
}

func enumerate(t *testing.T, j *judge, length int) (points, count int) {
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
					j.bad.Add(1)
					t.Errorf("scene %s: %v", w.scene, err)
					continue
				}
				done, err := r.play(w.scene, w.seq, func(err error) { t.Error(err) })
				if err != nil {
					j.bad.Add(1)
					t.Error(err)
				}
				mu.Lock()
				points += r.points
				if done {
					count++
				}
				mu.Unlock()
			}
		})
	}
	for n := 1; n <= length; n++ {
		from := scenes
		if n > 1 && n == length {
			from = scenes[:2] // of the longest, which are nearly all
		}
		for _, scene := range from {
			for _, seq := range sequences(n) {
				if j.bad.Load() > 3 {
					break
				}
				jobs <- job{scene, seq}
			}
		}
	}
	close(jobs)
	wg.Wait()
	return points, count
}

// play does a sequence, unless a symbol of it does nothing where it stands.
func (r *run) play(scene string, seq []string, fail func(error)) (done bool, err error) {
	r.name = fmt.Sprintf("%s folder, %s", scene, strings.Join(seq, " "))
	r.limit = 5
	if full {
		r.limit = 8
	}
	r.fail = fail
	for i, symbol := range seq {
		if !r.applies(symbol) {
			return false, nil
		}
		r.exploring, r.grown = i == len(seq)-1, true
		if err := r.do(symbol); err != nil {
			return false, fmt.Errorf("%s: step %d: %w", r.name, i+1, err)
		}
	}
	r.grown = true
	r.explore("at the end")
	return true, nil
}
