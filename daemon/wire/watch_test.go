package wire

import (
	"io"
	"testing"
)

// TestWatchLong looks at requests several times. A request that it sees twice is
// watched.
func TestWatchLong(t *testing.T) {
	s := &Server{conns: map[*served]bool{}}
	seen := map[*served]uint64{}
	var list []*served
	for i, phase := range []uint32{none, running, running, watched} {
		c := servedConn(s, &pieceConn{piece: 1, err: io.EOF})
		c.req, c.watchEnd = &request{conn: t.Context()}, make(chan struct{}, 1)
		c.phase.Store(phase)
		c.seq.Store(uint64(i))
		s.conns[c] = true
		list = append(list, c)
	}
	check := func(name string, found bool, want map[int]uint64) {
		t.Helper()
		if got := s.watchLong(seen); got != found || len(seen) != len(want) {
			t.Errorf("%s: %v, %d seen", name, got, len(seen))
		}
		for i, seq := range want {
			if got, ok := seen[list[i]]; !ok || got != seq {
				t.Errorf("%s: request %d is seen as %d, %v", name, i, got, ok)
			}
		}
	}
	check("first", true, map[int]uint64{1: 1, 2: 2})
	list[1].seq.Store(9)
	check("another request", true, map[int]uint64{1: 9})
	<-list[2].watchEnd
	if list[2].phase.Load() != watched || !list[2].hungUp || list[1].phase.Load() != running || list[0].phase.Load() != none {
		t.Errorf("phases %d, %d, %d, hung up %v", list[0].phase.Load(), list[1].phase.Load(), list[2].phase.Load(), list[2].hungUp)
	}
	list[1].phase.Store(none)
	check("no request", false, nil)
	list[1].phase.Store(running)
	check("again", true, map[int]uint64{1: 9})
	delete(s.conns, list[1])
	check("closed", false, nil)
	s.conns[list[1]] = true
	check("seen once", true, map[int]uint64{1: 9})
	check("seen twice", false, nil)
	<-list[1].watchEnd
	if !s.mu.TryLock() {
		t.Error("the server is locked")
	}
}
