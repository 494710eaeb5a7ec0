package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/fuzz/internal/fault"
)

// TestRandom (L4) compares random histories with a model. A history has 200 steps
// with power cuts, kills, and failing calls.
func TestRandom(t *testing.T) {
	n := 30
	if full {
		n = 2000
	}
	total, bad := crashtest.Histories(t, n, func(seed uint64) (crashtest.Counts, error) {
		h, err := newHistory(seed)
		if err == nil {
			err = h.play(200)
		}
		if err != nil {
			err = fmt.Errorf("%+v: %w", h.r.j.opts, err)
		}
		return h.Counts, err
	})
	t.Logf("random histories checked: %d operations, %d power cuts, %d kills, %d failed calls, %d groups, %d histories wrong",
		total.Steps, total.Crashes, total.Kills, total.Faults, total.Groups, bad)
}

// history is a store, its machine, and the expected content.
type history struct {
	rand  *rand.Rand
	r     *run
	every int // operations between checkpoints; 0: random
	crashtest.Counts
}

// newHistory returns a history with random options, which must not affect the
// content of the store.
func newHistory(seed uint64) (*history, error) {
	r := rand.New(rand.NewPCG(seed, 4))
	j := newOracle(r.IntN(3) == 0)
	j.opts.CheckpointOnClose = crmem.CheckpointMode(r.IntN(3))
	if r.IntN(3) == 0 {
		j.opts.LogLimit = 4000 // background checkpoints
	}
	j.opts.Lazy = r.IntN(2) == 0
	h := &history{rand: r, every: []int{0, 1, 7, 1 << 30}[r.IntN(4)]}
	var err error
	h.r, err = newRun(j, scenes[r.IntN(len(scenes))])
	if err != nil {
		return h, err
	}
	h.r.m.Hook = nil
	return h, nil
}

func (h *history) play(steps int) error {
	for h.Steps < steps {
		h.Steps++
		h.r.now.Add(1)
		var err error
		switch k := h.rand.IntN(42); {
		case k == 0:
			h.Crashes++
			err = h.interrupted(h.powerCut(25 * h.rand.IntN(5)))
		case k == 1:
			h.Kills++
			err = h.interrupted(h.r.m.Kill)
		case k == 2:
			err = h.failing()
		case k == 3:
			err = h.group()
		case k == 4:
			if err = h.r.s.Close(); err == nil {
				err = h.open()
			}
		case k >= 36 && k < 40: // a checkpoint writes the index, which a lazy store uses later
			_, err = h.r.s.Search(context.Background(), crmem.Query{Text: "content of step"})
		case k == 6:
			err = h.r.seal(func() error { return h.r.apply(h.draw()) })
		case h.every == 0 && k == 5 || h.every > 0 && h.Steps%h.every == 0:
			err = h.r.s.Checkpoint()
		case k >= 40:
			err = h.issue([]string{"purge", "redact", "undo", "prune"}[h.rand.IntN(4)])
		default:
			err = h.r.apply(h.draw())
		}
		if err != nil {
			return err
		}
	}
	if err := h.r.s.Close(); err != nil {
		return err
	}
	h.r.m = h.r.m.Crash()
	return h.reopen(h.r.acked)
}

// draw returns random operations that the current state accepts.
func (h *history) draw() []crmem.Op {
	var ops []crmem.Op
	v := h.r.acked
	for range 1 + h.rand.IntN(2)*h.rand.IntN(4) {
		var op crmem.Op
		name := v.first()
		if len(v.entries) > 0 {
			name = v.entries[h.rand.IntN(len(v.entries))].Name
		}
		size := h.rand.IntN(60)
		if h.rand.IntN(8) == 0 {
			size = h.rand.IntN(9000)
		}
		switch h.rand.IntN(6) {
		case 0, 1:
			op = crmem.Add{Name: fmt.Sprintf("entry %d", v.next), Content: text(size, h.Steps), Kind: crmem.Kind(h.rand.IntN(2))}
		case 2, 3:
			op = crmem.Update{Name: name, Content: text(size, h.Steps), Aliases: []string{"updated"}}
		case 4:
			op = crmem.Alias{Name: name, Aliases: []string{fmt.Sprint("alias ", h.rand.IntN(5))}}
		case 5:
			op = crmem.Remove{Name: name}
		}
		if next, err := v.apply(h.r.now.Load(), op); err == nil {
			v = next
			ops = append(ops, op)
		}
	}
	return ops
}

// issue executes a symbol without a fault. Some texts are parts of others, so it does not
// look for purged texts.
func (h *history) issue(symbol string) error {
	v := h.r.acked
	next, refused := v.issue(symbol, h.r.now.Load(), h.Steps)
	next.gone = nil
	if err := h.r.expect(next, refused, func() error { return h.r.call(symbol, v, h.Steps) }); err != nil {
		return fmt.Errorf("%s: %w", symbol, err)
	}
	return nil
}

func (h *history) open() error {
	if err := h.r.open(); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	return nil
}

// reopen opens the store after a fault. The state must be in want and becomes the
// expected state.
func (h *history) reopen(want ...version) error {
	if err := h.open(); err != nil {
		return err
	}
	got, err := pastOf(h.r.s)
	if err != nil {
		return err
	}
	if !among(got.result(), want) {
		return wrong("recovered %v\nwant one of %v", got, want)
	}
	h.r.acked = got
	return nil
}

