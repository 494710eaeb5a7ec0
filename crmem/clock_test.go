package crmem_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// clocked is a change with the time of the clock that its writer had.
type clocked struct {
	own, effective int64
	state          string // of the store after it
}

// setEffective computes the effective times of changes by their definition.
func setEffective(list []clocked) {
	for i := range list {
		list[i].effective = list[i].own
		for _, later := range list[i:] {
			list[i].effective = min(list[i].effective, later.own)
		}
	}
}

// TestRandomClocks makes changes with a clock that jumps, and compares the times of
// changes, states at random times, and prunes with the definition of H11.
// CRABMEM_CLOCKS is the number of runs.
func TestRandomClocks(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	runs := 60
	if n, err := strconv.Atoi(os.Getenv("CRABMEM_CLOCKS")); err == nil {
		runs = n
	}
	for seed := range runs {
		random := rand.New(rand.NewPCG(uint64(seed), 11))
		p := newPast(t)
		p.segmentLimit = int64(200 + random.IntN(800))
		p.reopen()
		var made []clocked
		for range 5 + random.IntN(30) {
			switch random.IntN(6) {
			case 0:
				p.now = 1_700_000_000 + random.Int64N(1000) // a clock of another year
			case 1:
				p.now += random.Int64N(200) - 100
			}
			p.do(crmem.Add{Name: fmt.Sprint("entry ", len(made))})
			made = append(made, clocked{own: p.now, state: stateText(slices.Collect(p.s.All())...)})
			switch random.IntN(4) {
			case 0:
				p.must(p.s.Checkpoint())
			case 1:
				p.reopen()
			}
		}
		setEffective(made)
		p.checkClocks(seed, random, made, 0)
		bound := made[random.IntN(len(made))].effective + random.Int64N(3) - 1
		_, err := p.s.Prune(time.Unix(bound, 0))
		p.must(err)
		kept := slices.IndexFunc(made, func(c clocked) bool { return c.effective >= bound })
		if kept < 0 {
			kept = len(made)
		}
		p.checkClocks(seed, random, made, kept)
		p.now = made[len(made)-1].effective + random.Int64N(300) - 150
		p.do(crmem.Add{Name: "last"})
		made = append(made, clocked{own: p.now, state: stateText(slices.Collect(p.s.All())...)})
		setEffective(made)
		p.checkClocks(seed, random, made, kept)
	}
}

// checkClocks compares the history with the changes made, of which the first ones were
// pruned.
func (p *past) checkClocks(seed int, random *rand.Rand, made []clocked, pruned int) {
	p.t.Helper()
	want := ""
	for i, c := range made[pruned:] {
		want += fmt.Sprintln(pruned+i+1, c.effective)
	}
	got := ""
	for c, err := range p.s.Changes() {
		p.must(err)
		got += fmt.Sprintln(c.Seq, c.Time.Unix())
	}
	if got != want {
		p.t.Fatalf("seed %d: changes\n%swant\n%s", seed, got, want)
	}
	for range 5 {
		i := random.IntN(len(made))
		line := fmt.Sprintln(i+1, made[i].effective)
		if i < pruned {
			line = ""
		}
		got := ""
		for c, err := range p.s.ChangesOf(fmt.Sprint("entry ", i)) {
			p.must(err)
			got += fmt.Sprintln(c.Seq, c.Time.Unix())
		}
		if got != line && made[i].state != made[len(made)-1].state { // the last one may have another name
			p.t.Fatalf("seed %d: changes of entry %d: %q, want %q", seed, i, got, line)
		}
	}
	for range 10 {
		at := made[random.IntN(len(made))].effective + random.Int64N(3) - 1
		n := 0
		for n < len(made) && made[n].effective <= at {
			n++
		}
		sn, err := p.s.At(crmem.Point{Time: time.Unix(at, 0)})
		switch {
		case n < pruned || n == pruned && err != nil:
			if !errors.Is(err, crmem.ErrNotFound) {
				p.t.Fatalf("seed %d: at %d, before the first change: %v", seed, at, err)
			}
		case err != nil:
			p.t.Fatalf("seed %d: at %d: %v", seed, at, err)
		case n > 0 && stateText(slices.Collect(sn.All())...) != made[n-1].state:
			p.t.Fatalf("seed %d: at %d: %d entries, want %d", seed, at, sn.Len(), strings.Count(made[n-1].state, "\n"))
		}
	}
}

// TestClockAhead makes one change with a clock of another year. The changes after it
// have their own times, the present state is found, and a prune removes the change.
func TestClockAhead(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a"})
	p.now += 4 * 365 * 86400
	p.do(crmem.Add{Name: "ahead"})
	p.must(p.s.Checkpoint())
	p.now -= 4 * 365 * 86400
	p.do(crmem.Add{Name: "b"})
	p.wantLog("\n1 +1 cli add a\n2 +3 cli add ahead\n3 +3 cli add b\n")
	p.must(p.s.Checkpoint())
	p.wantLog("\n1 +1 cli add a\n2 +3 cli add ahead\n3 +3 cli add b\n")
	sn, err := p.s.At(crmem.Point{Time: time.Unix(p.now, 0)})
	p.must(err)
	if sn.Len() != 3 {
		t.Errorf("%d entries now, want 3", sn.Len())
	}
	p.do(crmem.Add{Name: "c"})
	p.must(p.s.Checkpoint())
	if _, err := p.s.Prune(time.Unix(p.now, 0)); err != nil {
		t.Error(err)
	}
	p.wantLog("\n4 +4 cli add c\n")
}

// TestLimitWithClockAhead limits a history whose first change has a clock of another
// year. The limit removes it when the effective time exceeds 1.25 times the limit.
func TestLimitWithClockAhead(t *testing.T) {
	p := newPast(t)
	p.opts.HistoryLimit = time.Hour
	p.reopen()
	p.now += 365 * 86400
	p.do(crmem.Add{Name: "ahead"})
	p.must(p.s.Checkpoint())
	p.now -= 365 * 86400
	p.do(crmem.Add{Name: "a"})
	p.must(p.s.Checkpoint())
	p.now += 4400
	p.do(crmem.Add{Name: "b"})
	p.must(p.s.Checkpoint())
	p.wantLog("\n1 +2 cli add ahead\n2 +2 cli add a\n3 +4403 cli add b\n")
	p.now += 200
	p.do(crmem.Add{Name: "c"})
	p.must(p.s.Checkpoint())
	p.wantLog("\n3 +4403 cli add b\n4 +4604 cli add c\n")
}

// TestPurgeWithClockBehind completes a purge with a clock of an earlier year, as a
// machine without a clock of its own does before it has the time. The other changes
// keep their times.
func TestPurgeWithClockBehind(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a"})
	p.do(crmem.Add{Name: "b"})
	full := false
	p.m.Hook = func(c faultfs.Call) error {
		if full && c.Op == "write" && strings.Contains(c.Name, "-purge") {
			return syscall.ENOSPC
		}
		return nil
	}
	full = true
	if _, err := p.s.Purge("a"); err == nil {
		t.Fatal("the purge has no error")
	}
	p.do(crmem.Add{Name: "c"})
	full, p.now = false, 1
	p.reopen()
	if pending, err := crmem.PurgePending(p.m, "/m.db", 0); err != nil || pending {
		t.Fatalf("pending %v, %v", pending, err)
	}
	p.wantLog("\n2 +2 cli add b\n4 +3 cli add c\n")
	p.must(p.s.Checkpoint())
	p.wantLog("\n2 +2 cli add b\n4 +3 cli add c\n")
}
