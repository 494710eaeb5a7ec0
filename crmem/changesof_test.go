package crmem_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// randomNames are the names of the entries of random histories, an alias, and a name that no
// entry has.
var randomNames = []string{"a", "b", "c", "d", "new", "z", "missing"}

// changeText describes a change with both states.
func changeText(c crmem.Change, err error) string {
	if err != nil {
		return fmt.Sprintf("error %v\n", err)
	}
	return fmt.Sprintf("%d %v %v %v\n  %s  %s", c.Seq, c.Time, c.By, c.Type, stateText(c.Before), stateText(c.After))
}

// filtered returns the changes of the entries that have or had a name, from all
// changes of the store.
func (p *past) filtered(name string) string {
	ids := map[uint64]bool{}
	if e, err := p.s.Get(name); err == nil {
		ids[e.ID] = true
	}
	for c := range p.s.Changes() {
		if c.Before.ID != 0 && c.Before.Name == name || c.After.ID != 0 && c.After.Name == name {
			ids[c.Entry().ID] = true
		}
	}
	var b strings.Builder
	for c, err := range p.s.Changes() {
		if err != nil || ids[c.Entry().ID] {
			b.WriteString(changeText(c, err))
		}
	}
	return b.String()
}

func (p *past) changesOf(name string) string {
	var b strings.Builder
	for c, err := range p.s.ChangesOf(name) {
		b.WriteString(changeText(c, err))
	}
	return b.String()
}

// ofAll returns the result of of for each name.
func ofAll(of func(name string) string) (list []string) {
	for _, name := range randomNames {
		list = append(list, of(name))
	}
	return list
}

// compareIDs compares ChangesOfID with the changes of the store.
func (p *past) compareIDs(what string) {
	p.t.Helper()
	for id := range p.s.NextID() + 1 {
		got, want := "", ""
		for c, err := range p.s.ChangesOfID(id) {
			got += changeText(c, err)
		}
		for c, err := range p.s.Changes() {
			if err != nil || c.Entry().ID == id {
				want += changeText(c, err)
			}
		}
		if got != want {
			p.t.Fatalf("%s: changes of entry %d:\n%swant\n%sfiles %q", what, id, got, want, p.files())
		}
	}
}

// compare compares ChangesOf with the changes of the store. It returns how many names
// needed no read of the complete history.
func (p *past) compare(what string) (indexed int) {
	p.t.Helper()
	for i, want := range ofAll(p.filtered) {
		if got := p.changesOf(randomNames[i]); got != want {
			p.t.Fatalf("%s: changes of %s:\n%swant\n%sfiles %q", what, randomNames[i], got, want, p.files())
		}
		if len(p.history(".idx")) > 0 && crmem.IndexedChanges(p.s, randomNames[i]) {
			indexed++
		}
	}
	return indexed
}

// history returns the paths of the files of the history with a suffix.
func (p *past) history(suffix string) (list []string) {
	if _, err := p.m.Lstat("/m.db-history"); err != nil {
		return nil
	}
	for _, name := range p.files() {
		if strings.HasSuffix(name, suffix) {
			list = append(list, filepath.Join("/m.db-history", name))
		}
	}
	return list
}

// TestChangesOf compares ChangesOf with Changes in random histories of many segments,
// in which files are damaged and another program writes the snapshot.
func TestChangesOf(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	synctest.Test(t, testChangesOf)
}

func testChangesOf(t *testing.T) {
	indexed, total := 0, 0
	for seed := range uint64(histories()+9) / 10 {
		r := rand.New(rand.NewPCG(seed, 3))
		p := newPast(t)
		p.segmentLimit = 200 + r.Int64N(1000)
		if seed%3 == 1 { // begins with a base that has entries
			p.opts.History = crmem.HistoryOff
			p.reopen()
			p.randomSteps(r, 6)
			p.opts.History = crmem.HistoryOn
		}
		p.reopen()
		for range 2 + r.IntN(6) {
			p.randomSteps(r, 2+r.IntN(20))
			total += len(randomNames)
			indexed += p.compare(fmt.Sprintf("seed %d", seed))
			for i := 0; i < 3 && seed%2 == 0; i++ {
				what := p.disturb(r)
				p.compare(fmt.Sprintf("seed %d, %s", seed, what))
			}
		}
		if r.IntN(2) == 0 {
			p.must(p.s.Close())
			p.opts.ReadOnly = true
			p.open()
		}
		if seed%4 == 0 {
			p.compareIDs(fmt.Sprintf("seed %d", seed))
		}
		if p.history("") != nil {
			p.must(crmem.RemoveIndexes(p.m, "/m.db-history"))
			if list := p.history(".idx"); list != nil {
				t.Fatalf("change indexes remain: %q", list)
			}
		}
		p.compare(fmt.Sprintf("seed %d, without indexes", seed))
	}
	t.Logf("%d of %d names used the indexes", indexed, total)
	if indexed < total/4 || indexed == total {
		t.Errorf("%d of %d names used the indexes", indexed, total)
	}
}

