package wire

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// watchAfter is how long a request runs, or twice that, before its peer is
	// watched: most are answered by then, and a timer for each would cost more
	// than they do.
	watchAfter = 25 * time.Millisecond
	// restAfter is how many times nothing was found before there is a rest.
	restAfter = 40
)

// watch is what has requests watched that take long.
type watch struct {
	resting atomic.Bool
	wake    chan struct{}
	end     sync.WaitGroup
}

// rouse ends a rest. It is called after a request has begun.
func (w *watch) rouse() {
	if w.resting.Load() && w.resting.CompareAndSwap(true, false) {
		w.wake <- struct{}{}
	}
}

// watchAll runs until the server stops.
func (s *Server) watchAll() {
	t := time.NewTimer(watchAfter)
	seen := make(map[*served]uint64)
	for nothing := 0; ; {
		select {
		case <-t.C:
		case <-s.base.Done():
			return
		}
		if s.watchLong(seen) {
			nothing = 0
		} else if nothing++; nothing >= restAfter {
			if s.rest(seen) {
				select {
				case <-s.watch.wake:
				case <-s.base.Done():
					return
				}
			}
			nothing = 0
		}
		t.Reset(watchAfter)
	}
}

// rest begins a rest. It returns false if a request that began before the rest
// ends it.
func (s *Server) rest(seen map[*served]uint64) bool {
	s.watch.resting.Store(true)
	return !s.watchLong(seen) || !s.watch.resting.CompareAndSwap(true, false)
}

// watchLong has those requests watched that were seen before, and reports
// whether there are others.
func (s *Server) watchLong(seen map[*served]uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := false
	for c := range seen {
		if !s.conns[c] {
			delete(seen, c)
		}
	}
	for c := range s.conns {
		if c.phase.Load() != running {
			delete(seen, c)
			continue
		}
		seq := c.seq.Load()
		if was, ok := seen[c]; !ok || was != seq {
			seen[c], found = seq, true
		} else if c.phase.CompareAndSwap(running, watched) {
			delete(seen, c)
			go c.watchPeer()
		}
	}
	return found
}
