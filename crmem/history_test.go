package crmem_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
)

// past is a store with a clock, and the state after each of its changes.
type past struct {
	t    *testing.T
	m    *faultfs.Mem
	s    *crmem.Store
	now  int64
	warn []string
	opts crmem.Options

	segmentLimit int64 // 0: the default
	plain        bool  // compress no segments
}

func newPast(t *testing.T) *past {
	p := &past{t: t, m: faultfs.NewMem(), now: 1_800_000_000}
	p.opts = crmem.Options{CheckpointOnClose: crmem.CheckpointNever, By: crmem.Actor{Client: crmem.ClientCLI}}
	p.m.Now = func() time.Time { return time.Unix(p.now, 0) }
	p.open()
	return p
}

func (p *past) open() {
	p.t.Helper()
	o := p.opts
	o.FS, o.Now, o.Warn = p.m, p.m.Now, func(line string) { p.warn = append(p.warn, line) }
	s, err := crmem.Open("/m.db", &o)
	p.must(err)
	p.s = s
	if p.segmentLimit > 0 {
		crmem.SetSegmentLimit(s, p.segmentLimit)
	}
	if p.plain {
		crmem.KeepPlain(s)
	}
}

func (p *past) reopen() {
	p.t.Helper()
	p.must(p.s.Close())
	p.open()
}

func (p *past) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *past) do(ops ...crmem.Op) {
	p.t.Helper()
	p.now++
	p.must(p.s.Apply(ops...))
}

// stateText describes entries.
func stateText(entries ...crmem.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%d %s %v %d %q %q\n", e.ID, e.Name, e.Kind, e.CreatedAt, e.Content, e.Aliases)
	}
	return b.String()
}

// log returns the changes, a line each.
func (p *past) log() string {
	p.t.Helper()
	var b strings.Builder
	for c, err := range p.s.Changes() {
		if err != nil {
			fmt.Fprintf(&b, "error %v\n", err)
			continue
		}
		name := c.After.Name
		if c.Type == crmem.ChangeRemove {
			name = c.Before.Name
		}
		at := int64(0)
		if !c.Time.IsZero() {
			at = c.Time.Unix() - 1_800_000_000
		}
		fmt.Fprintf(&b, "%d %+d %s %s %s\n", c.Seq, at, c.By.Client, c.Type, name)
	}
	return b.String()
}

func (p *past) wantLog(want string) {
	p.t.Helper()
	if got := p.log(); got != strings.TrimLeft(want, "\n") {
		p.t.Errorf("changes:\n%swant:%s", got, want)
	}
}