// randomSteps executes random batches, with a clock that is sometimes set back.
func (p *past) randomSteps(r *rand.Rand, n int) {
	p.t.Helper()
	for range n {
		if r.IntN(4) == 0 {
			p.now -= r.Int64N(20)
		}
		switch r.IntN(6) {
		case 0:
			p.must(p.s.Checkpoint())
		case 1: // a fold without a checkpoint: the next segment overlaps with the newest
			p.m.Hook = func(c faultfs.Call) error {
				if c.Op == "create" && strings.HasPrefix(c.Name, "/.m.db") && !strings.HasPrefix(c.Name, "/.m.db-") {
					return syscall.ENOSPC
				}
				return nil
			}
			_ = p.s.Checkpoint()
			p.m.Hook = nil
		case 2:
			x, y := randomNames[r.IntN(2)], randomNames[2+r.IntN(2)]
			_ = p.s.Apply(crmem.Remove{Name: x})
			_ = p.s.Apply(crmem.Add{Name: x, Content: "short"}, crmem.Remove{Name: x}, crmem.Alias{Name: y, Aliases: []string{fmt.Sprint(r.Uint32())}})
		default:
			p.random(r)
		}
	}
}

// disturb damages a file of the history, or does what another program may do. It
// returns what it did.
func (p *past) disturb(r *rand.Rand) string {
	p.t.Helper()
	kind := []string{".idx", ".idx", ".log", ".zst", ".crmem"}[r.IntN(5)]
	list := p.history(kind)
	if len(list) == 0 {
		return "nothing"
	}
	name := list[r.IntN(len(list))]
	b := p.copyFiles()[name]
	at := r.IntN(len(b))
	if kind == ".idx" {
		at = at/4096*4096 + r.IntN(80) // most blocks contain few records
	}
	flipped := b[:at] + string(b[at]^byte(1+r.IntN(255))) + b[at+1:]
	what := r.IntN(20)
	switch {
	case what == 0:
		p.must(p.m.Remove(name))
	case what == 1:
		p.put(name, b[:at])
	case what == 2:
		p.put(name, b+"x")
	case what == 3:
		p.put(name, p.copyFiles()[list[r.IntN(len(list))]]) // the file of another segment
	case what == 4:
		p.must(p.s.NewIdentity())
	case what == 5:
		p.writeSnapshot(r)
	case kind == ".log" || kind == ".zst":
		p.flipSegment(name, b, flipped)
	default:
		p.put(name, flipped)
		p.compare("changed byte")
		p.put(name, b)
	}
	return fmt.Sprintf("disturbance %d of %s at %d", what, name, at)
}

// writeSnapshot replaces the snapshot, as another program does.
func (p *past) writeSnapshot(r *rand.Rand) {
	p.t.Helper()
	p.must(p.s.Checkpoint())
	next := p.s.NextID()
	entries := slices.Collect(p.s.All())
	p.must(p.s.Close())
	if len(entries) > 0 {
		entries[0].Content = "other program"
		entries = slices.Delete(entries, len(entries)-1, len(entries))
	}
	sn, err := crmem.NewSnapshot(next, entries)
	p.must(err)
	b, err := sn.AppendBinary(nil)
	p.must(err)
	p.put("/m.db", string(b))
	p.opts.ReadOnly = true
	p.open()
	p.compare("snapshot of another program")
	p.must(p.s.Close())
	p.opts.ReadOnly = false
	p.open()
}

// flipSegment changes a byte of a segment. Without indexes ChangesOf must return what
// Changes returns. With indexes it may also return the changes before the damage.
func (p *past) flipSegment(name, b, flipped string) {
	p.t.Helper()
	before := ofAll(p.changesOf)
	p.put(name, flipped)
	for i, now := range ofAll(p.changesOf) {
		if want := p.filtered(randomNames[i]); now != want && now != before[i] {
			p.t.Fatalf("changes of %s in a corrupt segment %s:\n%swant\n%sor\n%s", randomNames[i], name, now, want, before[i])
		}
	}
	p.must(crmem.RemoveIndexes(p.m, "/m.db-history"))
	p.compare("corrupt segment without indexes")
	p.put(name, b)
}
