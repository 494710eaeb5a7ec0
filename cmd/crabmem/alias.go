package main

import (
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"

	"github.com/spf13/cobra"
)

func (c *app) aliasCommand() *cobra.Command {
	var add, remove, none bool
	cmd := &cobra.Command{
		Use:     "alias NAME [ALIAS...]",
		GroupID: groupUse,
		Short:   "show, replace, add, or remove aliases",
		Long: `Replace the aliases of the entry NAME. --add adds to them, --remove removes the
given ones, and --none removes all. Without aliases and flags, alias prints the
aliases, one per line.

Several entries may share an alias. Such an alias finds no entry.`,
		Example: `  crabmem alias deploy ship release
  crabmem alias deploy --add rollout
  crabmem alias deploy --remove ship
  crabmem alias deploy`,
		Args:              atLeast(1, "NAME"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().BoolVar(&add, "add", false, "add the aliases")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the aliases")
	cmd.Flags().BoolVar(&none, "none", false, "remove all aliases")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := atMostOne(cmd, "add", "remove", "none"); err != nil {
			return err
		}
		name, given := args[0], once(args[1:])
		if (add || remove) && len(given) == 0 {
			return wrongArgs(cmd, "--add and --remove want at least one alias")
		}
		if none && len(given) > 0 {
			return wrongArgs(cmd, "--none wants no alias")
		}
		var e crmem.Entry
		var err error
		if len(given) == 0 && !none {
			err = c.read(func(s *crmem.Store) (err error) {
				e, err = get(s, name)
				return err
			})
		} else {
			err = c.write(cmd.Context(), "alias", false, func(s *writer) error {
				files, err := s.Files()
				if err != nil {
					return err
				}
				if e, err = get(files, name); err != nil {
					return err
				}
				list := given
				switch {
				case add:
					list = slices.Clone(e.Aliases)
					for _, a := range given {
						if !slices.Contains(list, a) {
							list = append(list, a)
						}
					}
				case remove:
					for _, a := range given {
						if !slices.Contains(e.Aliases, a) {
							return &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Path: files.Path(),
								Message: cli.Quoted(e.Name) + " has no alias " + cli.Quoted(a), Remedy: "crabmem alias " + cli.ShellWord(e.Name) + " lists its aliases"}
						}
					}
					list = slices.DeleteFunc(slices.Clone(e.Aliases), func(a string) bool { return slices.Contains(given, a) })
				}
				if slices.Equal(list, e.Aliases) {
					return nil
				}
				if err = s.Apply(crmem.Alias{Name: e.Name, Aliases: list}); err == nil {
					e, err = s.Get(e.Name)
				}
				return err
			})
		}
		switch {
		case err != nil:
			return err
		case c.JSON:
			return c.PrintJSON(e)
		case len(given) == 0 && !none:
			for _, a := range e.Aliases {
				c.Out.WriteString(cli.Printable(a) + "\n")
			}
		case len(e.Aliases) == 0:
			c.Say("%s has no aliases", cli.Label(e.Name))
		default:
			c.Say("%s: %s", cli.Label(e.Name), cli.Printable(strings.Join(e.Aliases, ", ")))
		}
		return nil
	}
	return cmd
}

// once leaves out the words that stand before already.
func once(words []string) []string {
	kept := words[:0:0]
	for _, w := range words {
		if !slices.Contains(kept, w) {
			kept = append(kept, w)
		}
	}
	return kept
}