func (p *past) files() []string {
	p.t.Helper()
	list, err := p.m.ReadDir("/m.db-history")
	p.must(err)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestChanges lists the changes of a store (H1, H2), and shows earlier states.
func TestChanges(t *testing.T) {
	p := newPast(t)
	p.wantLog("\n")
	p.do(crmem.Add{Name: "deploy", Content: "one"})
	p.do(crmem.Update{Name: "deploy", Content: "two"}, crmem.Add{Name: "other", Content: "x"})
	p.must(p.s.Checkpoint())
	p.do(crmem.By{Client: crmem.ClientMCP, Agent: "crab"}, crmem.Alias{Name: "deploy", Aliases: []string{"ship"}})
	p.do(crmem.Rename{Name: "deploy", To: "release"})
	p.reopen()
	p.do(crmem.Update{Name: "other", Content: "y"}, crmem.Remove{Name: "other"})
	p.must(p.s.Checkpoint())
	sn, err := crmem.NewSnapshot(9, []crmem.Entry{{ID: 1, Name: "release", Content: "loaded", CreatedAt: 7}, {ID: 5, Name: "new", Content: "n"}})
	p.must(err)
	p.must(p.s.Replace(sn))
	p.wantLog(`
1 +1 cli add deploy
2 +2 cli update deploy
3 +2 cli add other
4 +3 mcp alias deploy
6 +4 cli rename release
7 +5 cli update other
8 +5 cli remove other
10 +5 load update release
11 +5 load add new
`)
	if got := p.files(); len(got) != 2 {
		t.Errorf("files %q, want a segment and a base", got)
	}
	if p.s.NextID() != 9 {
		t.Errorf("next ID %d", p.s.NextID())
	}
	p.reopen()
	for point, want := range map[crmem.Point]string{
		{Seq: 1}:                            "1 deploy note 1800000001 \"one\" []\n",
		{Seq: 3}:                            "1 deploy note 1800000001 \"two\" []\n2 other note 1800000002 \"x\" []\n",
		{Seq: 6}:                            "1 release note 1800000001 \"two\" [\"ship\" \"deploy\"]\n2 other note 1800000002 \"x\" []\n",
		{Time: time.Unix(1_800_000_001, 9)}: "1 deploy note 1800000001 \"one\" []\n",
		{Time: time.Unix(1_800_000_004, 0)}: "1 release note 1800000001 \"two\" [\"ship\" \"deploy\"]\n2 other note 1800000002 \"x\" []\n",
		{Time: time.Unix(1_900_000_000, 0)}: "1 release note 7 \"loaded\" []\n5 new note 0 \"n\" []\n",
	} {
		sn, err := p.s.At(point)
		if err != nil {
			t.Errorf("%v: %v", point, err)
			continue
		}
		if got := stateText(slices.Collect(sn.All())...); got != want {
			t.Errorf("%v:\n%swant\n%s", point, got, want)
		}
	}
	for _, point := range []crmem.Point{{Time: time.Unix(1, 0)}, {Seq: 1000}} {
		if _, err := p.s.At(point); !errors.Is(err, crmem.ErrNotFound) {
			t.Errorf("%v: %v", point, err)
		}
	}
}

// TestUndo undoes single changes, and reports conflicts.
func TestUndo(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a", Content: "one", Aliases: []string{"x"}})
	p.do(crmem.Update{Name: "a", Content: "two"})
	p.do(crmem.Remove{Name: "a"})
	p.do(crmem.Add{Name: "b", Content: "b"})
	c, err := p.s.Undo(3)
	p.must(err)
	if c.Type != crmem.ChangeAdd || c.After.Name != "a" || c.After.ID != 1 || c.After.CreatedAt != 1_800_000_001 || c.After.Content != "two" {
		t.Errorf("undo of a remove: %+v", c)
	}
	if _, err := p.s.Undo(1); !errors.Is(err, crmem.ErrStale) {
		t.Errorf("undo of a change before another: %v", err)
	}
	if _, err := p.s.Undo(99); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("undo of a missing change: %v", err)
	}
	if _, err := p.s.Undo(0); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("undo of change 0: %v", err)
	}
	_, err = p.s.Undo(5) // redo the remove
	p.must(err)
	if _, err := p.s.Get("a"); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("after undo of undo: %v", err)
	}
	p.do(crmem.Rename{Name: "b", To: "a"})
	if _, err := p.s.Undo(6); !errors.Is(err, crmem.ErrExists) {
		t.Errorf("undo of a remove whose name is used: %v", err)
	}
	p.do(crmem.Add{Name: "b", Content: "new"})
	if _, err := p.s.Undo(8); !errors.Is(err, crmem.ErrExists) {
		t.Errorf("undo of a rename whose name is used: %v", err)
	}
}

// TestUndoAll undoes random histories from the last change to the first. The result
// is the empty store, and each state on the way equals the state before the change.
func TestUndoAll(t *testing.T) {
	for seed := range uint64(histories()) {
		if !undoAll(t, seed) {
			return
		}
	}
}

// histories returns the number of random histories of a test: CRABMEM_HISTORIES, or
// 300.
func histories() int {
	if n, err := strconv.Atoi(os.Getenv("CRABMEM_HISTORIES")); err == nil {
		return n
	}
	if testing.Short() {
		return 40
	}
	return 100
}

