package crmem_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

func (p *past) at() time.Time { return time.Unix(p.now, 0) }

// TestHistoryLimit does the same random operations in a store with a limited history
// and in one without a limit (H13). The limited history is the end of the other one:
// it has every change that is younger than the limit and, after a checkpoint, no
// change that is older than the limit and a quarter.
func TestHistoryLimit(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	pruned, all := 0, 0
	for seed := range uint64(histories() / 4) {
		draw := rand.New(rand.NewPCG(seed, 11))
		limit := time.Duration(4+draw.IntN(40)) * time.Second
		limited, other := newSegmented(t, seed), newSegmented(t, seed)
		limited.opts.HistoryLimit = limit
		limited.reopen()
		rl, ro := rand.New(rand.NewPCG(seed, 12)), rand.New(rand.NewPCG(seed, 12))
		for range 5 + draw.IntN(25) {
			step := draw.Int64N(6)
			if draw.IntN(8) == 0 {
				step = draw.Int64N(60)
			}
			limited.now += step
			other.now += step
			limited.random(rl)
			other.random(ro)
			bound := time.Time{}
			if draw.IntN(3) == 0 {
				limited.must(limited.s.Checkpoint())
				other.must(other.s.Checkpoint())
				bound = limited.at().Add(-limit - limit/4)
			}
			got := limited.changesFrom(time.Time{})
			if want := other.changesFrom(limited.at().Add(-limit)); !strings.HasSuffix(got, want) {
				t.Fatalf("seed %d: changes\n%s\nlack some of\n%s", seed, got, want)
			}
			if most := other.changesFrom(bound); !strings.HasSuffix(most, got) {
				t.Fatalf("seed %d: changes\n%s\nare more than\n%s", seed, got, most)
			}
			if got == "" {
				all++
			}
			if got != other.changesFrom(time.Time{}) {
				pruned++
			}
			if a, b := stateText(slices.Collect(limited.s.All())...), stateText(slices.Collect(other.s.All())...); a != b {
				t.Fatalf("seed %d: state\n%s\nwant\n%s", seed, a, b)
			}
			if n, most := len(limited.history("")), len(other.history(""))+1; n > most { // a base
				t.Fatalf("seed %d: %d files, without a limit %d", seed, n, most)
			}
		}
		report, err := crmem.Check(limited.m, "/m.db", 0)
		if err == nil && len(report.Problems) > 0 || len(limited.warn) > 0 {
			t.Fatalf("seed %d: %+v %v, warnings %q", seed, report, err, limited.warn)
		}
	}
	if pruned < histories()/2 || all < histories()/40 {
		t.Errorf("%d shorter histories, %d of them empty", pruned, all)
	}
}

// TestHistoryLimitFiles bounds the number of files of a limited history.
func TestHistoryLimitFiles(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	p := newPast(t)
	p.segmentLimit = 150
	p.opts.HistoryLimit = 20 * time.Second
	p.reopen()
	p.do(crmem.Add{Name: "a", Content: strings.Repeat("x", 150)})
	const most = 27 // changes, each with a segment, an index, and every eighth a base
	for range 300 {
		p.do(crmem.Alias{Name: "a", Aliases: []string{fmt.Sprint(p.now)}})
		p.must(p.s.Checkpoint())
		if n := len(p.files()); n > 2*most+most/8+3 {
			t.Fatalf("%d files", n)
		}
	}
}

// limitedStore returns a store with several segments of changes, of which all before
// cutoff are older than the limit. The next checkpoint only prunes.
func limitedStore(t *testing.T) (p *past, cutoff time.Time) {
	p = newPast(t)
	p.segmentLimit = 300
	p.opts.HistoryLimit = 100 * time.Second
	p.reopen()
	for i := range 12 {
		p.now += 10
		p.do(crmem.Add{Name: fmt.Sprintf("n%d", i), Content: strings.Repeat("x", 90)})
		p.must(p.s.Checkpoint())
	}
	p.now += 60
	return p, p.at().Add(-p.opts.HistoryLimit)
}

