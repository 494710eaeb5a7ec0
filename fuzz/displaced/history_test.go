//go:build unix

package displaced_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/crmem"
)

// historian is a writer that records the changes that it made.
type historian struct {
	*actor
	changes []string // of acknowledged operations, and of operations with unknown outcome
	lines   []string // warnings
	refused bool     // a checkpoint was refused, so that the log keeps its operations
}

// describe returns a change without its sequence number and time.
func describe(c crmem.Change) string {
	return fmt.Sprintf("%s %s %q %q", c.Type, c.Entry().Name, c.Before.Content, c.After.Content)
}

func (h *historian) open() {
	s, err := crmem.Open(h.m.store(), options(h.m, crmem.CheckpointNever, func(line string) { h.lines = append(h.lines, line) }))
	h.note(err)
	h.s = s
}

// put adds or updates an entry. Contents are unique, so each change differs.
func (h *historian) put(name string) {
	if h.s == nil {
		return
	}
	c := crmem.Change{Type: "add", After: crmem.Entry{ID: 1, Name: name, Content: fmt.Sprint(name, " ", len(h.changes))}}
	if before, err := h.s.Get(name); err == nil {
		c.Type, c.Before = "update", before
	}
	if err := h.remember(name, c.After.Content); err == nil || errors.Is(err, crmem.ErrUnknown) {
		h.changes = append(h.changes, describe(c))
	}
}

func (h *historian) forget(name string) {
	before, err := h.s.Get(name)
	must(errors.Join(err, h.s.Forget(name)))
	delete(h.acked, name)
	h.changes = append(h.changes, describe(crmem.Change{Type: "remove", Before: before}))
}

func (h *historian) checkpoint() {
	if h.s == nil {
		return
	}
	err := h.s.Checkpoint()
	if h.refused = errors.Is(err, crmem.ErrNotApplied); !h.refused {
		h.note(err)
	}
}

// beginSegment makes the next checkpoint begin a segment: the newest segment has a
// second name during that checkpoint.
func (h *historian) beginSegment() {
	if fi, err := h.m.Lstat(historyOf(h.m)); err != nil || !fi.IsDir() {
		h.checkpoint()
		return
	}
	if list := segmentsOf(h.m); len(list) > 0 {
		name := list[len(list)-1]
		link := spare(h.m, name, ".link")
		if h.m.Link(name, link) == nil {
			defer func() { must(h.m.Remove(link)) }()
		}
	}
	h.checkpoint()
}

// historyStart prepares a store with a history. The writer has the store open, and
// older copies exist.
type historyStart struct {
	name string
	do   func(h *historian)
}

var historyStarts = []historyStart{
	{"one segment", func(h *historian) {
		h.put("a")
		h.put("b")
		h.checkpoint()
		keepOlderHistory(h.m)
		h.put("a")
		h.forget("b")
		h.checkpoint()
		h.put("c")
		h.checkpoint()
		h.put("d")
	}},
	{"three segments", func(h *historian) {
		h.put("a")
		h.put("b")
		h.checkpoint()
		h.put("a")
		h.beginSegment()
		keepOlderHistory(h.m)
		h.forget("b")
		h.put("a")
		h.checkpoint()
		h.put("c")
		h.beginSegment()
		h.put("b")
		h.checkpoint()
		h.put("d")
	}},
	{"two bases", func(h *historian) {
		h.put("a")
		h.put("b")
		h.checkpoint()
		must(h.s.NewIdentity())
		h.forget("a")
		h.checkpoint()
		keepOlderHistory(h.m)
		h.put("c")
		h.beginSegment()
		h.put("c")
		h.checkpoint()
		h.put("d")
	}},
}

// historyNexts lists the actions between a change of the history and the next
// operation. Each returns the machine of the next writer.
var historyNexts = []struct {
	name string
	do   func(t *testing.T, h *historian)
}{
	{"same process", func(*testing.T, *historian) {}},
	{"stop", func(_ *testing.T, h *historian) { h.close(); h.open() }},
	{"kill -9", func(t *testing.T, h *historian) { h.m = h.m.copied(t); h.open() }},
	{"kill -9, reboot", func(_ *testing.T, h *historian) { h.m = h.m.(memMachine).rebooted(); h.open() }},
}

