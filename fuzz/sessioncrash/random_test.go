package sessioncrash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/fuzz/internal/fault"
	"crabmem/sessionlog"
)

// TestRandom (L4) compares random histories with a model. A history has 150
// operations of two processes on several sessions, with power cuts, kills, and
// failing calls. Each process keeps the files of at most two sessions open.
func TestRandom(t *testing.T) {
	n := 15
	if full {
		n = 250
	}
	total, bad := crashtest.Histories(t, n, func(seed uint64) (crashtest.Counts, error) {
		h := newHistory(seed)
		err := h.play(150)
		if err != nil {
			err = fmt.Errorf("%s: %w", h.last, err)
		}
		return h.Counts, err
	})
	t.Logf("random histories of sessions checked: %d operations, %d power cuts, %d kills, %d failed calls, %d groups, %d refused by a lock, %d histories wrong",
		total.Steps, total.Crashes, total.Kills, total.Faults, total.Groups, total.Locked, bad)
	if total.Steps > 150 && total.Locked == 0 {
		t.Error("no operation was refused by a lock")
	}
}

// history is a folder with its machine, its processes, and its expected content.
type history struct {
	rand   *rand.Rand
	j      *oracle
	w      *world
	m      *faultfs.Mem
	actors []*actor
	last   string // the last symbol
	crashtest.Counts
}

func newHistory(seed uint64) *history {
	return &history{rand: rand.New(rand.NewPCG(seed, 4)), j: newOracle(), w: &world{}, m: faultfs.NewMem()}
}

// boot starts the processes on a machine.
func (h *history) boot(m *faultfs.Mem) error {
	h.count()
	h.m = m
	h.actors = []*actor{newActor(h.w, m, 2), newActor(h.w, m, 2)}
	h.actors[0].others, h.actors[1].others = h.actors[1:], h.actors[:1]
	return errors.Join(h.actors[0].open(), h.actors[1].open())
}

// count moves the number of lock errors from the processes to the history.
func (h *history) count() {
	for _, a := range h.actors {
		h.Locked += a.classes[vfs.ErrLocked]
		clear(a.classes)
	}
}

func (h *history) play(steps int) error {
	if err := h.boot(h.m); err != nil {
		return err
	}
	for h.Steps < steps {
		h.Steps++
		a := h.actors[h.rand.IntN(len(h.actors))]
		var err error
		switch k := h.rand.IntN(40); k {
		case 0:
			h.Crashes++
			err = h.interrupted(a, true)
		case 1:
			h.Kills++
			err = h.interrupted(a, false)
		case 2, 3:
			err = h.failing(a)
		case 4:
			err = h.group(a)
		default:
			err = h.step(a)
		}
		if err != nil {
			return err
		}
	}
	for _, a := range h.actors {
		if err := a.reopen(); err != nil {
			return err
		}
	}
	h.count()
	return h.survive(h.m.Crash(), true)
}

// symbols are the possible steps of a history.
var symbols = slices.Concat(alphabet, []string{"user", "user", "step", "step", "step", "result", "result", "answer", "answer", "uptime", "again"})

// step executes a random symbol on a random session.
func (h *history) step(a *actor) error {
	var writable []*session
	for _, s := range h.w.sessions {
		if s.created && len(s.versions) == 0 {
			writable = append(writable, s)
		}
	}
	a.cur = nil
	if len(writable) > 0 {
		a.cur = writable[h.rand.IntN(len(writable))]
	}
	h.last = symbols[h.rand.IntN(len(symbols))]
	if h.last == "create" && len(writable) > 5 || h.last == "turn" || a.cur == nil && h.last == "again" {
		h.last = "answer" // a write of several messages may need a repair
	}
	if !a.applies(h.last) {
		h.last = "create"
	}
	return a.do(h.last)
}

// survive checks the folder of a machine after a power cut or a kill, and starts
// the processes on that machine.
func (h *history) survive(m *faultfs.Mem, power bool) error {
	all, err := h.j.recover(m.Kill(), nil, true)
	if err != nil {
		return err
	}
	if err := h.w.accepts(all, power); err != nil {
		return err
	}
	h.w.settle(all, power)
	return h.boot(m)
}

