package crmem_test

import (
	"math/rand/v2"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
)

// TestPurgeReaders interleaves the calls of a purge with those of a reader at random. The reader finds all changes of other entries, a state at an earlier point, and
// a valid store, at each moment of the purge.
func TestPurgeReaders(t *testing.T) {
	during := 0
	for seed := range max(12, histories()/5) {
		random := rand.New(rand.NewPCG(uint64(seed), 21))
		p := purgeable(t, seed)
		name := ""
		for e := range p.s.All() {
			if e.ID == 1 {
				name = e.Name
			}
		}
		others := p.otherChanges(1)
		r := p.reader(p.m)
		pace := 1 << random.IntN(7)                // calls of the reader for a call of the purge, on average
		purges, done := false, make(chan error, 1) // whether the purge may make calls; its result
		stop, resume := make(chan struct{}), make(chan struct{})
		ended := false
		p.m.Hook = func(faultfs.Call) error {
			if purges {
				stop <- struct{}{}
				<-resume
				return nil
			}
			if ended || random.IntN(pace) > 0 {
				return nil
			}
			purges = true
			resume <- struct{}{}
			select {
			case <-stop:
			case err := <-done:
				p.must(err)
				ended = true
			}
			purges = false
			return nil
		}
		go func() {
			<-resume
			_, err := p.s.Purge(name)
			done <- err
		}()
		for reads := 0; !ended; reads++ {
			if got := r.otherChanges(1); got != others {
				t.Errorf("seed %d, read %d: changes\n%s\nwant\n%s", seed, reads, got, others)
			}
			if _, err := r.s.At(crmem.Point{Seq: 3}); err != nil {
				t.Errorf("seed %d, read %d: change 3: %v", seed, reads, err)
			}
			if report, err := crmem.Check(p.m, "/m.db", 0); err != nil || report.Err() != nil {
				t.Errorf("seed %d, read %d: check: %v, %v", seed, reads, err, report.Err())
			}
			during++
		}
		p.m.Hook = nil
		p.wantUnfinished("after the purge", p.m, others, 1)
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d reads during purges", during)
	if during < 24 {
		t.Error("too few reads")
	}
}