// historyCell is one combination of the matrix of the history.
type historyCell struct {
	start  historyStart
	target historyTarget
	change change
	next   int
}

func (c *historyCell) String() string {
	return fmt.Sprintf("%s / %s / %s / %s", c.start.name, c.target.name, c.change.name, historyNexts[c.next].name)
}

// historyCells returns the combinations.
func historyCells() (cells []historyCell) {
	for _, st := range historyStarts {
		for _, tg := range historyTargets {
			list := historyChanges
			if strings.HasPrefix(tg.name, "history") {
				list = directoryChanges
			}
			for _, ch := range list {
				for n := range historyNexts {
					cells = append(cells, historyCell{st, tg, ch, n})
				}
			}
		}
	}
	return cells
}

// clocked returns a machine in memory whose clock advances with each use.
func clocked() memMachine {
	m := newMem()
	now := int64(1_776_162_225)
	m.Now = func() time.Time { now++; return time.Unix(now, 0) }
	return m
}

// run runs a cell and returns its outcome.
func (c *historyCell) run(t *testing.T) (outcome string) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%v: panic: %v", c, p)
		}
	}()
	h := &historian{actor: newActor(clocked())}
	h.open()
	c.start.do(h)
	if !c.target.apply(h.m, c.change) {
		return skipped
	}
	if len(c.target.suffixes) > 0 {
		return c.together(t, h)
	}
	historyNexts[c.next].do(t, h)
	first := len(h.changes)
	h.put("x")
	h.checkpoint()
	h.put("x")
	h.checkpoint()
	outcome = c.check(t, h, first)
	if outcome != blocked && outcome != late {
		return outcome
	}
	clearHistory(h.m)
	h.beginSegment()
	if outcome != blocked { // else the log has kept the changes
		first = len(h.changes)
	}
	h.put("y")
	h.beginSegment()
	h.put("y")
	if again := c.check(t, h, first); again == blocked || again == late {
		t.Errorf("%v: later changes are not shown: %s\nfiles %q\nwarnings %q", c, again, segmentsOf(h.m), h.lines)
	}
	return outcome
}

// Outcomes of a cell of the history.
const (
	skipped  = "skipped"   // the files that the change needs do not exist
	allShown = "all"       // every change is shown
	begins   = "begins"    // the oldest changes are missing, which verify does not report
	gap      = "gap"       // some changes are missing, which verify reports
	late     = "gap, late" // as gap, and changes after the damage are not shown before the next base
	blocked  = "blocked"   // the writer cannot write the history: it makes no checkpoint
)

// check checks the entries and the changes of a store whose history alone was
// changed. It returns the outcome. The changes from number first on were made after
// the damage.
func (c *historyCell) check(t *testing.T, h *historian, first int) string {
	for _, err := range h.errs {
		t.Errorf("%v: the writer returned: %v", c, err)
	}
	h.errs = nil
	m := h.m.copied(t)
	if lines, state, err := reopen(m.copied(t)); err != nil || !maps.Equal(state, h.acked) {
		t.Errorf("%v: the store has %v, want %v; %v %q", c, state, h.acked, err, lines)
	}
	shown, errs := c.shown(t, m, h.changes, false)
	r, err := crmem.Check(m, m.store(), 0)
	must(err)
	reported := slices.ContainsFunc(r.Problems, func(p crmem.Problem) bool { return p.Kind == "history" })
	if reported != (len(errs) > 0) {
		t.Errorf("%v: Changes returned %q, but Check %+v", c, errs, r.Problems)
	}
	missing := slices.Index(shown, false)
	last := len(shown) - 1
	switch begin := slices.Index(shown, true); {
	case missing < 0:
		return allShown
	case slices.Contains(shown[first:], false):
		if len(errs) == 0 {
			t.Errorf("%v: %v of the changes are shown, without an error", c, shown)
		}
		if h.refused {
			return blocked
		}
		return late
	case begin >= 0 && !slices.Contains(shown[begin:last], false) && len(errs) == 0:
		return begins
	case len(errs) == 0:
		t.Errorf("%v: %v of the changes are shown, without an error", c, shown)
	}
	return gap
}

