package workcrash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"crabmem/daemon/work"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/fuzz/internal/fault"
)

// TestHistories plays random histories of spawns, outcomes, messages, deliveries, markers,
// also of another program, and restarts, of which some are power cuts and kills. After
// each restart the files agree with the model, and at the end each start has one outcome
// and each outcome one delivery. CRABMEM_WORK_HISTORIES is the number of histories.
func TestHistories(t *testing.T) {
	n := 60
	if crashtest.Full {
		n = 2_000
	}
	if s := os.Getenv("CRABMEM_WORK_HISTORIES"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	var mu sync.Mutex
	var total history
	first, n := crashtest.Seeds(n)
	crashtest.Each(func(yield func(uint64)) {
		for i := range n {
			yield(first + uint64(i))
		}
	}, func(seed uint64) {
		h := history{rand: rand.New(rand.NewPCG(seed, 6))}
		err := h.play(60)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Errorf("seed %d, operation %d (%s): %v", seed, h.steps, h.symbol, err)
		}
		total.steps += h.steps
		total.cuts += h.cuts
		total.kills += h.kills
		total.starts += h.starts
		total.ends += h.ends
	})
	t.Logf("histories of work checked: %d, %d operations, %d power cuts, %d kills, %d starts with one outcome, %d outcomes with one delivery",
		n, total.steps, total.cuts, total.kills, total.starts, total.ends)
	if n > 50 && (total.cuts == 0 || total.kills == 0 || total.ends == 0) {
		t.Error("a kind of event did not occur")
	}
}

// history is a home with its machine and the facts about it.
type history struct {
	*world
	rand                             *rand.Rand
	symbol                           string
	steps, cuts, kills, starts, ends int
}

func (h *history) play(steps int) (err error) {
	if h.world, err = begin("fresh"); err != nil {
		return err
	}
	for h.steps < steps {
		h.steps++
		switch k := h.rand.IntN(24); {
		case k == 0:
			h.cuts++
			err = h.interrupted(true)
		case k == 1:
			h.kills++
			err = h.interrupted(false)
		case k == 2:
			err = h.foreign()
		default:
			err = h.step()
		}
		if err != nil {
			return err
		}
	}
	if err := h.check(h.m.Crash()); err != nil {
		return err
	}
	for fact := range h.facts {
		if strings.HasPrefix(fact, "start ") {
			h.starts++
		} else if strings.HasPrefix(fact, "end ") {
			h.ends++
		}
	}
	return nil
}

// step executes a random symbol on random work, which may have ended.
func (h *history) step() error {
	var ids []string
	for fact, acked := range h.facts {
		if id, ok := strings.CutPrefix(fact, "start "); ok && acked {
			ids = append(ids, id)
		}
	}
	if slices.Sort(ids); len(ids) > 0 {
		i, err := h.p.Item(ids[h.rand.IntN(len(ids))])
		if err != nil {
			return err
		}
		h.last = i
	}
	h.symbol = alphabet[h.rand.IntN(len(alphabet))]
	if len(h.p.Items()) > 6 && (h.symbol == "worker" || h.symbol == "branch" || h.symbol == "asks") {
		h.symbol = "end"
	}
	if !h.applies(h.symbol) {
		return nil
	}
	return h.do(h.symbol)
}

// interrupted cuts the power or kills the program at a random call, and checks the files.
func (h *history) interrupted(power bool) error {
	take := h.m.Kill
	if power {
		take = crashtest.PowerCut(h.m, h.rand.Uint64(), 25*h.rand.IntN(5))
	}
	x := &fault.PowerCut{After: h.rand.IntN(30), Take: take}
	h.m.Hook = x.Hook
	for range 3 {
		if err := h.step(); err != nil && !x.Triggered() {
			return err
		}
		if x.Triggered() {
			break
		}
	}
	m := x.Trigger()
	h.m.Hook = nil
	if err := h.check(m.Kill()); err != nil {
		return err
	}
	return h.restart(m)
}

// foreign has another program write a marker.
func (h *history) foreign() error {
	h.symbol = "foreign"
	if err := errors.Join(h.p.Close(), h.h.Sessions.Close()); err != nil {
		return err
	}
	name := sessions + "/" + parentID + ".jsonl"
	h.m.WriteFile(name, append(crashtest.Read(h.m, name), `{"compact":"of another program"}`+"\n"...), 0o600)
	return h.restart(h.m.Crash(crashtest.KeepAll(len(h.m.Unsynced()))...))
}

// TestConcurrent ends and delivers work from several goroutines at the same time. Each
// outcome is delivered once.
func TestConcurrent(t *testing.T) {
	w, err := begin("fresh")
	if err != nil {
		t.Fatal(err)
	}
	const n = 40
	var wg sync.WaitGroup
	var mu sync.Mutex
	delivered := map[string]int{}
	deliver := func() error {
		out, err := w.p.Deliver(func(list []work.Outcome) string { return fmt.Sprint(len(list), " results") })
		w.p.Tidy()
		mu.Lock()
		defer mu.Unlock()
		for _, o := range out {
			delivered[o.Key()]++
		}
		return err
	}
	taken := func(i *work.Item) error { _, err := i.TakeRoutes(); return err }
	begun := func(i *work.Item) error { _, err := i.Begin(); return err }
	errs := make([]error, n)
	for k := range n {
		wg.Go(func() {
			i, err := w.p.Spawn(work.Spawn{Kind: []string{"worker", "branch"}[k%2], Agent: "crab", Task: "x"})
			if err != nil {
				errs[k] = err
				return
			}
			errs[k] = errors.Join(begun(i), i.Route("more"), taken(i), i.End(work.Status{State: "failed", Reason: work.Exhausted}, "x"), deliver())
			if err := i.Route("again"); err == nil {
				errs[k] = errors.Join(errs[k], taken(i), i.End(work.Status{State: "done", Reason: work.Signaled}, "y"), deliver())
			} else if !errors.Is(err, work.ErrTransition) {
				errs[k] = errors.Join(errs[k], err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(append(errs, deliver())...); err != nil {
		t.Fatal(err)
	}
	twice := 0
	for key, times := range delivered {
		if times != 1 {
			t.Errorf("%s was delivered %d times", key, times)
		}
		if strings.HasSuffix(key, ".2") {
			twice++
		}
	}
	if len(delivered)-twice != n || len(marked(w.m)) > 0 || len(w.p.Items()) > 0 {
		t.Errorf("%d of %d works delivered, files %v, %d open", len(delivered)-twice, n, marked(w.m), len(w.p.Items()))
	}
	if _, err := found(w.m); err != nil {
		t.Error(err)
	}
	t.Logf("works: %d, continued: %d", n, twice)
}