// interrupted cuts the power or kills the processes at a random call.
func (h *history) interrupted(a *actor, power bool) error {
	x := &fault.PowerCut{After: h.rand.IntN(30), Take: h.interruption(power)}
	h.m.Hook = x.Hook
	a.faulted = x.Triggered
	for range 3 {
		if err := h.step(a); err != nil {
			return err
		}
		if x.Triggered() || a.dead {
			break
		}
	}
	return h.survive(x.Trigger(), power)
}

// interruption returns a function that cuts the power or kills the processes.
func (h *history) interruption(power bool) func() *faultfs.Mem {
	if !power {
		return h.m.Kill
	}
	return crashtest.PowerCut(h.m, h.rand.Uint64(), 25*h.rand.IntN(5))
}

// failing fails a call of a process. It then kills the processes, cuts the power,
// or has the process reopen the folder.
func (h *history) failing(a *actor) error {
	all := slices.DeleteFunc(fault.Faults(), func(f fault.Fault) bool { return f.Ever && f.Hits(faultfs.Call{Op: "rename"}) })
	f := &fault.Injector{Fault: all[h.rand.IntN(len(all))], N: 1 + h.rand.IntN(20)}
	lost := false
	h.m.Hook = func(c faultfs.Call) error {
		if c.Op == "unlock" {
			return nil // a lock that cannot be released is held until the process ends
		}
		err := f.Hook(c)
		lost = lost || c.Op == "syncdir" && err != nil
		return err
	}
	a.faulted = func() bool { return f.Hit >= f.N }
	for range 1 + h.rand.IntN(3) {
		if err := h.step(a); err != nil {
			return fmt.Errorf("%s at hit %d (%v): %w", f.Name, f.N, f.At, err)
		}
		if a.dead || lost {
			break
		}
	}
	h.m.Hook = nil
	if f.Hit >= f.N {
		h.Faults++
	}
	end := h.rand.IntN(3)
	if lost {
		end = 1 // no later process can detect names that are visible but not on disk
	}
	var err error
	switch end {
	case 0:
		err = h.survive(h.m.Kill(), false)
	case 1:
		err = h.survive(h.m.Crash(), true)
	default:
		err = a.reopen()
		a.faulted = func() bool { return false }
	}
	if err != nil {
		return fmt.Errorf("%s at hit %d (%v): %w", f.Name, f.N, f.At, err)
	}
	return nil
}

// group has goroutines write concurrently, each to a different session. The folder
// keeps the files of two sessions open. In half of the calls the power may be cut.
func (h *history) group(a *actor) error {
	h.Groups++
	x := &fault.PowerCut{After: 1 << 30, Take: h.interruption(true)}
	if h.rand.IntN(2) == 0 {
		x.After = h.rand.IntN(60)
		h.Crashes++
	}
	type writer struct {
		s    *session
		l    *sessionlog.Log
		ms   []sessionlog.Message
		errs []error
	}
	var writers []*writer
	for _, s := range h.w.sessions {
		if !s.created || len(s.versions) > 0 {
			continue
		}
		l, err := a.tryOpen(s)
		if err != nil {
			return err
		}
		if l == nil {
			continue
		}
		w := &writer{s: s, l: l}
		for range 4 {
			w.ms = append(w.ms, sessionlog.Message{Role: []string{"user", "tool"}[h.rand.IntN(2)], ToolCallID: "nobody's", Content: h.w.content(h.rand.IntN(3000))})
		}
		w.errs = make([]error, len(w.ms))
		writers = append(writers, w)
	}
	h.m.Hook = x.Hook
	a.faulted = x.Triggered
	var wg sync.WaitGroup
	for _, w := range writers {
		wg.Go(func() {
			for i := range w.ms {
				w.errs[i] = w.l.Append(w.ms[i])
			}
		})
	}
	wg.Wait()
	h.m.Hook = nil
	for _, w := range writers {
		for i, m := range w.ms {
			n := len(w.s.lines)
			w.s.message(messageText(m))
			if err := a.apply(w.s, n, m.Role == "user", func() error { return w.errs[i] }); err != nil {
				return err
			}
		}
	}
	if image := x.Disarm(); image != nil {
		return h.survive(image, true)
	}
	return nil
}
