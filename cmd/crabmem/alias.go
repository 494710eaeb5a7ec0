package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func aliasCommand(c *app) *cobra.Command {
	var add, replace, remove, none bool
	var set []string
	cmd := &cobra.Command{
		Use:     "alias NAME [ALIAS...]",
		GroupID: groupUse,
		Short:   "show, add, replace, or remove aliases",
		Long: `Add aliases to the entry NAME. --remove removes the given aliases, and --none
removes all. --replace replaces all aliases with the given ones, and --set A,B
with A and B. --add is the default. Without aliases and flags, alias prints the
aliases, one per line.

Several entries may share an alias. No command finds an entry by a shared alias.`,
		Example: `  crabmem alias deploy ship release
  crabmem alias deploy --set rollout,ship
  crabmem alias deploy --remove rollout
  crabmem alias deploy`,
		Args:              atLeast(1, "NAME"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().BoolVar(&add, "add", false, "add the aliases (default)")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace all aliases with the given ones")
	cmd.Flags().StringSliceVar(&set, "set", nil, "replace all aliases with this `list`, with commas between them")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the aliases")
	cmd.Flags().BoolVar(&none, "none", false, "remove all aliases")
	var show bool
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (e crmem.Entry, err error) {
		if err := atMostOne(cmd, "add", "replace", "set", "remove", "none"); err != nil {
			return e, err
		}
		name, given := args[0], once(append(args[1:], set...))
		replace = replace || cmd.Flags().Changed("set")
		if (add || replace || remove) && len(given) == 0 {
			return e, wrongArgs(cmd, "--add, --replace, --set, and --remove want at least one alias")
		}
		if none && len(given) > 0 {
			return e, wrongArgs(cmd, "--none wants no alias")
		}
		show = len(given) == 0 && !none
		return c.aliases(ctx, name, show, func(s *crmem.Store, e crmem.Entry) ([]string, error) {
			switch {
			case replace, none:
				return given, nil
			case remove:
				return op.WithoutAliases(s, e, given)
			}
			return op.WithAliases(e.Aliases, given), nil
		})
	}, func(e crmem.Entry) { c.wordsText(e.Name, "aliases", e.Aliases, show) })
}

// aliases returns the entry of a name. Unless show is set, it sets the entry's
// aliases to those that change returns.
func (c *app) aliases(ctx context.Context, name string, show bool, change func(*crmem.Store, crmem.Entry) ([]string, error)) (e crmem.Entry, err error) {
	if show {
		return resultOf(c.read, func(s *crmem.Store) (crmem.Entry, error) { return op.FindEntry(s, name) })
	}
	_, err = c.update(ctx, "alias", false, func(s *crmem.Store) ([]crmem.Op, error) {
		if e, err = op.FindEntry(s, name); err != nil {
			return nil, err
		}
		list, err := change(s, e)
		if err != nil || slices.Equal(list, e.Aliases) {
			return nil, err
		}
		e.Aliases = list
		return []crmem.Op{crmem.Alias{Name: e.Name, Aliases: list}}, nil
	})
	return e, err
}

// wordsText prints an entry's aliases or tags: one per line if show is set, or else in one
// confirmation.
func (c *app) wordsText(name, what string, list []string, show bool) {
	switch {
	case show:
		for _, one := range list {
			c.Out.WriteString(display.Printable(one) + "\n")
		}
	case len(list) == 0:
		c.Say("%s has no %s", display.Label(name), what)
	default:
		c.Say("%s: %s", display.Label(name), display.Printable(strings.Join(list, ", ")))
	}
}

func renameCommand(c *app) *cobra.Command {
	var in op.Renaming
	cmd := &cobra.Command{
		Use:     "rename OLD NEW",
		GroupID: groupUse,
		Short:   "change the name of an entry",
		Long: `Change the name of the entry OLD, atomically. The entry keeps its ID, kind,
creation time, text, and aliases. The old name becomes an alias, and the links
to it in all entries name NEW. crabmem undo takes all of this back. --keep-links
changes no link and adds no alias.

OLD is a name, or an alias of exactly one entry. If an entry has the name NEW,
rename changes nothing and exits with 4.`,
		Example: `  crabmem rename deploy rollout
  crabmem rename rollout deploy --json`,
		Args:              exactly(2, "OLD and NEW"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().BoolVar(&in.KeepLinks, "keep-links", false, "change no links and add no alias")
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (r op.Renamed, err error) {
		in.Name, in.To = args[0], args[1]
		err = c.writeGuarded(ctx, "rename", false, c.guard(), func(s op.Memory) error {
			r, err = op.Rename.Do(ctx, s, in)
			return err
		})
		if err == nil && r.Shared {
			c.Warn(fmt.Sprintf("%s is an alias of several entries now, so links to it are ambiguous: remove it from one with crabmem alias NAME --remove %s", display.Label(r.Old), errtable.ShellWord(r.Old)))
		}
		return r, err
	}, func(r op.Renamed) {
		switch {
		case r.Name == r.Old:
			c.Say("%s is unchanged", display.Label(r.Name))
		case r.Relinked > 0:
			c.Say("renamed %s to %s (%s %d), and changed the links of %s", display.Label(r.Old), display.Label(r.Name), r.Kind, r.ID, display.Plural(r.Relinked, "other entry", "other entries"))
		default:
			c.Say("renamed %s to %s (%s %d)", display.Label(r.Old), display.Label(r.Name), r.Kind, r.ID)
		}
	})
}
