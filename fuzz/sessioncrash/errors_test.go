package sessioncrash

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/fuzz/internal/fault"
	"crabmem/sessionlog"
)

// TestErrors (L3) fails the n-th call that a fault applies to, for each n until a
// run has fewer such calls.
func TestErrors(t *testing.T) {
	workloads := [][]string{
		{"user", "step", "result", "answer"},
		{"step", "compact", "title", "user"},
		{"step", "create", "step", "sync", "reopen", "user"},
		{"delete", "restore", "answer"},
		{"import", "again", "import", "repair"},
	}
	every := 9
	if full {
		every = 4
		for _, symbol := range alphabet {
			workloads = append(workloads, []string{symbol, "reopen", "user"})
		}
		workloads = append(workloads, []string{"retitle", "title", "reopen", "compact"}, []string{"step", "uptime", "sync", "user", "reopen"},
			[]string{"turn", "turn", "reopen", "turn"}, []string{"create", "create", "title", "delete", "create"},
			[]string{"delete", "create", "restore"}, []string{"step", "reopen", "step", "reopen", "title"})
	}
	runs, bad, hit := crashtest.FailCalls(t, []error{sessionlog.ErrNotApplied, sessionlog.ErrUnknown, sessionlog.ErrStopped}, func(yield func(crashtest.FaultJob)) {
		for k, f := range fault.Faults() {
			for i, seq := range workloads {
				for s, scene := range scenes {
					symbols := seq
					if scene == "fresh" {
						symbols = append([]string{"create"}, seq...)
					}
					undone := i == 0 && f.Name == "all written, ENOSPC" // always test that a complete write is undone
					if (k+i+s)%every == 0 || undone {
						yield(crashtest.FaultJob{Job: crashtest.Job{Scene: scene, Seq: symbols}, Fault: f})
					}
				}
			}
		}
	}, func(w crashtest.Job, f *fault.Injector) (map[error]int, error) {
		e := &failing{Injector: f, j: newOracle()}
		err := e.run(w.Scene, w.Seq)
		return e.classes, err
	})
	t.Logf("failed calls of sessions checked: %d runs, %d wrong (%d not applied, %d unknown, %d stopped)", runs, bad,
		hit[sessionlog.ErrNotApplied], hit[sessionlog.ErrUnknown], hit[sessionlog.ErrStopped])
}

// failing is a run in which one fault is injected.
type failing struct {
	*fault.Injector
	j       *oracle
	classes map[error]int
}

func (e *failing) run(scene string, seq []string) error {
	r, err := newRun(e.j, scene)
	if err != nil {
		return fmt.Errorf("scene: %w", err)
	}
	e.classes = r.classes
	r.faulted = func() bool { return e.Hit >= e.N }
	r.m.Hook = e.Hook
	for i, symbol := range seq {
		if !r.applies(symbol) {
			continue // an earlier symbol that this one needs has failed
		}
		if err := r.do(symbol); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if r.dead {
			break
		}
	}
	// A rename took effect, and both its sync and its undo failed. No later
	// process can detect that, so the disk stays faulty in this run.
	sick := e.Ever && e.Hits(faultfs.Call{Op: "rename"})
	if err := e.j.killed(r.m.Kill(), r.w, sick); err != nil {
		return err
	}
	changes := r.m.Unsynced()
	// Some outcomes lose only one change of a name or one truncation.
	for _, outcomes := range crashtest.Outcomes(changes, func(c faultfs.Change) bool { return c.Op != "write" && !strings.HasPrefix(c.Name, locks+"/") }) {
		if err := e.j.crashed(r.m.Crash(outcomes...), r.w); err != nil {
			return fmt.Errorf("crash that kept %v of %+v: %w", outcomes, changes, err)
		}
	}
	if sick {
		return nil
	}
	return e.healed(r)
}

// healed writes in a new process on the machine without faults, and then cuts the
// power.
func (e *failing) healed(r *run) error {
	a := newActor(r.w, r.m.Kill(), 1)
	if err := a.open(); err != nil {
		return wrong("open: %v", err)
	}
	for _, s := range slices.Clone(r.w.sessions) {
		if !s.created || !s.live || s.trash || len(s.versions) > 0 {
			continue
		}
		a.cur = s
		for _, symbol := range []string{"user", "step"} {
			if err := a.do(symbol); err != nil {
				return fmt.Errorf("without faults: %w", err)
			}
		}
	}
	if err := e.j.crashed(a.m.Crash(), r.w); err != nil {
		return fmt.Errorf("without faults, after a power cut: %w", err)
	}
	return nil
}
