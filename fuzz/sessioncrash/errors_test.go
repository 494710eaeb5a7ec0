package sessioncrash

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/fuzz/internal/fault"
	"crabmem/sessionlog"
)

// TestErrors is L3: the n-th call that a fault can hit fails, for every n until
// a run ends without it.
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
					undone := i == 0 && f.Name == "all written, ENOSPC" // a write that is taken back whole: always
					if (k+i+s)%every == 0 || undone {
						yield(crashtest.FaultJob{Job: crashtest.Job{Scene: scene, Seq: symbols}, Fault: f})
					}
				}
			}
		}
	}, func(w crashtest.Job, f *fault.Injector) (map[error]int, error) {
		e := &failing{Injector: f, j: newJudge()}
		err := e.run(w.Scene, w.Seq)
		return e.classes, err
	})
	t.Logf("failed calls of sessions checked: %d runs, %d wrong (%d not applied, %d unknown, %d stopped)", runs, bad,
		hit[sessionlog.ErrNotApplied], hit[sessionlog.ErrUnknown], hit[sessionlog.ErrStopped])
}

// failing is one run with one fault.
type failing struct {
	*fault.Injector
	j       *judge
	classes map[error]int
}

func (e *failing) run(scene string, seq []string) error {
	r, err := newRun(e.j, scene)
	if err != nil {
		return fmt.Errorf("scene: %w", err)
	}
	e.classes = r.classes
	r.tainted = func() bool { return e.Hit >= e.N }
	r.m.Hook = e.Hook
	for i, symbol := range seq {
		if !r.applies(symbol) {
			continue // what would have made it so has failed
		}
		if err := r.do(symbol); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if r.dead {
			break
		}
	}
	// A name was changed, its sync failed, and so did taking it back: no program
	// can know of it after the disk has healed, and this one never does.
	sick := e.Ever && e.Hits(vfs.Call{Op: "rename"})
	if err := e.j.killed(r.m.Kill(), r.w, sick); err != nil {
		return err
	}
	changes := r.m.Unsynced()
	// Some lack one name or truncation.
	for _, fates := range crashtest.Outcomes(changes, func(c vfs.Change) bool { return c.Op != "write" && !strings.HasPrefix(c.Name, locks+"/") }) {
		if err := e.j.crashed(r.m.Crash(fates...), r.w); err != nil {
			return fmt.Errorf("crash that kept %v of %+v: %w", fates, changes, err)
		}
	}
	if sick {
		return nil
	}
	// The faults are gone, and an independent process writes and loses power.
	return e.healed(r)
}

// healed continues in a new process on the machine without faults.
func (e *failing) healed(r *run) error {
	a := newActor(r.w, r.m.Kill(), 1)
	if err := a.open(); err != nil {
		return wrong("open: %v", err)
	}
	for _, s := range slices.Clone(r.w.sessions) {
		if !s.must || !s.live || s.trash || len(s.versions) > 0 {
			continue
		}
		a.cur = s
		for _, symbol := range []string{"user", "step"} {
			if err := a.do(symbol); err != nil {
				return fmt.Errorf("healed: %w", err)
			}
		}
	}
	if err := e.j.crashed(a.m.Crash(), r.w); err != nil {
		return fmt.Errorf("healed, and crashed: %w", err)
	}
	return nil
}
