package crmem_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// changesFrom returns the changes at or after a time, and the state after each.
func (p *past) changesFrom(at time.Time) string {
	p.t.Helper()
	var b strings.Builder
	for c, err := range p.s.Changes() {
		if err != nil && (errors.Is(err, crmem.ErrNotFound) || errors.Is(err, crmem.ErrFormat)) && !at.IsZero() { // an interrupted prune left a segment
			continue
		}
		p.must(err)
		if c.Time.Before(at) {
			continue
		}
		sn, err := p.s.At(crmem.Point{Seq: c.Seq})
		p.must(err)
		fmt.Fprintf(&b, "%d %v %s %s%s", c.Seq, c.Time, c.Type, stateText(c.Before, c.After), stateText(slices.Collect(sn.All())...))
	}
	return b.String()
}

// newSegmented returns a store whose history has many segments, unless seed is a
// multiple of 3.
func newSegmented(t *testing.T, seed uint64) *past {
	p := newPast(t)
	p.segmentLimit = []int64{0, 150, 600}[seed%3]
	p.reopen()
	return p
}

// TestPrune prunes random histories. The changes since the time, and the states after
// them, are the same as before, and older changes are gone.
func TestPrune(t *testing.T) {
	freed, all := 0, 0
	for seed := range uint64(histories()) {
		r := rand.New(rand.NewPCG(seed, 5))
		p := newSegmented(t, seed)
		for range 3 + r.IntN(20) {
			p.random(r)
		}
		limit := time.Unix(1_800_000_000+r.Int64N(p.now-1_800_000_000+2), 0)
		for range 2 {
			want := p.changesFrom(limit)
			state := stateText(slices.Collect(p.s.All())...)
			n, err := p.s.Prune(limit)
			p.must(err)
			if n > 0 {
				freed++
			}
			if got := p.changesFrom(time.Time{}); got != want {
				t.Fatalf("seed %d: changes after the prune\n%s\nwant\n%s", seed, got, want)
			}
			if want == "" {
				all++
			}
			if got := stateText(slices.Collect(p.s.All())...); got != state {
				t.Fatalf("seed %d: state\n%s\nwant\n%s", seed, got, state)
			}
			for range r.IntN(4) {
				p.random(r)
			}
			limit = time.Unix(limit.Unix()+r.Int64N(5), 0)
		}
	}
	if freed < histories()/2 || all < histories()/20 {
		t.Errorf("%d prunes freed bytes, %d removed every change", freed, all)
	}
}

// TestPruneFiles checks which files remain, and that the next changes continue the
// history.
func TestPruneFiles(t *testing.T) {
	p := newPast(t)
	p.do(crmem.Add{Name: "a", Content: "one"})
	p.do(crmem.Update{Name: "a", Content: "two"})
	p.do(crmem.Add{Name: "b"})
	if _, err := p.s.Prune(time.Unix(p.now, 0)); err != nil {
		t.Fatal(err)
	}
	p.wantLog("3 +3 cli add b\n")
	if got := p.files(); len(got) != 2 || got[0] != "00000001.log" {
		t.Errorf("files %q", got)
	}
	if sn, err := p.s.At(crmem.Point{Seq: 2}); err != nil || stateText(slices.Collect(sn.All())...) != "1 a note 1800000001 \"two\" []\n" {
		t.Errorf("state before the first change: %v", err)
	}
	p.do(crmem.Remove{Name: "a"})
	p.must(p.s.Checkpoint())
	p.wantLog("3 +3 cli add b\n4 +4 cli remove a\n")
	if _, err := p.s.Prune(time.Unix(p.now+1, 0)); err != nil {
		t.Fatal(err)
	}
	if got := p.files(); len(got) != 0 {
		t.Errorf("files %q after all changes were pruned", got)
	}
	p.do(crmem.Add{Name: "c"})
	p.reopen()
	p.must(p.s.Checkpoint())
	p.wantLog("5 +5 cli add c\n")
}

// TestPruneInterrupted fails a call of a prune, or all calls from there on, and kills the
// process. Every later change remains, and the history is valid: it only may begin
// earlier. A second prune removes the same changes.
func TestPruneInterrupted(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for k := range 4 {
		stays, ever := int64(k&1*3), k&2 != 0
		for fail := 1 + k%every(12); ; fail += every(12) {
			p := newPast(t)
			p.segmentLimit = 1
			p.reopen()
			for i := range 12 {
				p.do(crmem.Add{Name: fmt.Sprint("entry ", i), Content: strings.Repeat("text ", i)})
				p.must(p.s.Checkpoint())
			}
			all := p.changesFrom(time.Time{})
			limit := time.Unix(p.now-stays+1, 0)
			want := p.changesFrom(limit)
			calls, listings, op := 0, 0, ""
			p.m.Hook = func(c faultfs.Call) error {
				if c.Op == "readdir" {
					listings++
				}
				if calls++; calls == fail || calls > fail && ever {
					if op = c.Op; listings == 1 {
						op = "" // the first listing only detects concurrent changes
					}
					return errors.New("failed")
				}
				return nil
			}
			_, err := p.s.Prune(limit)
			p.m.Hook = nil
			if err != nil && calls < fail || err == nil && calls >= fail && (ever || op == "readdir") {
				t.Fatalf("call %d of %d fails: %v", fail, calls, err)
			}
			p.m = p.m.Kill()
			p.open()
			got := p.changesFrom(time.Time{})
			if !strings.HasSuffix(got, want) || !strings.HasSuffix(all, got) || err == nil && got != want {
				t.Fatalf("call %d fails, %v: changes\n%s\nwant those from %v on:\n%s", fail, err, got, limit, want)
			}
			if r, err := crmem.Check(p.m, "/m.db", 0); err != nil || len(r.Problems) > 0 {
				t.Errorf("call %d fails: check: %v, %+v", fail, err, r)
			}
			if _, err := p.s.Prune(limit); err != nil || p.changesFrom(time.Time{}) != want {
				t.Errorf("call %d fails: second prune: %v; changes\n%s", fail, err, p.changesFrom(time.Time{}))
			}
			for _, name := range p.files() {
				if stays == 0 && !strings.HasPrefix(name, ".") { // the next segment removes temporary files
					t.Errorf("call %d fails: file %s after the second prune", fail, name)
				}
			}
			if calls < fail {
				break
			}
		}
	}
}
