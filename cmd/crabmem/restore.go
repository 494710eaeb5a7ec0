package main

import (
	"context"
	"fmt"
	"slices"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"

	"github.com/spf13/cobra"
)

func restoreCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "restore NAME",
		GroupID: groupUse,
		Short:   "restore a removed entry",
		Long: `Restore the entry that had the name NAME when it was removed, with its ID,
creation time, text, and aliases. If several removed entries had the name,
restore restores the newest one; crabmem undo SEQ restores another. crabmem list
--deleted lists the removed entries.

If an entry has the name now, restore changes nothing and exits with 4. If no
removed entry had the name, restore exits with 3.`,
		Example: `  crabmem forget deploy && crabmem restore deploy
  crabmem forget deploy && crabmem restore deploy --json`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: completeRemoved(c),
	}, func(ctx context.Context, args []string) (crmem.Entry, error) {
		_, did, err := c.undo(ctx, "restore", func(s *crmem.Store) (crmem.Change, *timeline, error) {
			t := c.timeline(s, args[0], 0)
			ch, err := removalToUndo(s, t, args[0])
			return ch, t, err
		})
		return did.After, err
	}, func(e crmem.Entry) { c.Say("%s", restoredLabel(e)) })
}

// removalToUndo returns the newest change that removed an entry with a name, which
// no entry of the store has.
func removalToUndo(s *crmem.Store, t *timeline, name string) (crmem.Change, error) {
	if e, err := s.Get(name); err == nil && e.Name == name {
		return crmem.Change{}, &cli.Failure{Code: cli.ExitConflict, Kind: "exists", Path: s.Path(), Err: crmem.ErrExists,
			Message: fmt.Sprintf("restore %s: entry %d has the name", display.Quoted(name), e.ID),
			Remedy:  "run crabmem rename " + errtable.ShellWord(name) + " NEW, then retry"}
	}
	list := t.removed()
	for _, same := range []func(a, b string) bool{sameBytes, crmem.SameName} {
		for _, ch := range list {
			if same(ch.Before.Name, name) {
				return ch, nil
			}
		}
	}
	fix := "run crabmem list --deleted to list the removed entries"
	if len(list) == 0 {
		fix = "run crabmem log to list the changes"
	}
	return crmem.Change{}, missingFrom(s, crmem.ErrNotFound, "no removed entry "+display.Quoted(name), fix)
}

// removed returns the changes that removed the entries that are still missing, newest
// first.
func (t *timeline) removed() []crmem.Change {
	var list []crmem.Change
	for _, ch := range t.last {
		if ch.Type == crmem.ChangeRemove {
			list = append(list, ch)
		}
	}
	slices.SortFunc(list, func(a, b crmem.Change) int { return t.order[b.Before.ID] - t.order[a.Before.ID] })
	return list
}

// completeRemoved completes the name of a removed entry.
func completeRemoved(c *app) cobra.CompletionFunc {
	return completeWith(1, func(_ context.Context, found *candidates) {
		_ = c.read(func(s *crmem.Store) error { // without a store, no names
			for ch, err := range s.Changes() {
				switch e := ch.Entry(); {
				case err != nil:
					return err
				case ch.Type == crmem.ChangeRemove:
					found.add(e.Name)
				default:
					found.list = slices.DeleteFunc(found.list, func(n string) bool { return n == e.Name })
				}
			}
			return nil
		})
	})
}
