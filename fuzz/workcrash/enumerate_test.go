package workcrash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
)

func TestMain(m *testing.M) { crashtest.Main(m) }

var scenes = []string{"fresh", "used"}

const locks = sessions + "/.locks"

// idle reports whether a change affects only the text of a lock file.
func idle(c faultfs.Change) bool {
	return strings.HasPrefix(c.Name, locks+"/") && (c.Op == "write" || c.Op == "truncate")
}

func imageOf(m *faultfs.Mem) uint64 {
	disk, texts := crashtest.Image(m, home, func(path, _ string) (string, bool) {
		return strings.TrimRight(path, "0123456789"), strings.HasPrefix(path, locks+"/")
	})
	return disk ^ texts
}

// acked returns the facts as one string.
func (w *world) acked() string {
	var b strings.Builder
	for _, fact := range slices.Sorted(maps.Keys(w.facts)) {
		fmt.Fprintf(&b, "%.40s %v\n", fact, w.facts[fact])
	}
	return b.String()
}

// TestEnumerate crashes the last operation of each short sequence before each call, and
// some of the recoveries, and checks the crash states.
func TestEnumerate(t *testing.T) {
	length, step, again := 2, 5*crashtest.Slice, uint64(199)
	if crashtest.Full {
		length, step, again = 4, crashtest.Slice, 53
	} else if crashtest.Calls {
		step = 1
	}
	var bad, kills, twice atomic.Int64
	var seen, recovered crashtest.Memo[uint64, struct{}]
	var checked crashtest.Memo[string, struct{}]
	points, count := crashtest.Enumerate(t, &bad, func(yield func(crashtest.Job)) {
		for n := range length {
			for i, seq := range crashtest.Sequences(alphabet, n+1) {
				for _, scene := range scenes {
					if i%step == 0 || n < length-1 && !(n == 2 && crashtest.Slice > 1) {
						yield(crashtest.Job{Scene: scene, Seq: seq})
					}
				}
			}
		}
	}, func(job crashtest.Job) (int, bool, error) {
		w, err := begin(job.Scene)
		if err != nil {
			return 0, false, err
		}
		m := w.m
		check := func(m *faultfs.Mem) error {
			image := imageOf(m)
			seen.Put(image, struct{}{})
			if !checked.Put(fmt.Sprint(image, w.acked()), struct{}{}) {
				return nil
			}
			if image%again == 0 {
				twice.Add(1)
				if err := w.crashRecovery(m.Kill(), &recovered); err != nil {
					return err
				}
			}
			return w.check(m)
		}
		x := crashtest.Explorer{Name: job.Scene + " home, " + strings.Join(job.Seq, " "), Limit: 5, Idle: idle, Lost: &bad, Fail: func(err error) { t.Error(err) },
			Crashed: check,
			Killed: func(m *faultfs.Mem, grown bool) error {
				if !grown {
					return nil // as at the call before
				}
				kills.Add(1)
				return w.check(m.Kill())
			}}
		m.Hook = func(c faultfs.Call) error {
			x.Hook(m, c)
			return nil
		}
		done, err := x.Play(m, job.Seq, func(symbol string, _ int) (bool, error) {
			if !w.applies(symbol) {
				return false, nil
			}
			x.Grown = true
			return true, w.do(symbol)
		})
		return x.Points, done, err
	})
	t.Logf("crash states of work checked: %d distinct, %d wrong (%d sequences, %d crash points, %d kills, %d states of %d recoveries)",
		seen.Len()+recovered.Len(), bad.Load(), count, points, kills.Load(), recovered.Len(), twice.Load())
	if least := map[bool]int{false: 500, true: 200_000 / crashtest.Slice}[crashtest.Full]; seen.Len()+recovered.Len() < least && !t.Failed() {
		t.Errorf("%d distinct crash states, want at least %d", seen.Len()+recovered.Len(), least)
	}
}

// crashRecovery crashes a recovery at each call, and checks the crash states.
func (w *world) crashRecovery(m *faultfs.Mem, seen *crashtest.Memo[uint64, struct{}]) error {
	r := crashtest.Recovery{Limit: 4, Idle: idle, Image: imageOf, Seen: seen, Check: func(m *faultfs.Mem, _ uint64) error { return w.check(m) }}
	m.Hook = func(c faultfs.Call) error {
		r.Hook(m, c)
		return nil
	}
	c := w.clone(m)
	if err := c.open(m); err != nil {
		return wrong("recovery: %v", err)
	}
	return r.Err
}