// TestHistoryLimitCrashes stops the machine before each call of an automatic prune.
// The history is valid then, has every change that is young enough, and the next
// checkpoint completes the prune.
func TestHistoryLimitCrashes(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	p, cutoff := limitedStore(t)
	state, young, all := stateText(slices.Collect(p.s.All())...), p.changesFrom(cutoff), p.changesFrom(time.Time{})
	var machines []*faultfs.Mem
	p.m.Hook = func(faultfs.Call) error {
		machines = append(machines, p.m.Kill(), p.m.Crash())
		return nil
	}
	p.must(p.s.Checkpoint())
	p.m.Hook = nil
	if got := p.changesFrom(time.Time{}); got != young {
		t.Fatalf("changes\n%s\nwant\n%s", got, young)
	}
	pruned := 0
	for i, m := range machines {
		c := *p
		c.m, c.warn = m, nil
		c.m.Now = c.at
		report, err := crmem.Check(c.m, "/m.db", 0)
		if err != nil || len(report.Problems) > 0 {
			t.Fatalf("crash %d: %+v %v", i, report, err)
		}
		c.open()
		switch c.changesFrom(time.Time{}) {
		case young:
			pruned++
		case all:
		default:
			t.Fatalf("crash %d: changes\n%s\nwant those before or after the prune", i, c.changesFrom(time.Time{}))
		}
		got := c.changesFrom(cutoff)
		if got != young {
			t.Fatalf("crash %d: changes\n%s\nlack some of\n%s", i, got, young)
		}
		if s := stateText(slices.Collect(c.s.All())...); s != state {
			t.Fatalf("crash %d: state\n%s", i, s)
		}
		c.must(c.s.Checkpoint())
		report, err = crmem.Check(c.m, "/m.db", 0)
		if got := c.changesFrom(time.Time{}); got != young || len(c.warn) > 0 || err != nil || len(report.Problems) > 0 {
			t.Fatalf("crash %d: changes after the next checkpoint\n%s\nwarnings %q", i, got, c.warn)
		}
	}
	if len(machines) < 40 || pruned < 5 || len(machines)-pruned < 5 {
		t.Errorf("%d crashes, %d after the commit point of the prune", len(machines), pruned)
	}
}

// TestHistoryLimitFails fails each call of an automatic prune. The checkpoint
// succeeds, the store stays writable and reports the error, and the next checkpoint
// completes the prune.
func TestHistoryLimitFails(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	base, cutoff := limitedStore(t)
	for fail, warned := 1, 0; ; fail++ {
		p := *base
		p.m = base.m.Kill()
		p.m.Now = p.at
		p.open()
		young, calls := p.changesFrom(cutoff), 0
		p.warn = nil
		p.m.Hook = func(faultfs.Call) error {
			if calls++; calls == fail {
				return []error{syscall.EIO, syscall.ENOSPC}[fail%2]
			}
			return nil
		}
		err := p.s.Checkpoint()
		p.m.Hook = nil
		if calls < fail {
			if warned < 10 {
				t.Errorf("%d of %d errors were reported", warned, fail)
			}
			return
		}
		if err != nil {
			t.Fatalf("call %d: %v", fail, err)
		}
		if len(p.warn) > 0 {
			warned++
			if !strings.HasPrefix(p.warn[0], "remove changes older than 1m40s: ") {
				t.Errorf("call %d: warnings %q", fail, p.warn)
			}
		}
		if got := p.changesFrom(cutoff); got != young {
			t.Fatalf("call %d: changes\n%s\nlack some of\n%s", fail, got, young)
		}
		p.must(p.s.Apply(crmem.Add{Name: "later", Content: "y"}))
		p.must(p.s.Checkpoint())
		if got := p.changesFrom(time.Time{}); !strings.HasPrefix(got, young) || strings.Count(got, "cli") > strings.Count(young, "cli")+1 {
			t.Fatalf("call %d: changes after the next checkpoint\n%s\nwant\n%s", fail, got, young)
		}
	}
}

// TestPruneWaits prunes old changes while a checkpoint is between its fold and its new
// log. The prune waits, so that it does not remove the operations of that fold.
func TestPruneWaits(t *testing.T) {
	p := newPast(t)
	p.opts.HistoryLimit = 100 * time.Second
	p.reopen()
	p.do(crmem.Add{Name: "old", Content: "x"})
	p.must(p.s.Checkpoint())
	p.now += 200
	p.do(crmem.Add{Name: "new", Content: "x"})
	done := make(chan struct{})
	p.m.Hook = func(c faultfs.Call) error {
		if c.Op == "create" && strings.HasPrefix(c.Name, "/.m.db") {
			p.m.Hook = nil
			go func() { crmem.LimitHistory(p.s); close(done) }()
			select {
			case <-done:
			case <-time.After(50 * time.Millisecond): // more is of no use: the prune waits
			}
		}
		return nil
	}
	p.must(p.s.Checkpoint())
	<-done
	p.wantLog("2 +202 cli add new\n")
}
