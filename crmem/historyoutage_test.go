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

// outages are faults of the directory of a history: the calls that fail.
var outages = map[string][]string{
	"all":      nil,
	"list":     {"readdir"},
	"look up":  {"lstat", "stat"},
	"read":     {"open", "read"},
	"create":   {"create", "mkdir", "link", "rename"},
	"write":    {"write"},
	"sync":     {"sync", "datasync", "syncdir"},
	"sync dir": {"syncdir"},
}

// TestHistoryOutage makes random changes, checkpoints, stops, and power cuts while
// calls on the history fail. When they succeed again, the history has every change,
// and the store is valid (H8). CRABMEM_OUTAGES is the number of runs.
func TestHistoryOutage(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	runs := 150
	if n, err := strconv.Atoi(os.Getenv("CRABMEM_OUTAGES")); err == nil {
		runs = n
	}
	names := []string{}
	for name := range outages {
		names = append(names, name)
	}
	slices.Sort(names)
	refused, changes := 0, 0
	for seed := range runs {
		p := newPast(t)
		p.segmentLimit = 600
		p.reopen()
		random := rand.New(rand.NewPCG(uint64(seed), 17))
		fails := false // calls on the history
		var kind []string
		var disk error
		odds := 1
		hook := func(c faultfs.Call) error {
			if fails && strings.HasPrefix(c.Name, "/m.db-history") && (kind == nil || slices.Contains(kind, c.Op)) && random.IntN(odds) == 0 {
				return disk
			}
			return nil
		}
		p.m.Hook = hook
		want := []string{}
		for step := range 40 {
			switch random.IntN(8) {
			case 0:
				fails = random.IntN(3) > 0
				kind = outages[names[random.IntN(len(names))]]
				disk = []error{syscall.EIO, syscall.EACCES, syscall.ENOSPC, syscall.EROFS}[random.IntN(4)]
				odds = 1 + random.IntN(3)
			case 1:
				p.reopen()
			case 2:
				p.m = p.m.Crash()
				p.m.Now = func() time.Time { return time.Unix(p.now, 0) }
				p.m.Hook = hook
				p.open()
			case 3, 4:
				err := p.s.Checkpoint()
				if err != nil {
					refused++
				}
				if err != nil && (!fails || !errors.Is(err, crmem.ErrNotApplied)) {
					t.Fatalf("seed %d: checkpoint: %v", seed, err)
				}
			default:
				name := fmt.Sprint("entry ", step)
				p.do(crmem.Add{Name: name, Content: strings.Repeat("x", random.IntN(200))})
				want = append(want, name)
			}
		}
		fails = false
		p.must(p.s.Checkpoint())
		p.reopen()
		var got []string
		for c, err := range p.s.Changes() {
			if err != nil || c.Seq != uint64(len(got)+1) {
				t.Fatalf("seed %d: change %d after %d: %v", seed, c.Seq, len(got), err)
			}
			got = append(got, c.After.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: changes %q, want %q", seed, got, want)
		}
		r, err := crmem.Check(p.m, "/m.db", 0)
		p.must(err)
		if r.Err() != nil {
			t.Errorf("seed %d: %v", seed, r.Err())
		}
		changes += len(want)
	}
	t.Logf("%d runs, %d changes, %d checkpoints refused", runs, changes, refused)
	if refused < runs/2 {
		t.Errorf("only %d checkpoints were refused", refused)
	}
}
