package workcrash

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/work"
	"crabmem/fuzz/internal/crashtest"
	"crabmem/sessionlog/record"
)

// clone returns a world on another machine with the same facts.
func (w *world) clone(m *faultfs.Mem) *world {
	return &world{m: m, facts: maps.Clone(w.facts), count: w.count}
}

// check recovers a machine after a crash, compares its files with the facts, and then ends
// and delivers all work. Its files then state that each start has one outcome that is
// terminal, and each outcome one delivery.
func (w *world) check(m *faultfs.Mem) error {
	c := w.clone(m)
	if err := c.open(m); err != nil {
		return wrong("recovery: %v", err)
	}
	all, err := c.compare()
	if err != nil {
		return err
	}
	if err := c.inboxIs(all); err != nil {
		return err
	}
	if err := c.questions(all); err != nil {
		return err
	}
	for _, i := range c.p.Items() {
		if err := c.finish(i); err != nil {
			return err
		}
	}
	for c.p.Inbox() > 0 {
		if err := c.deliver(); err != nil {
			return wrong("deliver after a recovery: %v", err)
		}
	}
	if err := c.done(m); err != nil {
		return err
	}
	if items := c.p.Items(); len(items) > 0 || len(marked(m)) > 0 {
		return wrong("all work was delivered, but %d items are open, and the files %v exist", len(items), marked(m))
	}
	m = m.Crash()
	if err := c.done(m); err != nil {
		return wrong("after a second crash: %v", err)
	}
	last := c.clone(m)
	if err := last.open(m); err != nil {
		return wrong("second recovery: %v", err)
	}
	if n, items := last.p.Inbox(), last.p.Items(); n > 0 || len(items) > 0 || len(marked(m)) > 0 {
		return wrong("after all work was delivered: %d outcomes, %d items, files %v", n, len(items), marked(m))
	}
	return nil
}

// compare compares the files with the facts. Recovery may have interrupted work, and taken
// no message in.
func (w *world) compare() (facts, error) {
	all, err := found(w.m)
	if err != nil {
		return nil, err
	}
	for fact, acked := range w.facts {
		if acked && !all[fact] && !strings.HasPrefix(fact, "open ") {
			return nil, wrong("lost: %.60s", fact)
		}
	}
	for fact := range all {
		if _, ok := w.facts[fact]; !ok && !strings.HasPrefix(fact, "take ") && !strings.HasPrefix(fact, "open ") && !strings.Contains(fact, " "+work.Interrupted+" ") {
			return nil, wrong("in the files, but never written: %.60s", fact)
		}
		if id, ok := strings.CutPrefix(fact, "deliver "); ok && !all.has("end "+id+" ") && !all.has("answer parent."+strings.TrimSuffix(strings.TrimPrefix(id, "q"), ".1")+" ") {
			return nil, wrong("%s was delivered, but has no end", id)
		}
	}
	return all, nil
}

// has reports whether a fact begins with a prefix.
func (f facts) has(prefix string) bool {
	for fact := range f {
		if strings.HasPrefix(fact, prefix) {
			return true
		}
	}
	return false
}

// inboxIs compares the inbox with the outcomes of the files without a delivery, and the
// open work with the work that has not ended.
func (w *world) inboxIs(all facts) error {
	owed, open := 0, map[string]bool{}
	for fact := range all {
		if rest, ok := strings.CutPrefix(fact, "end "); ok {
			if key, _, _ := strings.Cut(rest, " "); !all["deliver "+key] {
				owed++
			}
		}
		if rest, ok := strings.CutPrefix(fact, "answer parent."); ok {
			if n, _, _ := strings.Cut(rest, " "); !all["deliver q"+n+".1"] {
				owed++
			}
		}
		if id, ok := strings.CutPrefix(fact, "start "); ok {
			open[id] = true
		}
	}
	if w.p.Inbox() != owed {
		return wrong("%d outcomes in the inbox, want %d", w.p.Inbox(), owed)
	}
	for _, i := range w.p.Items() {
		if !open[i.ID] {
			return wrong("%s is open without a start", i.ID)
		}
		status, attempt := i.Status()
		if status.State == record.Running && (i.Kind == record.Branch || attempt > 4) {
			return wrong("%s runs in attempt %d after a restart", i.ID, attempt)
		}
	}
	if len(w.p.Items()) > 0 && len(marked(w.m.Crash())) == 0 {
		return wrong("work is open without a durable file in %s", marks)
	}
	return nil
}

// finish takes the messages of work in, and ends it.
func (w *world) finish(i *work.Item) error {
	w.last = i
	if _, err := i.TakeRoutes(); err != nil {
		return wrong("%s: %v", i.ID, err)
	}
	if status, _ := i.Status(); status.State == record.Running {
		if err := w.end(record.Done, work.Signaled); err != nil {
			return wrong("end %s: %v", i.ID, err)
		}
	}
	if status, _ := i.Status(); status.State == record.Waiting {
		if err := w.end(record.Done, work.Closed); err != nil {
			return wrong("close %s: %v", i.ID, err)
		}
	}
	return nil
}

// done checks that the files state that all work has ended and is delivered.
func (w *world) done(m *faultfs.Mem) error {
	all, err := found(m)
	if err != nil {
		return err
	}
	var starts []string
	for fact := range all {
		if id, ok := strings.CutPrefix(fact, "start "); ok {
			starts = append(starts, id)
		}
		if rest, ok := strings.CutPrefix(fact, "answer parent."); ok {
			if n, _, _ := strings.Cut(rest, " "); !all["deliver q"+n+".1"] {
				return wrong("the answer to question %s was not delivered", n)
			}
		}
		if rest, ok := strings.CutPrefix(fact, "route "); ok {
			key, _, _ := strings.Cut(rest, " ")
			id, n, _ := strings.Cut(key, ".")
			if !all["take "+id+" r"+n] && !all.failed(id) {
				return wrong("the message %s was not taken in", key)
			}
		}
	}
	for _, id := range starts {
		if all["open "+id] {
			return wrong("%s has no outcome", id)
		}
		last := ""
		for n := 1; ; n++ {
			key := fmt.Sprintf("%s.%d", id, n)
			i := slices.IndexFunc(slices.Collect(maps.Keys(all)), func(fact string) bool { return strings.HasPrefix(fact, "end "+key+" ") })
			if i < 0 {
				if all["deliver "+key] || last != record.Done && last != record.Failed {
					return wrong("%s ends in the state %q after %d outcomes", id, last, n-1)
				}
				break
			}
			for fact := range all {
				if rest, ok := strings.CutPrefix(fact, "end "+key+" "); ok {
					last, _, _ = strings.Cut(rest, " ")
				}
			}
			if !all["deliver "+key] {
				return wrong("%s was not delivered", key)
			}
		}
	}
	children := crashtest.Files(m, sessions, func(name string) bool { return strings.HasPrefix(name, "crab_work-") })
	if len(children) != len(starts) {
		return wrong("%d children of %d starts", len(children), len(starts))
	}
	return nil
}

// failed reports whether work has a failure, which may leave messages that were not taken
// in.
func (f facts) failed(id string) bool {
	for fact := range f {
		if strings.HasPrefix(fact, "end "+id+".") && (strings.Contains(fact, " "+record.Failed+" ") || strings.Contains(fact, " "+work.Closed+" ")) {
			return true
		}
	}
	return false
}