// shown compares the changes of a store with those that its writers made, and
// returns which of them it shows, and its errors. A change by another program is an
// error unless others is set.
func (c *historyCell) shown(t *testing.T, m machine, made []string, others bool) (shown []bool, errs []error) {
	s, err := crmem.Open(m.store(), &crmem.Options{FS: m, ReadOnly: true})
	if err != nil && others {
		return nil, []error{err}
	}
	must(err)
	shown = make([]bool, len(made))
	next := 0
	for ch, err := range s.Changes() {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if ch.Seq == 0 && others {
			continue
		}
		i := slices.Index(made[next:], describe(ch))
		if i < 0 {
			t.Errorf("%v: change %d is shown, but did not happen, or not then: %s\nof %q", c, ch.Seq, describe(ch), made[next:])
			continue
		}
		next += i + 1
		shown[next-1] = true
	}
	must(s.Close())
	return shown, errs
}

// TestHistory changes files of the history. The entries do not change, the writer
// continues, and each change that the store shows happened (H5, H7, H14).
// CRABMEM_CRASH=full runs every cell.
func TestHistory(t *testing.T) {
	chosen := historyCells()
	if !full() {
		rand.New(rand.NewPCG(20261124, 1)).Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:len(chosen)/16]
	}
	counts := map[string]int{}
	cells := map[string]bool{} // with changes that are shown late
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16) // readers sleep
	for _, c := range chosen {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			outcome := c.run(t)
			mu.Lock()
			defer mu.Unlock()
			counts[outcome]++
			if outcome == late {
				cells[c.target.name+": "+c.change.name] = true
			}
		})
	}
	wg.Wait()
	listed := undetected(t, "before the next segment")
	for name := range cells {
		if !slices.Contains(listed, name) {
			t.Errorf("not detected before the next segment: %s", name)
		}
	}
	if full() {
		checkList(t, "before the next segment", cells)
	}
	t.Logf("history: %d cells checked: %v", len(chosen), counts)
}

// together checks a store of which another program changed the history and other
// files.
func (c *historyCell) together(t *testing.T, h *historian) string {
	nx := next{name: historyNexts[c.next].name}
	m := h.m
	switch nx.name {
	case "same process":
		h.put("x")
		h.close()
	case "stop":
		h.close()
	case rebootColumn:
		m = m.(memMachine).rebooted()
	}
	o := &oracle{t: t, acked: h.acked, maybe: h.maybe}
	outcome := o.outcome(m.copied(t))
	name := c.target.store + ": " + c.change.name
	listed := slices.Contains(undetected(t, "in the same boot"), name) || slices.Contains(undetected(t, "in another boot"), name)
	if bad(outcome, nx) && !(outcome == silent && listed) {
		t.Errorf("%v: %s\nerrors: %v\nnext open: %q", c, outcome, h.errs, o.messages)
	}
	next := &historian{actor: newActor(m.copied(t)), changes: h.changes}
	next.open()
	if next.s == nil {
		c.shown(t, m.copied(t), h.changes, true)
		return "refused"
	}
	for try := range 2 {
		first := len(next.changes)
		next.put("y")
		next.checkpoint()
		next.put("y")
		next.checkpoint()
		shown, errs := c.shown(t, next.m.copied(t), next.changes, true)
		if !slices.Contains(shown[first:], false) {
			break
		}
		if try == 1 || len(errs) == 0 {
			t.Errorf("%v: later changes are not shown: %v %q", c, shown, errs)
		}
		clearHistory(next.m)
		next.beginSegment()
	}
	return outcome
}
