package wire

import "testing"

// TestConnectionStaysOpen checks that an evicted connection is used again for a request that
// it has received, but not during a shutdown.
func TestConnectionStaysOpen(t *testing.T) {
	s := &Server{conns: map[*served]bool{}}
	for _, state := range []uint32{idle, busy} {
		c := &served{s: s}
		if c.state.Store(state); c.stay() || len(s.conns) != 0 {
			t.Errorf("a connection in state %d was taken back", state)
		}
	}
	c := &served{s: s}
	c.state.Store(evicted)
	if !c.stay() || c.state.Load() != busy || !s.conns[c] {
		t.Errorf("an evicted connection is in state %d", c.state.Load())
	}
	if c.stay() {
		t.Error("the connection was taken back twice")
	}
	s.draining.Store(true)
	late := &served{s: s}
	if late.state.Store(evicted); late.stay() || s.conns[late] {
		t.Error("a connection was taken back during a shutdown")
	}
}
