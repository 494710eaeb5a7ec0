package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/timetext"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func pruneCommand(c *app) *cobra.Command {
	var older string
	var keep int
	var dry, history, yes bool
	cmd := &cobra.Command{
		Use:     "prune --older-than AGE | --keep N | --history --older-than AGE",
		GroupID: groupCare,
		Short:   "remove old archives, or old history",
		Long: `Remove archives atomically. --older-than removes archives older than an age
(90d, 12w, 1y, 36h), and --keep removes all but the newest N. With both flags,
prune removes archives that are older and not among the newest N. prune needs
one of the flags and never removes notes.

With --history, prune removes the changes that are older than an age from the
history, and frees their disk space. Entries and later changes stay. log, diff,
undo, restore, and show --at no longer reach the removed changes. On a terminal,
prune --history asks first unless --yes is set. --keep and --dry-run do not
combine with --history; --older is the same as --older-than.

With history = "90d" in [memory] of config.toml, a checkpoint removes changes
older than 90 days if the oldest change is older than 112.5 days, a quarter
more. The shortest age is 1h.`,
		Example: `  crabmem prune --older-than 90d --dry-run
  crabmem prune --keep 20
  crabmem prune --older-than 1y --keep 5 --json
  crabmem prune --history --older 90d`,
	}
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "older" {
			name = "older-than"
		}
		return pflag.NormalizedName(name)
	})
	cmd.Flags().StringVar(&older, "older-than", "", "remove archives or changes older than this `age`")
	cmd.Flags().IntVar(&keep, "keep", 0, "keep the newest `N` archives")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the archives to remove, change nothing")
	yesFlag(cmd, &yes)
	cmd.Flags().BoolVar(&history, "history", false, "remove changes from the history, not archives")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		byAge, byCount := cmd.Flags().Changed("older-than"), cmd.Flags().Changed("keep")
		if history && (!byAge || byCount || dry) {
			return wrongArgs(cmd, "--history needs --older-than AGE, without --keep and --dry-run")
		}
		if !byAge && !byCount {
			return wrongArgs(cmd, "missing --older-than AGE or --keep N")
		}
		if keep < 0 {
			return cli.Usagef("--keep %d: want 0 or more", keep)
		}
		var limit uint64 // archives from then on stay
		if byAge {
			age, err := timetext.ParseAge(older)
			if err != nil {
				return cli.Usagef("--older-than: %v", err)
			}
			if history {
				if err := c.confirmPurge("remove the changes older than "+older+" from the history", yes); err != nil {
					return err
				}
				return c.pruneHistory(cmd.Context(), c.now().Add(-age))
			}
			limit = uint64(max(c.now().Add(-age).Unix(), 0))
		}
		old := func(s *crmem.Store) []crmem.Entry {
			list := archives(s)
			if byCount {
				list = list[min(keep, len(list)):]
			}
			return slices.DeleteFunc(list, func(e crmem.Entry) bool { return byAge && uint64(e.CreatedAt) >= limit })
		}
		return c.prune(cmd.Context(), old, dry)
	}
	return c.outputs(cmd, of[pruned](), of[prunedHistory]())
}

// archives returns the archives of a store, the newest first.
func archives(s *crmem.Store) []crmem.Entry {
	var list []crmem.Entry
	for e := range s.All() {
		if e.Kind == crmem.Archive {
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, func(a, b crmem.Entry) int {
		return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	return list
}

// prune removes the entries that choose returns, unless dry is set, and prints them.
func (c *app) prune(ctx context.Context, choose func(*crmem.Store) []crmem.Entry, dry bool) error {
	var removed []crmem.Entry
	a := pruned{DryRun: dry}
	err := c.plan(ctx, "prune", dry, func(s *crmem.Store) (ops []crmem.Op, err error) {
		removed, a.Removed = choose(s), []string{}
		for _, e := range removed {
			ops, a.Removed = append(ops, crmem.Remove{Name: e.Name}), append(a.Removed, e.Name)
		}
		return ops, nil
	})
	if err != nil {
		return err
	}
	return c.printResult(a, func() {
		verb := onDry(dry, "would remove", "removed")
		for _, e := range removed {
			c.Say("%s %s (%s, %s)", verb, display.Label(e.Name), e.CreatedAt.Day(c.zone()), display.Size(int64(len(e.Content))))
		}
		c.Say("%s %s", verb, display.Plural(len(removed), "archive", "archives"))
	})
}

// pruned is prune --json.
type pruned struct {
	DryRun  bool     `json:"dry_run"`
	Removed []string `json:"removed"`
}

// prunedHistory is the output of prune --history --json.
type prunedHistory struct {
	Before    string `json:"before" jsonschema:"RFC 3339: older changes were removed"`
	Freed     int64  `json:"freed_bytes" jsonschema:"of files"`
	FirstSeq  uint64 `json:"first_change" jsonschema:"number of the oldest change; 0: no change"`
	FirstTime string `json:"first_time" jsonschema:"of the oldest change, RFC 3339; empty if unknown"`
}

// pruneHistory runs prune --history.
func (c *app) pruneHistory(ctx context.Context, before time.Time) error {
	freed, err := writeStore(ctx, c, "prune", op.PruneHistory, op.Age{Before: before})
	if err != nil {
		return err
	}
	p := prunedHistory{Before: before.UTC().Format(time.RFC3339), Freed: freed.Bytes}
	err = c.read(func(s *crmem.Store) error {
		for ch, err := range s.Changes() {
			if err != nil {
				c.Warn("read history: " + err.Error())
			}
			if err != nil || ch.Seq == 0 { // another program made the change
				continue
			}
			p.FirstSeq = ch.Seq
			if !ch.Time.IsZero() {
				p.FirstTime = ch.Time.UTC().Format(time.RFC3339Nano)
			}
			return nil
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.printResult(p, func() { c.Say("freed %s; %s", display.Size(p.Freed), p.reach(c.zone())) })
}

// reach describes from when the history reaches.
func (p *prunedHistory) reach(zone *time.Location) string {
	switch {
	case p.FirstSeq == 0:
		return "the history has no changes"
	case p.FirstTime == "":
		return "the history begins with change " + strconv.FormatUint(p.FirstSeq, 10)
	}
	return "the history begins with change " + strconv.FormatUint(p.FirstSeq, 10) + ", " + display.TimeIn(p.FirstTime, zone)
}
