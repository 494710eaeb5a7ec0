package crash

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/fuzz/internal/fault"
)

// TestErrors (L3) fails the n-th call that a fault applies to, for each n until a
// run has fewer such calls.
func TestErrors(t *testing.T) {
	workloads := [][]string{
		{"add", "checkpoint", "batch"},
		{"batch", "reopen", "update"},
		{"add", "load", "remove"},
		{"update", "purge", "add"},
		{"batch", "undo", "prune"},
		{"seal", "purge"},
		{"update", "redact", "add"},
		{"seal", "redact"},
	}
	if full {
		workloads = append(workloads, crashtest.Sequences(alphabet, 1)...)
		workloads = append(workloads, []string{"overlap", "remove", "checkpoint"}, []string{"alias", "add", "reopen", "add"},
			[]string{"checkpoint", "checkpoint", "add"}, []string{"add", "overlap", "reopen"}, []string{"seal", "purge", "seal"}, []string{"seal", "reopen", "update"}, []string{"remove", "remove", "batch", "remove"},
			[]string{"add", "add", "add", "reopen", "checkpoint"}, []string{"update", "forget-missing", "batch", "overlap"},
			[]string{"prune", "purge", "undo"}, []string{"remove", "undo", "purge"}, []string{"purge", "prune", "reopen", "undo"}, []string{"update", "redact", "undo"}, []string{"seal", "seal", "redact", "purge", "redact"})
	}
	oracles := map[string]*oracle{"log": newOracle(false), "literal": newOracle(true)}
	runs, bad, hit := crashtest.FailCalls(t, []error{crmem.ErrNotApplied, crmem.ErrUnknown, crmem.ErrStopped}, func(yield func(crashtest.FaultJob)) {
		for _, f := range fault.Faults() {
			first := "fresh"
			if f.Ever && f.Hits(faultfs.Call{Op: "remove"}) {
				// A directory would be created while both the sync of its name
				// and its removal fail. No later process can detect that.
				first = "empty"
			}
			for i, seq := range workloads {
				scenes := []string{first, "used", "long"}
				if long := slices.ContainsFunc(seq, func(s string) bool { return slices.Contains(rewrites, s) }); !full && !long {
					scenes = scenes[:2]
				} else if !full && f.Ever {
					continue
				} else if !full {
					scenes = scenes[2:]
				}
				for _, scene := range scenes {
					for _, mode := range []string{"log", "literal"} {
						if full || (i%2 == 0) == (mode == "literal") {
							yield(crashtest.FaultJob{Job: crashtest.Job{Scene: mode + " " + scene, Seq: seq}, Fault: f})
						}
					}
				}
			}
		}
	}, func(w crashtest.Job, f *fault.Injector) (map[error]int, error) {
		mode, scene, _ := strings.Cut(w.Scene, " ")
		e := &failing{Injector: f, j: oracles[mode]}
		err := e.run(scene, w.Seq)
		return e.classes, err
	})
	t.Logf("failed calls checked: %d runs, %d wrong (%d not applied, %d unknown, %d stopped)", runs, bad,
		hit[crmem.ErrNotApplied], hit[crmem.ErrUnknown], hit[crmem.ErrStopped])
}

// failing is a run in which one fault is injected.
type failing struct {
	*fault.Injector
	j       *oracle
	classes map[error]int
}

func (e *failing) run(scene string, seq []string) error {
	e.classes = map[error]int{}
	r, err := newRun(e.j, scene)
	if err != nil {
		return fmt.Errorf("scene: %w", err)
	}
	r.m.Hook = e.Hook
	acked, maybe := r.acked, r.acked
	unknown := false
	for i, symbol := range seq {
		r.now.Store(epoch + uint64(i+1))
		switch symbol {
		case "checkpoint":
			err = r.s.Checkpoint()
		case "reopen":
			// A failed close loses no operation. The process may hold the lock
			// until it exits, so the open may fail.
			if err = errors.Join(r.s.Close(), r.open()); err != nil {
				r.s = nil
			} else if got := stateOf(r.s); got.print == maybe.print && unknown {
				acked, unknown = maybe, false // the open determines the outcome
			} else if got.print == acked.print {
				maybe, unknown = acked, false
			}
		default:
			if symbol == "overlap" {
				if err = r.s.Checkpoint(); err != nil {
					continue
				}
			}
			next, refused := acked.issue(symbol, r.now.Load(), i)
			if symbol == "seal" { // whether its checkpoint fails does not matter
				_ = r.seal(func() error { err = r.call(symbol, acked, i); return nil })
			} else {
				err = r.call(symbol, acked, i)
			}
			c := class(err)
			e.classes[c]++
			switch {
			case c == nil && refused == nil:
				if unknown {
					return wrong("step %d: acknowledged after an unknown outcome", i)
				}
				if err := checkGone(r.m.Kill(), next.gone); err != nil {
					return err
				}
				acked, maybe = next, next
			case symbol == "prune" && err != nil: // a part of the older changes may be gone
				for _, v := range []*version{&acked, &maybe} {
					v.loose = max(v.loose, v.older(pruneLimit(i)))
				}
			case refused != nil && c == refused, c == crmem.ErrNotApplied, c == crmem.ErrStopped:
			case symbol == "undo" && c == crmem.ErrNotFound: // it could not read the history
			case refused == nil && (c == crmem.ErrUnknown || symbol == "load" && c != nil):
				maybe, unknown = next, true
			case (symbol == "purge" || symbol == "redact") && refused == nil && strings.Contains(err.Error(), "files may contain the removed texts"):
				maybe = next
				next.gone = acked.gone // until the next open
				acked = next
			default:
				return wrong("step %d: %v", i, err)
			}
		}
		if r.s == nil {
			break
		}
		if got := stateOf(r.s); got.print != acked.print {
			return wrong("step %d, %v: the store has %v\nwant %v", i, err, got, acked) // I10
		}
	}
	if e.Hit < e.N && err != nil && class(err) == err {
		return wrong("error without a fault: %v", err)
	}
	if r.lacks { // two errors of a fold (FORMAT.md, H8)
		acked.loose, maybe.loose = len(acked.past), len(maybe.past)
	}
	want := []version{acked, maybe}
	if err := e.j.killed(r.m.Kill(), want); err != nil {
		return err
	}
	// Some outcomes lose only one change of a name or one truncation.
	for _, outcome := range crashtest.Outcomes(r.m.Unsynced(), func(c faultfs.Change) bool { return c.Op != "write" }) {
		if err := e.crash(r.m, outcome, want); err != nil {
			return err
		}
	}
	return nil
}

// crash checks the store after a power cut with the given outcome.
func (e *failing) crash(m *faultfs.Mem, outcome []faultfs.Outcome, want []version) error {
	m = m.Crash(outcome...)
	s, err := e.j.open(m, epoch, nil)
	if err != nil {
		return wrong("open after a crash with outcome %v: %v", outcome, err)
	}
	got, err := pastOf(s)
	if err != nil {
		return err
	}
	if !among(got.result(), want) {
		return wrong("after a crash with outcome %v: %v\nwant one of %v", outcome, got, want)
	}
	for _, v := range want {
		if v.matches(got.result()) {
			return checkGone(m, v.gone)
		}
	}
	return nil
}