// powerCut returns a function that crashes the current machine and keeps about
// percent of the unsynced changes.
func (h *history) powerCut(percent int) func() *faultfs.Mem {
	return crashtest.PowerCut(h.r.m, h.rand.Uint64(), percent)
}

// interrupted stops an operation at a random call. take captures the crash state.
func (h *history) interrupted(take func() *faultfs.Mem) error {
	a := &fault.PowerCut{After: h.rand.IntN(40), Take: take}
	ops := h.draw()
	next, err := h.r.acked.apply(h.r.now.Load(), ops...)
	if err != nil {
		return err
	}
	if err := h.swapHook(a.Hook); err != nil {
		return err
	}
	want := []version{h.r.acked, next}
	if err := h.r.s.Apply(ops...); err == nil {
		want = want[1:]
	}
	if h.rand.IntN(2) == 0 {
		h.r.s.Checkpoint()
	}
	image := a.Trigger()
	h.r.s.Close() // ends the background work on the dead machine
	h.r.m = image
	return h.reopen(want...)
}

// swapHook reopens the store on the same machine, with a hook.
func (h *history) swapHook(hook func(faultfs.Call) error) error {
	if err := h.r.s.Close(); err != nil {
		return err
	}
	h.r.m.Hook = nil
	err := h.open()
	h.r.m.Hook = hook // safe: the idle store makes no calls
	return err
}

// failing fails a call and then kills the process.
func (h *history) failing() error {
	all := fault.Faults()
	e := &fault.Injector{Fault: all[h.rand.IntN(len(all))], N: 1 + h.rand.IntN(20)}
	var mu sync.Mutex
	ops := h.draw()
	next, err := h.r.acked.apply(h.r.now.Load(), ops...)
	if err != nil {
		return err
	}
	lost := false
	err = h.swapHook(func(c faultfs.Call) error {
		mu.Lock()
		defer mu.Unlock()
		err := e.Hook(c)
		lost = lost || c.Op == "syncdir" && err != nil
		return err
	})
	if err != nil {
		return err
	}
	want := []version{h.r.acked, next}
	switch err := h.r.s.Apply(ops...); {
	case err == nil:
		want = want[1:]
	case errors.Is(err, crmem.ErrNotApplied), errors.Is(err, crmem.ErrStopped):
		want = want[:1]
	case !errors.Is(err, crmem.ErrUnknown):
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	h.r.s.Checkpoint()
	h.r.s.Close()
	if e.Hit >= e.N {
		h.Faults++
	}
	h.r.m = h.r.m.Kill()
	if lost && e.Ever {
		// A directory was created, but its sync and its removal failed. It is
		// visible but not on disk, and no later process can detect that.
		h.r.m = h.r.m.Crash()
	}
	if err := h.reopen(want...); err != nil {
		return fmt.Errorf("%s at hit %d (%v): %w", e.Name, e.N, e.At, err)
	}
	if h.rand.IntN(2) == 0 {
		h.r.m = h.r.m.Crash()
		return h.reopen(h.r.acked)
	}
	return nil
}

// group has eight goroutines write concurrently, so that they share syncs. In half
// of the calls the power may be cut.
func (h *history) group() error {
	h.Groups++
	a := &fault.PowerCut{After: 1 << 30, Take: h.powerCut(50)}
	if h.rand.IntN(2) == 0 {
		a.After = h.rand.IntN(30)
		h.Crashes++
	}
	if err := h.swapHook(a.Hook); err != nil {
		return err
	}
	base := h.r.acked
	errs := make([]error, 8)
	prefix := fmt.Sprintf("group %d.", h.Steps)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			errs[i] = h.r.s.Apply(crmem.Add{Name: fmt.Sprint(prefix, i), Content: text(100, i)})
		})
	}
	wg.Wait()
	if image := a.Disarm(); image != nil {
		h.r.s.Close()
		h.r.m = image
		if err := h.open(); err != nil {
			return err
		}
	} else if err := errors.Join(append(errs, h.swapHook(nil))...); err != nil {
		return err
	}
	got, err := pastOf(h.r.s)
	if err != nil {
		return err
	}
	if n := len(base.past); len(got.past) < n || fingerprintOf(got.past[:n]) != base.pastPrint {
		return wrong("a group changed the history of %v\nto that of %v", base, got)
	}
	rest := slices.DeleteFunc(slices.Clone(got.entries), func(e crmem.Entry) bool { return strings.HasPrefix(e.Name, prefix) })
	if next := newVersion(base.next, rest); next.print != base.print {
		return wrong("a group changed other entries: %v\nwant %v", next, base)
	}
	for i, err := range errs {
		name := fmt.Sprint(prefix, i)
		at := got.find(name)
		switch {
		case err == nil && at < 0:
			return wrong("%s was acknowledged but is missing", name)
		case errors.Is(err, crmem.ErrNotApplied) && at >= 0:
			return wrong("%s exists after %v", name, err)
		case at >= 0 && (got.entries[at].Content != text(100, i) || got.entries[at].ID < base.next):
			return wrong("%s is wrong: %v", name, got.entries[at])
		}
	}
	h.r.acked = got
	return nil
}
