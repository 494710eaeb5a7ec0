package sessioncrash

import (
	"fmt"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/fuzz/internal/crashtest"
)

var full = crashtest.Full

func TestMain(m *testing.M) { crashtest.Main(m) }

func wrong(format string, args ...any) error { return crashtest.Wrong(format, args...) }

// run is one sequence of symbols on one folder.
type run struct {
	crashtest.Explorer
	*actor
	j *judge
}

// scenes are the initial states of sequences: no session; a titled and closed
// session of another process; a session whose writer was killed after an
// unsynced step.
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
	r.Explorer = crashtest.Explorer{Limit: 5, Idle: idle, Lost: &j.bad,
		Crashed: func(m *vfs.Mem) error { return j.crashed(m, r.w) },
		Killed: func(m *vfs.Mem, grown bool) error {
			if !grown {
				return nil
			}
			return j.killed(m.Kill(), r.w, false)
		}}
	if full {
		r.Limit = 8
	}
	r.cur = a.cur
	m.Hook = func(c vfs.Call) error {
		r.Hook(m, c)
		return nil
	}
	return r, r.open()
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
	if j.torn.Load() == 0 || j.ended.Load() == 0 || j.flawed.Load() == 0 || j.read.Load() == 0 || j.written.Load() == 0 || again.seen2.Len() == 0 {
		t.Errorf("nothing was torn (%d), ended (%d), repaired (%d), read (%d), written (%d) or crashed twice (%d)",
			j.torn.Load(), j.ended.Load(), j.flawed.Load(), j.read.Load(), j.written.Load(), again.seen2.Len())
	}
	t.Logf("session crash states checked: %d distinct, %d lost (%d sequences, %d crash points, %d torn ends kept, %d records ended, %d writes of several messages repaired, %d killed processes)",
		j.images.Len(), j.bad.Load(), count, points, j.torn.Load(), j.ended.Load(), j.flawed.Load(), j.deaths.Load())
	t.Logf("session crashes during recovery checked: %d distinct, %d lost", again.seen2.Len(), again.bad.Load())
	for image := range again.seen2.Keys() {
		j.images.Put(image, struct{}{})
	}
	if want := map[bool]int{false: 4_000, true: 100_000}[full]; j.images.Len() < want && !t.Failed() {
		t.Errorf("%d distinct crash states, want %d at least", j.images.Len(), want)
	}
}

func enumerate(t *testing.T, j *judge, length int) (points, count int) {
	return crashtest.Enumerate(t, &j.bad, func(yield func(crashtest.Job)) {
		for n := 1; n <= length; n++ {
			from := scenes
			if n > 1 && n == length {
				from = scenes[:2] // of the longest, which are nearly all
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
