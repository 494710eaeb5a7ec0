package main

import (
	"context"
	"fmt"
	"slices"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func renameCommand(c *app) *cobra.Command {
	shared := false // the old name is an alias of another entry, too
	var old crmem.Entry
	return resultCommand(c, &cobra.Command{
		Use:     "rename OLD NEW",
		GroupID: groupUse,
		Short:   "change the name of an entry",
		Long: `Change the name of the entry OLD, atomically. The entry keeps its ID, kind,
creation time, text, and aliases. The old name becomes an alias, so that links
to it and supersedes keep working. OLD is a name, or an alias of exactly one
entry. If an entry has the name NEW, rename changes nothing and exits with 4.`,
		Example: `  crabmem rename deploy rollout
  crabmem rename rollout deploy --json`,
		Args:              exactly(2, "OLD and NEW"),
		ValidArgsFunction: c.completeNames(1),
	}, func(ctx context.Context, args []string) (e crmem.Entry, err error) {
		err = c.writeChecked(ctx, "rename", false, false, func(s op.Memory) error {
			list, err := s.Update(ctx, func(s *crmem.Store) (ops []crmem.Op, err error) {
				if old, err = op.FindEntry(s, args[0]); err == nil {
					shared = hasAlias(s, old)
				}
				return []crmem.Op{crmem.Rename{Name: old.Name, To: args[1]}}, err
			})
			if e = old; len(list) > 0 {
				e = list[0]
			}
			return err
		})
		if err == nil && shared && e.Name != old.Name {
			c.Warn(fmt.Sprintf("%s is an alias of several entries now, so links to it are ambiguous: remove it from one with crabmem alias NAME --remove %s", display.Label(old.Name), errtable.ShellWord(old.Name)))
		}
		return e, err
	}, func(e crmem.Entry) {
		if e.Name == old.Name {
			c.Say("%s is unchanged", display.Label(e.Name))
		} else {
			c.Say("renamed %s to %s (%s %d)", display.Label(old.Name), display.Label(e.Name), e.Kind, e.ID)
		}
	})
}

// hasAlias reports whether another entry has the name of an entry as an alias.
func hasAlias(s *crmem.Store, named crmem.Entry) bool {
	for e := range s.All() {
		if e.ID != named.ID && slices.Contains(e.Aliases, named.Name) {
			return true
		}
	}
	return false
}
