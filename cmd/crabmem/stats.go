package main

import (
	"context"
	"fmt"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

// statsAnswer is stats --json.
type statsAnswer struct {
	op.StoreStats
	PurgePending bool `json:"purge_pending,omitempty"`

	Daemon *daemonState `json:"daemon,omitempty"` // of the daemon that has the store open
}

func statsCommand(c *app) *cobra.Command {
	var index bool
	cmd := &cobra.Command{
		Use:     "stats",
		GroupID: groupCare,
		Short:   "print counts and sizes of the store",
		Long: `Print the number of entries by kind, the sizes of the store file and its log,
and the age of the entries. --index also builds the search index and measures
it. If a daemon holds the store's lock, stats adds the daemon's figures.`,
		Example: `  crabmem stats
  crabmem stats --index --json`,
	}
	cmd.Flags().BoolVar(&index, "index", false, "also build and measure the search index")
	return resultCommand(c, cmd, func(ctx context.Context, _ []string) (statsAnswer, error) {
		return resultOf(c.read, func(s *crmem.Store) (a statsAnswer, err error) {
			a.StoreStats, err = busy(c, "indexing", func() (op.StoreStats, error) {
				return op.ReadStats.Do(ctx, op.Store{Store: s}, op.StatsFilter{Index: index})
			})
			if err != nil {
				return a, err
			}
			a.Daemon = c.daemonStats(ctx, s.Path())
			a.PurgePending, _ = crmem.PurgePending(c.fs, s.Path(), 0) // s is readable
			if a.PurgePending {
				c.Warn(purgePending)
			}
			return a, nil
		})
	}, c.statsText)
}

// daemonStats returns the figures of the daemon that has the store open, or nil
// if there is none or it does not respond.
func (c *app) daemonStats(ctx context.Context, store string) *daemonState {
	d, h, err := c.running(ctx)
	if isUnresponsive(err) {
		c.warnFailure(err)
	}
	if err != nil {
		return nil
	}
	defer d.Close()
	st, err := op.ReadDaemonStats.Do(ctx, d, op.None{})
	if err != nil || h.Store != store {
		return nil
	}
	s := newState(h)
	s.measure(st)
	return &s
}

// vectorsLine describes the vectors of a store.
func vectorsLine(v *crmem.VectorState, zone *time.Location) string {
	if !v.Loaded {
		return "the vector file is not read yet"
	}
	text := fmt.Sprintf("%d of %s have vectors", v.Entries-v.Empty, display.Plural(v.Entries+v.Missing, "entry", "entries"))
	if v.Failure != "" && v.RetryAt != nil {
		text += fmt.Sprintf("; failed: %s; next request at %s", v.Failure, v.RetryAt.In(zone).Format(time.TimeOnly))
	}
	return text
}

func (c *app) statsText(a statsAnswer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(c.Out, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("store", "%s", display.Printable(a.Path))
	line("entries", "%d: %s, %s; %s", a.Entries, display.Plural(a.Notes, "note", "notes"),
		display.Plural(a.Archives, "archive", "archives"), display.Plural(a.Aliases, "alias", "aliases"))
	line("content", "%s", display.Size(a.ContentBytes))
	line("file", "%s", display.Size(a.SnapshotBytes))
	line("log", "%s, %s not checkpointed", display.Size(a.LogBytes), display.Plural(a.LogOps, "operation", "operations"))
	if a.Entries > 0 {
		line("created", "%s to %s", a.Oldest.Day(c.zone()), a.Newest.Day(c.zone()))
	}
	line("next ID", "%d", a.NextID)
	if x := a.Index; x != nil {
		line("index", "%s, %s, %s, built in %v", display.Size(x.Bytes), display.Plural(x.Terms, "term", "terms"),
			display.Plural(x.Postings, "posting", "postings"), time.Duration(x.Seconds*float64(time.Second)).Round(time.Millisecond/10))
	}
	if d := a.Daemon; d != nil {
		line("daemon", "pid %d, %s, %d with an active run; %s, %s; model %s", d.Pid, display.Plural(uint64(d.LiveSessions), "loaded session", "loaded sessions"),
			d.ActiveSessions, display.Plural(uint64(d.Agents), "agent", "agents"), display.Size(int64(d.MemoryBytes)), display.Label(d.Model))
		if v := d.Vectors; v != nil {
			line("vectors", "%s", display.Printable(vectorsLine(v, c.zone())))
		}
	}
}
