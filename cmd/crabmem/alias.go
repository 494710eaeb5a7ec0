package main

import (
	"context"
	"slices"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func aliasCommand(c *app) *cobra.Command {
	var add, replace, remove, none bool
	cmd := &cobra.Command{
		Use:     "alias NAME [ALIAS...]",
		GroupID: groupUse,
		Short:   "show, add, replace, or remove aliases",
		Long: `Add aliases to the entry NAME. --replace removes the other aliases, --remove
removes the given ones, and --none removes all aliases. --add is the default.
Without aliases and flags, alias prints the aliases, one per line.

Several entries may share an alias. No command finds an entry by a shared alias.`,
		Example: `  crabmem alias deploy ship release
  crabmem alias deploy --replace rollout
  crabmem alias deploy --remove rollout
  crabmem alias deploy`,
		Args:              atLeast(1, "NAME"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().BoolVar(&add, "add", false, "add the aliases (default)")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace all aliases with the given ones")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the aliases")
	cmd.Flags().BoolVar(&none, "none", false, "remove all aliases")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := atMostOne(cmd, "add", "replace", "remove", "none"); err != nil {
			return err
		}
		name, given := args[0], once(args[1:])
		if (add || replace || remove) && len(given) == 0 {
			return wrongArgs(cmd, "--add, --replace, and --remove want at least one alias")
		}
		if none && len(given) > 0 {
			return wrongArgs(cmd, "--none wants no alias")
		}
		show := len(given) == 0 && !none
		e, err := c.aliases(cmd.Context(), name, show, func(s *crmem.Store, e crmem.Entry) ([]string, error) {
			switch {
			case replace, none:
				return given, nil
			case remove:
				return op.WithoutAliases(s, e, given)
			}
			return op.WithAliases(e.Aliases, given), nil
		})
		if err != nil {
			return err
		}
		return c.printResult(e, func() { c.aliasesText(e, show) })
	}
	return c.outputs(cmd, of[crmem.Entry]())
}

// aliases returns the entry of a name. Unless show is set, it sets the entry's
// aliases to those that change returns.
func (c *app) aliases(ctx context.Context, name string, show bool, change func(*crmem.Store, crmem.Entry) ([]string, error)) (e crmem.Entry, err error) {
	if show {
		return resultOf(c.read, func(s *crmem.Store) (crmem.Entry, error) { return op.FindEntry(s, name) })
	}
	err = c.update(ctx, "alias", func(s *crmem.Store) ([]crmem.Op, error) {
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

// aliasesText prints the aliases of an entry, one per line if show is set.
func (c *app) aliasesText(e crmem.Entry, show bool) {
	switch {
	case show:
		for _, a := range e.Aliases {
			c.Out.WriteString(display.Printable(a) + "\n")
		}
	case len(e.Aliases) == 0:
		c.Say("%s has no aliases", display.Label(e.Name))
	default:
		c.Say("%s: %s", display.Label(e.Name), display.Printable(strings.Join(e.Aliases, ", ")))
	}
}
