package sessioncrash

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/sessionlog"
)

// startRun returns a run in a scene.
func startRun(t *testing.T, scene string) *run {
	t.Helper()
	r, err := newRun(newOracle(), scene)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// must executes symbols and fails the test on an error.
func (r *run) must(t *testing.T, symbols ...string) {
	t.Helper()
	for _, symbol := range symbols {
		if err := r.do(symbol); err != nil {
			t.Fatalf("%s: %v", symbol, err)
		}
	}
}

// TestOneWrite checks that each symbol makes one write, because a crash between
// two writes would split an atomic operation (S15, S17).
func TestOneWrite(t *testing.T) {
	counted := 0
	for _, symbol := range []string{"user", "step", "result", "answer", "turn", "compact", "tail", "title", "uptime"} {
		r := startRun(t, "used")
		r.must(t, "step") // the session is open
		writes := 0
		r.m.Hook = func(c faultfs.Call) error {
			if c.Op == "write" && strings.HasPrefix(c.Name, dir+"/"+prefix) {
				writes++
			}
			return nil
		}
		r.must(t, symbol)
		if writes != 1 {
			t.Errorf("%s makes %d writes, want 1", symbol, writes)
		}
		counted++
	}
	t.Logf("symbols with one write: %d", counted)
}

// failSync fails the next sync of a session's file. From then on any call may
// fail.
func (r *run) failSync() {
	failed := false
	r.faulted = func() bool { return failed }
	r.m.Hook = func(c faultfs.Call) error {
		if c.Op == "datasync" && !failed {
			failed = true
			return syscall.EIO
		}
		return nil
	}
}

// heal removes the fault. Later errors are violations again.
func (r *run) heal() {
	r.m.Hook = nil
	r.faulted = func() bool { return false }
}

// restart continues the run in a new process on a machine.
func (r *run) restart(t *testing.T, m *faultfs.Mem) {
	t.Helper()
	cur := r.cur
	r.actor = newActor(r.w, m, 1)
	r.cur = cur
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
}

// TestLyingCache fails a sync. The page cache keeps the bytes that the disk lost,
// and a later open in any process must not rely on them.
func TestLyingCache(t *testing.T) {
	runs := 0
	for _, scene := range []string{"used", "killed", "cut", "cut, with the locks' texts"} {
		for _, before := range [][]string{{}, {"step"}, {"step", "result"}, {"title", "step", "uptime"}} {
			for _, lost := range []string{"user", "answer", "compact", "retitle", "sync", "create"} {
				for _, killed := range []bool{false, true} {
					r := runLyingCache(t, scene, before, lost, killed)
					if err := r.j.crashed(r.m.Crash(), r.w); err != nil {
						t.Errorf("%s folder, %s, %s lost, killed %v: %v", scene, strings.Join(before, " "), lost, killed, err)
					}
					runs++
				}
			}
		}
	}
	t.Logf("writes after a failed sync, and a power cut: %d runs, 0 lost", runs)
}

// runLyingCache executes the symbols before, and then lost with a failing sync. It
// then writes in this process or, if killed is true, in another one.
func runLyingCache(t *testing.T, scene string, before []string, lost string, killed bool) *run {
	t.Helper()
	var r *run
	switch scene {
	case "cut":
		r = startRun(t, "used")
		r.restart(t, r.m.Crash())
	case "cut, with the locks' texts":
		r = startRun(t, "used")
		r.restart(t, r.m.Crash(crashtest.KeepAll(len(r.m.Unsynced()))...))
	default:
		r = startRun(t, scene)
	}
	r.must(t, before...)
	s := r.cur
	r.failSync()
	r.must(t, lost)
	r.heal()
	if r.stopped[s.id] {
		if err := r.logs[s.id].Append(sessionlog.Message{Role: "user", Content: "late"}); !errors.Is(err, sessionlog.ErrStopped) {
			t.Errorf("%s, %s lost: a later write: %v, want ErrStopped", strings.Join(before, " "), lost, err)
		}
	}
	if killed {
		r.restart(t, r.m.Kill())
	} else {
		delete(r.logs, s.id) // which is stopped
	}
	r.cur = s
	r.must(t, "user", "answer")
	return r
}

// TestLostWhenEvicted fails the sync of a session whose file is closed to open
// another one. Close must report the failure unless the acknowledged lines are
// on disk.
func TestLostWhenEvicted(t *testing.T) {
	r := startRun(t, "used")
	r.must(t, "step")
	s := r.cur
	r.failSync()
	r.must(t, "create")
	if !r.faulted() {
		t.Fatal("the eviction made no sync")
	}
	if err := r.closeLog(s); err != nil {
		t.Fatal(err)
	}
	if err := r.j.crashed(r.m.Crash(), r.w); err != nil {
		t.Error(err)
	}
}

// TestTurns has two processes write to one session in turn, then kills them or
// cuts the power. Between its writes each process keeps the session open, but
// not its file.
func TestTurns(t *testing.T) {
	symbols := []string{"user", "step", "result", "compact", "title", "retitle", "uptime", "sync", "delete", "restore"}
	runs := 0
	for _, first := range symbols {
		for _, second := range symbols {
			r := startRun(t, "used")
			r.must(t, "step")
			s := r.cur
			other := newActor(r.w, r.m, 1)
			other.others, r.others = []*actor{r.actor}, []*actor{other}
			if err := other.open(); err != nil {
				t.Fatal(err)
			}
			for _, turn := range []struct {
				a      *actor
				symbol string
			}{{other, first}, {r.actor, second}, {other, "user"}} {
				for _, a := range []*actor{r.actor, other} {
					if err := a.do("create"); err != nil { // closes the file of s, as MaxOpen is 1
						t.Fatal(err)
					}
				}
				turn.a.cur = s
				if err := turn.a.do(turn.symbol); err != nil {
					t.Fatalf("%s, %s, %s: %v", first, second, turn.symbol, err)
				}
			}
			if n := r.classes[vfs.ErrLocked] + other.classes[vfs.ErrLocked]; n > 0 {
				t.Errorf("%s and %s in turn: %d operations refused by a lock", first, second, n)
			}
			if err := errors.Join(r.j.crashed(r.m.Crash(), r.w), r.j.killed(r.m.Kill(), r.w, false)); err != nil {
				t.Errorf("%s and %s in turn: %v", first, second, err)
			}
			runs++
		}
	}
	t.Logf("writes of two processes in turn: %d runs, 0 lost", runs)
}

// TestLocked checks that a process cannot open, delete, or repair a session that
// another process has open.
func TestLocked(t *testing.T) {
	r := startRun(t, "used")
	r.must(t, "step")
	var warned []string
	other, err := openDir(r.m, 4, &warned)
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"open":   func() error { _, err := other.Open(r.cur.id); return err },
		"delete": func() error { return other.Delete(r.cur.id) },
		"repair": func() error { _, err := other.Repair(r.cur.id); return err },
	} {
		var locked *vfs.LockedError
		if err := do(); !errors.As(err, &locked) || locked.Holder.Command != "fuzz" {
			t.Errorf("%s: %v, want a LockedError", name, err)
		}
	}
	r.must(t, "answer", "reopen")
}

