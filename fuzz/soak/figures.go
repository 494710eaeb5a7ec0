package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"crabmem/bench/measure"
	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// figures contains measurements of the daemon's process.
type figures struct {
	goroutines  int
	descriptors int
	heap        uint64
	resident    uint64 // without mapped files
	sessions    int
}

func (f figures) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %.1f MiB heap, %.1f MiB resident, %d loaded sessions",
		f.goroutines, f.descriptors, float64(f.heap)/mib, float64(f.resident)/mib, f.sessions)
}

// figures measures the daemon.
func (s *soak) figures(ctx context.Context) (f figures, err error) {
	c := &client.Client{Addr: s.addr}
	defer c.Close()
	st, err := op.ReadDaemonStats.Do(ctx, c, op.None{})
	if err != nil {
		return f, err
	}
	f.goroutines, f.heap, f.sessions = st.Goroutines, st.MemoryBytes, st.LoadedSessions
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil {
		return f, err
	}
	f.descriptors = len(fds)
	f.resident, err = measure.Resident(s.cmd.Process.Pid)
	return f, err
}

// watch records the peak memory of the daemon.
func (s *soak) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if n, err := measure.Resident(s.cmd.Process.Pid); err == nil {
			s.peak = max(s.peak, n)
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// timed calls f. It returns the duration, and the duration without the steal time
// of proc_stat(5), which the host takes from a virtual machine. If wall is less than
// 100 ms, ran equals wall, because the clock of steal time is too coarse.
func timed(f func()) (wall, ran time.Duration) {
	stolen, all := ticks()
	began := time.Now()
	f()
	wall = time.Since(began)
	stolen2, all2 := ticks()
	if wall < 100*time.Millisecond || all2 <= all {
		return wall, wall
	}
	return wall, time.Duration(float64(wall) * (1 - float64(stolen2-stolen)/float64(all2-all)))
}

// ticks returns the steal time and the total time of all processors since boot.
func ticks() (stolen, all int) {
	b, _ := os.ReadFile("/proc/stat") // empty on other systems
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line)
	for i := 1; i < min(len(fields), 9); i++ { // user time includes guest time
		n, _ := strconv.Atoi(fields[i])
		all += n
		if i == 8 {
			stolen = n
		}
	}
	return stolen, all
}

const (
	churn     = "an entry to be read again and again"
	longEntry = "a long entry"
)

// fillCaches sends the requests whose responses make the daemon keep memory. In a
// short phase the clients send them too rarely.
func fillCaches(ctx context.Context, c *client.Client) error {
	long := strings.Repeat("some words ", 4*mib/11)
	for _, name := range []string{churn, longEntry} {
		if _, err := op.Remember.Do(ctx, c, op.Note{Remember: crmem.Remember{Name: name, Content: long}}); err != nil {
			return err
		}
	}
	for _, tools := range []bool{false, true} {
		if _, err := op.SearchSessions.Do(ctx, c, op.SessionQuery{Query: "words hello", Tools: tools}); err != nil {
			return err
		}
	}
	return nil
}

// quiet kills all sessions, waits until the daemon is idle, and returns the lowest
// figures. If collect is set, quiet also fills the caches and collects garbage.
func (s *soak) quiet(ctx context.Context, collect bool) (best figures, err error) {
	c := &client.Client{Addr: s.addr}
	list, err := op.ListLoaded.Do(ctx, c, op.None{})
	for _, l := range list {
		_ = endSession(ctx, s.addr, l.Number) // the session may be closed already
	}
	defer c.Close()
	if err == nil && collect {
		err = fillCaches(ctx, c)
	}
	if err != nil {
		return best, err
	}
	// Timeouts must expire. If collect is set, the requests make garbage, so that
	// the garbage collector runs.
	for i, began := 0, time.Now(); i == 0 || time.Since(began) < hang; i++ {
		if collect {
			if _, err := op.ReadEntry(ctx, c, op.EntryName{Name: churn}); err != nil {
				return best, err
			}
		}
		f, err := s.figures(ctx)
		if err != nil {
			return best, err
		}
		if i == 0 {
			best = f
		}
		best = figures{
			min(best.goroutines, f.goroutines), min(best.descriptors, f.descriptors), min(best.heap, f.heap), f.resident, f.sessions,
		}
		// After six seconds only idle connections to the model may remain.
		if i > 10 && f.goroutines <= 12 || i >= 60 && f.goroutines <= 18 && f.descriptors <= 24 {
			break
		}
		pause(ctx, 100*time.Millisecond)
	}
	return best, nil
}
