package wire

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatchAllRests checks when the watcher rests: 1 s after the start, the last
// wake-up, or the last new request.
func TestWatchAllRests(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		s.start.Do(s.init)
		c := servedConn(s, &stoppedConn{&pieceConn{piece: 1, err: io.EOF}})
		c.watchEnd = make(chan struct{}, 1)
		request := func(seq uint64) {
			s.mu.Lock()
			c.req = &request{conn: t.Context()}
			c.seq.Store(seq)
			s.conns[c] = true
			s.mu.Unlock()
			c.phase.Store(running)
			s.watch.rouse()
		}
		began := time.Now()
		for _, step := range []struct {
			at   time.Duration
			do   func()
			rest bool // after do
		}{
			{at: 999 * ms}, {at: 1001 * ms, rest: true}, {at: 1501 * ms, do: s.watch.rouse},
			{at: 2500 * ms}, {at: 2502 * ms, rest: true}, {at: 2602 * ms, do: func() { request(1) }}, // found after 25 ms
			{at: 3626 * ms}, {at: 3628 * ms, do: func() { <-c.watchEnd }, rest: true}, {at: 3700 * ms, do: s.watch.rouse},
			{at: 4210 * ms, do: func() { request(2) }}, // found at 4225 ms
			{at: 5224 * ms}, {at: 5226 * ms, do: func() { <-c.watchEnd }, rest: true}, {at: 90_000 * ms, rest: true},
		} {
			time.Sleep(time.Until(began.Add(step.at)))
			synctest.Wait()
			if step.do != nil {
				step.do()
				synctest.Wait()
			}
			if got := s.watch.resting.Load(); got != step.rest {
				t.Errorf("after %v: resting %v, want %v", step.at, got, step.rest)
			}
		}
		s.cut()
		synctest.Wait()
		s.watch.rouse() // returns, although the watcher has ended
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestRest begins a rest with and without requests.
func TestRest(t *testing.T) {
	for _, tt := range []struct {
		name  string
		phase uint32
		seen  bool // the request
		want  bool
	}{
		{"no request", none, false, true}, {"new request", running, false, false}, {"watched request", watched, false, true}, {"long request", running, true, true},
	} {
		s := &Server{conns: map[*served]bool{}}
		c := servedConn(s, &pieceConn{piece: 1, err: io.EOF})
		c.req, c.watchEnd = &request{conn: t.Context()}, make(chan struct{}, 1)
		c.phase.Store(tt.phase)
		s.conns[c] = true
		seen := map[*served]uint64{}
		if tt.seen {
			seen[c] = c.seq.Load()
		}
		if got := s.rest(seen); got != tt.want || s.watch.resting.Load() != tt.want {
			t.Errorf("%s: rest %v, resting %v, want %v", tt.name, got, s.watch.resting.Load(), tt.want)
		}
		if tt.seen {
			<-c.watchEnd
		}
	}
}
