package crmem

import (
	"runtime"
	"testing"
)

// TestGatherLetsCallersStage runs gather on one processor, while another
// goroutine is ready to stage. gather yields to it before it returns. The
// scheduler may order a few rounds differently.
func TestGatherLetsCallersStage(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := New(nil)
	const rounds = 100
	joined := 0
	for range rounds {
		g := &group{callers: 1}
		s.crowd, s.staging = 2, g
		done := make(chan struct{})
		go func() {
			s.wmu.Lock()
			g.callers++
			s.wmu.Unlock()
			close(done)
		}()
		s.gather()
		s.wmu.Lock()
		if g.callers == 2 {
			joined++
		}
		s.wmu.Unlock()
		<-done
	}
	if joined < rounds/2 {
		t.Errorf("another caller staged in %d of %d rounds", joined, rounds)
	}
}
