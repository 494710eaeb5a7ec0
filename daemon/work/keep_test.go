package work

import (
	"errors"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog/record"
)

// TestDiscard discards the sessions of work in each state, at a time after all outcomes.
func TestDiscard(t *testing.T) {
	done := Status{record.Done, Signaled}
	later := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	delivered := func(p *Parent, err error) error {
		_, derr := p.Deliver(func([]Outcome) string { return "results" })
		return errors.Join(err, derr)
	}
	for name, c := range map[string]struct {
		spawn  Spawn
		do     func(p *Parent, i *Item) error
		before time.Time
		want   bool
	}{
		"delivered":          {Spawn{}, func(p *Parent, i *Item) error { return delivered(p, i.End(done, "x")) }, later, true},
		"delivered and late": {Spawn{}, func(p *Parent, i *Item) error { return delivered(p, i.End(done, "x")) }, later.AddDate(-1, 0, 0), false},
		"failed, delivered":  {Spawn{}, func(p *Parent, i *Item) error { return delivered(p, i.End(Status{record.Failed, Exhausted}, "x")) }, later, true},
		"not delivered":      {Spawn{}, func(_ *Parent, i *Item) error { return i.End(done, "x") }, later, false},
		"running":            {Spawn{}, func(*Parent, *Item) error { return nil }, later, false},
		"waits":              {Spawn{Interactive: true}, func(p *Parent, i *Item) error { return delivered(p, i.End(done, "x")) }, later, false},
		"closed": {Spawn{Interactive: true}, func(p *Parent, i *Item) error {
			return delivered(p, errors.Join(delivered(p, i.End(done, "x")), i.End(Status{record.Done, Closed}, "")))
		}, later, true},
		"continued": {Spawn{}, func(p *Parent, i *Item) error {
			return errors.Join(delivered(p, i.End(Status{record.Failed, Exhausted}, "x")), i.Route("on"))
		}, later, false},
	} {
		m := faultfs.NewMem()
		h, _, p := start(t, m)
		c.spawn.Kind, c.spawn.Agent, c.spawn.Task = record.Worker, "crab", "x"
		i, err := p.Spawn(c.spawn)
		must(t, errors.Join(err, begin(i), c.do(p, i)))
		for range 2 { // again after a restart
			got, err := p.Discard(c.before)
			if err != nil || len(got) > 0 != c.want || c.want && got[0] != i.Session {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			if _, err := h.Sessions.Read(i.Session); (err != nil) != c.want {
				t.Errorf("%s: %v", name, err)
			}
			if stop(t, h, p); c.want || name == "running" {
				break
			}
			h, _, p = start(t, m)
		}
	}
}

// TestDiscardCrash cuts the power at each call in a discard. Then the session of delivered
// work exists or is in the trash, and that of other work exists and is delivered.
func TestDiscardCrash(t *testing.T) {
	later := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	m := faultfs.NewMem()
	h, _, p := start(t, m)
	var items [2]*Item
	for n := range items {
		i, err := p.Spawn(Spawn{Kind: record.Worker, Agent: "crab", Task: "x"})
		must(t, errors.Join(err, begin(i), i.End(Status{record.Done, Signaled}, "x")))
		if items[n] = i; n == 0 {
			deliver(t, p)
		}
	}
	states := 0
	kept := faultfs.Kept
	m.Hook = func(faultfs.Call) error {
		all := make([]faultfs.Outcome, len(m.Unsynced()))
		for i := range all {
			all[i] = kept
		}
		for _, crashed := range []*faultfs.Mem{m.Crash(), m.Crash(all...)} {
			states++
			h, _, p := start(t, crashed)
			if _, err := h.Sessions.Read(items[0].Session); err != nil {
				must(t, h.Sessions.Restore(items[0].Session))
			}
			if got := deliver(t, p); !strings.HasPrefix(got, "w2.1 done (outcome): x") || strings.Contains(got, "lost") {
				t.Errorf("call %d: delivered %q", m.Calls(), got)
			}
			stop(t, h, p)
		}
		return nil
	}
	if got, err := p.Discard(later); err != nil || len(got) != 1 || got[0] != items[0].Session {
		t.Errorf("%v, %v", got, err)
	}
	m.Hook = nil
	if stop(t, h, p); states < 10 {
		t.Errorf("%d states", states)
	}
	t.Logf("%d crash states of a discard", states)
}
