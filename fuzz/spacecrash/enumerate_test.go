package spacecrash

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/fuzz/internal/fault"
)

func TestMain(m *testing.M) { crashtest.Main(m) }

var scenes = []string{"fresh", "used"}

// idle reports whether a change affects only a lock file.
func idle(c faultfs.Change) bool { return strings.HasSuffix(c.Name, "-lock") }

// TestEnumerate crashes the last operation of each short sequence before each call, and
// checks the crash states.
func TestEnumerate(t *testing.T) {
	length, step := 2, 11*crashtest.Slice
	if crashtest.Full {
		length, step = 3, crashtest.Slice
	}
	var bad, kills atomic.Int64
	var seen crashtest.Memo[uint64, struct{}] // images
	var checked crashtest.Memo[string, struct{}]
	points, count := crashtest.Enumerate(t, &bad, func(yield func(crashtest.Job)) {
		for n := range length {
			for i, seq := range crashtest.Sequences(alphabet, n+1) {
				for _, scene := range scenes {
					if i%step == 0 {
						yield(crashtest.Job{Scene: scene, Seq: seq})
					}
				}
			}
		}
	}, func(w crashtest.Job) (int, bool, error) {
		m, acked, err := begin(w.Scene)
		if err != nil {
			return 0, false, err
		}
		want := []state{acked}
		x := crashtest.Explorer{Name: w.Scene + " home, " + strings.Join(w.Seq, " "), Limit: 6, Idle: idle, Lost: &bad, Fail: func(err error) { t.Error(err) },
			Crashed: func(m *faultfs.Mem) error {
				image := crashtest.StoreImage(m, root, "")
				seen.Put(image, struct{}{})
				if !checked.Put(fmt.Sprint(image, want), struct{}{}) {
					return nil
				}
				return check(m, true, want)
			},
			Killed: func(m *faultfs.Mem, grown bool) error {
				if !grown {
					return nil // as at the call before
				}
				kills.Add(1)
				return check(m.Kill(), false, want)
			}}
		m.Hook = func(c faultfs.Call) error {
			x.Hook(m, c)
			return crashtest.NoReserve(c)
		}
		done, err := x.Play(m, w.Seq, func(symbol string, i int) (bool, error) {
			s, ok := acked.plan(symbol, i)
			if !ok {
				return false, nil
			}
			want = append([]state{acked, s.after}, s.during...)
			if err := s.do(m); err != nil {
				return false, err
			}
			acked, x.Grown = s.after, true
			want = []state{acked}
			return true, nil
		})
		return x.Points, done, err
	})
	t.Logf("crash states of spaces checked: %d distinct, %d lost (%d sequences, %d crash points, %d kills)", seen.Len(), bad.Load(), count, points, kills.Load())
	if least := map[bool]int{false: 500, true: 3000}[crashtest.Full] / step; seen.Len() < least && !t.Failed() {
		t.Errorf("%d distinct crash states, want at least %d", seen.Len(), least)
	}
}

// TestErrors fails each call of a sequence. An operation that returns no error is
// complete.
func TestErrors(t *testing.T) {
	workloads := [][]string{{"create", "write"}, {"sender", "adopt"}, {"rename", "write"}, {"write", "remove"}}
	runs, bad, _ := crashtest.FailCalls(t, nil, func(yield func(crashtest.FaultJob)) {
		for i, f := range fault.Faults() {
			for k, seq := range workloads {
				if crashtest.Full || (i+k)%32 == 0 {
					yield(crashtest.FaultJob{Job: crashtest.Job{Scene: "used", Seq: seq}, Fault: f})
				}
			}
		}
	}, func(w crashtest.Job, f *fault.Injector) (map[error]int, error) {
		m, acked, err := begin(w.Scene)
		if err != nil {
			return nil, fmt.Errorf("scene: %w", err)
		}
		if w.Seq[0] == "create" { // the other name
			acked, err = acked.without("team"), nil
			if _, err := homeOf(m).Remove("team", true); err != nil {
				return nil, err
			}
		}
		m.Hook = f.Hook
		want := []state{acked}
		for i, symbol := range w.Seq {
			s, ok := acked.plan(symbol, i)
			if !ok {
				return nil, fmt.Errorf("%s does not apply", symbol)
			}
			if s.do(m) != nil {
				want = append([]state{acked, s.after}, s.during...)
				break
			}
			acked = s.after
			want = []state{acked}
		}
		if !f.Ever { // else the undo of a change fails after its sync failed, and no later process can detect that
			if err := check(m.Kill(), false, want); err != nil {
				return nil, err
			}
		}
		for _, outcome := range crashtest.Outcomes(m.Unsynced(), func(c faultfs.Change) bool { return c.Op != "write" }) {
			if err := check(m.Crash(outcome...), true, want); err != nil {
				return nil, fmt.Errorf("outcome %v: %w", outcome, err)
			}
		}
		return nil, nil
	})
	t.Logf("failed calls of spaces checked: %d runs, %d wrong", runs, bad)
}
