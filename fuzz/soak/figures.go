package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"crabmem/bench/measure"
	"crabmem/daemon/client"
	"crabmem/sessionlog/search"
)

// figures are measurements of the daemon's process.
type figures struct {
	goroutines  int
	descriptors int
	heap        uint64
	resident    uint64 // without mapped files
	sessions    int
}

func (f figures) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %.1f MiB heap, %.1f MiB resident, %d sessions live",
		f.goroutines, f.descriptors, float64(f.heap)/mib, float64(f.resident)/mib, f.sessions)
}

func (s *soak) figures(ctx context.Context) (f figures, err error) {
	c := &client.Client{Addr: s.addr}
	defer c.Close()
	st, err := c.Stats(ctx)
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

// waits returns the duration of f, and the part of it in which the machine ran:
// the host of a virtual machine may take time (the steal time of proc_stat(5)).
// A duration below the resolution counts completely.
func waits(f func()) (wall, had time.Duration) {
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

// ticks returns the processors' time so far that was stolen, and all.
func ticks() (stolen, all int) {
	b, _ := os.ReadFile("/proc/stat") // empty on other systems
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line)
	for i := 1; i < min(len(fields), 9); i++ { // guests count as user
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

// everything requests everything that the daemon builds on first use and keeps:
// clients do that too rarely in a short phase.
func everything(ctx context.Context, c *client.Client) error {
	long := strings.Repeat("some words ", 4*mib/11)
	for _, name := range []string{churn, longEntry} {
		if _, err := c.Remember(ctx, name, long, nil); err != nil {
			return err
		}
	}
	for _, tools := range []bool{false, true} {
		if _, _, err := c.SearchSessions(ctx, search.Query{Text: "words hello"}, tools); err != nil {
			return err
		}
	}
	return nil
}

// quiet kills all sessions, waits until no request is active, and returns the
// daemon's figures.
func (s *soak) quiet(ctx context.Context, collect bool) (best figures, err error) {
	c := &client.Client{Addr: s.addr}
	list, err := c.Sessions(ctx)
	for _, l := range list {
		_ = c.Kill(ctx, l.Number) // it may have ended
	}
	defer c.Close()
	if err == nil && collect {
		err = everything(ctx, c)
	}
	if err != nil {
		return best, err
	}
	// Time-outs must expire. If collect is set, the collector must run, which it
	// does when there is garbage.
	for i, began := 0, time.Now(); i == 0 || time.Since(began) < hang; i++ {
		if collect {
			if _, err := c.Get(ctx, churn); err != nil {
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