// TestCreateAtOnce has another process create a session of the same agent and
// sender before each call of a creation. Both sessions must exist, with different
// IDs, whether the other process closes its session or not.
func TestCreateAtOnce(t *testing.T) {
	n := 1
	for ; createAtOnce(t, n, false) && createAtOnce(t, n, true); n++ {
	}
	t.Logf("creations during another creation: %d", 2*(n-1))
	if n < 10 {
		t.Errorf("a creation has only %d calls", n-1)
	}
}

// createAtOnce has the other process create its session before call n. It returns
// false if the creation has fewer calls.
func createAtOnce(t *testing.T, n int, closed bool) bool {
	t.Helper()
	meta := sessionlog.Meta{Agent: "crab", CreatedBy: "user"}
	begin := func(d *sessionlog.Dir) (*sessionlog.Log, error) {
		l, err := d.Create(meta)
		if err == nil {
			err = l.Append(sessionlog.Message{Role: "user", Content: "of " + l.ID()})
		}
		return l, err
	}
	r := startRun(t, "used")
	var warned []string
	other, err := openDir(r.m, 4, &warned)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	var second *sessionlog.Log
	r.m.Hook = func(faultfs.Call) error {
		if calls++; calls == n {
			r.m.Hook = nil
			var err error
			second, err = begin(other)
			if err == nil && closed {
				err = second.Close()
			}
			if err != nil {
				t.Errorf("before call %d: %v", n, err)
			}
		}
		return nil
	}
	first, err := begin(r.d)
	r.m.Hook = nil
	if err != nil {
		t.Fatalf("with another creation before call %d: %v", n, err)
	}
	if second == nil {
		return false
	}
	if first.ID() == second.ID() {
		t.Errorf("before call %d: both sessions are %s", n, first.ID())
	}
	list, err := openDir(r.m.Crash(), 4, &warned)
	if err != nil {
		t.Fatal(err)
	}
	if infos, err := list.List(); err != nil || len(infos) != 3 || infos[1].Messages != 1 || infos[2].Messages != 1 {
		t.Errorf("before call %d: %+v, %v", n, infos, err)
	}
	return true
}
