package sessioncrash

import (
	"fmt"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
)

var full = crashtest.Full

func TestMain(m *testing.M) { crashtest.Main(m) }

func wrong(format string, args ...any) error { return crashtest.Wrong(format, args...) }

// run is one sequence of symbols on one folder.
type run struct {
	crashtest.Explorer
	*actor
	j *oracle
}

// scenes are the initial states of sequences. fresh has no session. used has a
// session with a title that another process closed. killed has a session whose
// writer was killed after an unsynced step.
var scenes = []string{"fresh", "used", "killed"}

func newRun(j *oracle, scene string) (*run, error) {
	m := faultfs.NewMem()
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
	r.Explorer = crashtest.Explorer{Limit: 5, Idle: idle, Lost: &j.bad,
		Crashed: func(m *faultfs.Mem) error { return j.crashed(m, r.w) },
		Killed: func(m *faultfs.Mem, grown bool) error {
			if !grown {
				return nil
			}
			return j.killed(m.Kill(), r.w, false)
		}}
	if full {
		r.Limit = 8
	}
	r.cur = a.cur
	m.Hook = func(c faultfs.Call) error {
		r.Hook(m, c)
		return nil
	}
	return r, r.open()
}

// TestEnumerate implements L1 and L2. In each sequence it crashes only the last
// symbol, because shorter sequences cover the other symbols.
func TestEnumerate(t *testing.T) {
	length, every := 2, uint64(24)
	if full {
		length, every = 3, 2
	}
	j := newOracle()
	j.writeEvery = 2
	points, count := enumerate(t, j, length)
	if t.Failed() {
		return // the rest would take most of a mutant's time
	}
	again := newOracle()
	again.recrashEvery, again.writeEvery = every, 2
	enumerate(t, again, length-1)
	if j.torn.Load() == 0 || j.ended.Load() == 0 || j.repaired.Load() == 0 || j.read.Load() == 0 || j.written.Load() == 0 || again.seen2.Len() == 0 {
		t.Errorf("a counter is 0: torn %d, ended %d, repaired %d, read %d, written %d, crashed twice %d",
			j.torn.Load(), j.ended.Load(), j.repaired.Load(), j.read.Load(), j.written.Load(), again.seen2.Len())
	}
	t.Logf("session crash states checked: %d distinct, %d lost (%d sequences, %d crash points, %d torn tails quarantined, %d line ends added, %d writes of several messages repaired, %d kills)",
		j.images.Len(), j.bad.Load(), count, points, j.torn.Load(), j.ended.Load(), j.repaired.Load(), j.kills.Load())
	t.Logf("session crashes during recovery checked: %d distinct, %d lost", again.seen2.Len(), again.bad.Load())
	for image := range again.seen2.Keys() {
		j.images.Put(image, struct{}{})
	}
	if want := map[bool]int{false: 4_000, true: 100_000}[full]; j.images.Len() < want && !t.Failed() {
		t.Errorf("%d distinct crash states, want at least %d", j.images.Len(), want)
	}
}

// enumerate plays all sequences of up to length symbols, and returns the number of
// crash points and of completed sequences.
func enumerate(t *testing.T, j *oracle, length int) (points, count int) {
	return crashtest.Enumerate(t, &j.bad, func(yield func(crashtest.Job)) {
		for n := 1; n <= length; n++ {
			from := scenes
			if n > 1 && n == length {
				from = scenes[:2] // the longest sequences are by far the most
			}
			for _, scene := range from {
				for _, seq := range crashtest.Sequences(alphabet, n) {
					yield(crashtest.Job{Scene: scene, Seq: seq})
				}
			}
		}
	}, func(w crashtest.Job) (int, bool, error) {
		r, err := newRun(j, w.Scene)
		if err != nil {
			return 0, false, err
		}
		r.Name = fmt.Sprintf("%s folder, %s", w.Scene, strings.Join(w.Seq, " "))
		r.Fail = func(err error) { t.Error(err) }
		done, err := r.Play(r.m, w.Seq, func(symbol string, _ int) (bool, error) {
			if !r.applies(symbol) {
				return false, nil
			}
			r.Grown = true
			return true, r.do(symbol)
		})
		return r.Points, done, err
	})
}