func undoAll(t *testing.T, seed uint64) bool {
	r := rand.New(rand.NewPCG(seed, 1))
	p := newPast(t)
	var states []string // before each batch
	var ends []uint64   // last sequence number of each batch
	last := func() (seq uint64) {
		for c := range p.s.Changes() {
			seq = max(seq, c.Seq)
		}
		return seq
	}
	for range 3 + r.IntN(12) {
		state := stateText(slices.Collect(p.s.All())...)
		p.random(r)
		if seq := last(); len(ends) == 0 && seq > 0 || len(ends) > 0 && seq > ends[len(ends)-1] {
			states, ends = append(states, state), append(ends, seq)
		}
	}
	changes := []crmem.Change{}
	for c, err := range p.s.Changes() {
		p.must(err)
		changes = append(changes, c)
	}
	for i, end := range slices.Backward(ends) {
		for _, c := range slices.Backward(changes) {
			if c.Seq > end || i > 0 && c.Seq <= ends[i-1] {
				continue
			}
			if _, err := p.s.Undo(c.Seq); err != nil {
				t.Errorf("seed %d: undo of %d %s %q: %v", seed, c.Seq, c.Type, c.Before.Name, err)
				return false
			}
		}
		if got := stateText(slices.Collect(p.s.All())...); got != states[i] {
			t.Errorf("seed %d: after undo of batch %d:\n%swant\n%s", seed, i, got, states[i])
			return false
		}
		if r.IntN(3) == 0 {
			p.must(p.s.Checkpoint())
		}
	}
	return true
}

// random executes a random batch, or checkpoints or reopens the store.
func (p *past) random(r *rand.Rand) {
	p.now += r.Int64N(3)
	names := []string{"a", "b", "c", "d"}
	name := func() string { return names[r.IntN(len(names))] }
	switch r.IntN(8) {
	case 0:
		p.must(p.s.Checkpoint())
		return
	case 1:
		p.reopen()
		return
	case 2:
		entries := slices.Collect(p.s.All())
		for i := range entries {
			if r.IntN(2) == 0 {
				entries[i].Content += " loaded"
				entries[i].CreatedAt += crmem.UnixTime(r.IntN(2))
			}
		}
		next := p.s.NextID()
		if _, err := p.s.Get("new"); err != nil {
			entries = append(entries, crmem.Entry{ID: next + 2, Name: "new", Content: fmt.Sprint(r.Uint32())})
			next += 5
		}
		sn, err := crmem.NewSnapshot(next, entries)
		p.must(err)
		p.must(p.s.Replace(sn))
		return
	}
	var ops []crmem.Op
	for range 1 + r.IntN(3) {
		text := fmt.Sprint(r.Uint32())
		ops = append(ops, []crmem.Op{
			crmem.Add{Name: name(), Content: text}, crmem.Add{Name: name(), Content: text, Aliases: []string{"z"}},
			crmem.Update{Name: name(), Content: text}, crmem.Alias{Name: name(), Aliases: []string{text}},
			crmem.Remove{Name: name()}, crmem.Rename{Name: name(), To: name()},
		}[r.IntN(6)])
	}
	_ = p.s.Apply(ops...) // an operation may not apply
}

// TestAtEqualsModel compares At with the states after each batch of random histories.
func TestAtEqualsModel(t *testing.T) {
	for seed := range uint64(histories()) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := newPast(t)
		states := map[uint64]string{}
		times := map[int64]uint64{}
		for range 3 + r.IntN(15) {
			p.random(r)
			seq := uint64(0)
			for c, err := range p.s.Changes() {
				p.must(err)
				seq = max(seq, c.Seq)
			}
			states[seq] = stateText(slices.Collect(p.s.All())...)
			times[p.now] = seq
		}
		for seq, want := range states {
			if seq == 0 {
				continue
			}
			sn, err := p.s.At(crmem.Point{Seq: seq})
			p.must(err)
			if got := stateText(slices.Collect(sn.All())...); got != want {
				t.Fatalf("seed %d, change %d:\n%swant\n%s", seed, seq, got, want)
			}
		}
		for at, seq := range times {
			if seq == 0 {
				continue
			}
			sn, err := p.s.At(crmem.Point{Time: time.Unix(at, 0)})
			p.must(err)
			if got := stateText(slices.Collect(sn.All())...); got != states[seq] {
				t.Fatalf("seed %d, time %d, change %d:\n%swant\n%s", seed, at, seq, got, states[seq])
			}
		}
	}
}
