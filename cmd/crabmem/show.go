package main

import (
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func showCommand(c *app) *cobra.Command {
	at := ""
	cmd := &cobra.Command{
		Use:     "show NAME",
		GroupID: groupUse,
		Short:   "print an entry",
		Long: `Print the content of an entry: byte for byte in a pipe or a file, with a heading
on a terminal. NAME is the name of the entry, or an alias of exactly one entry.
If several entries share the alias, show lists them and exits with 4. If no
entry has exactly this name, a canonically equivalent name (NFC, NFD) is found.

--at SEQ or --at TIME prints the entry as it was after a change or at a time.
` + pointForms + `
If no entry had the name, --at prints the present entry of the name as it was.`,
		Example: `  crabmem show deploy
  crabmem show ship --json
  crabmem show deploy --at now
  crabmem show deploy | wc -c`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().StringVar(&at, "at", "", "print the entry as it was at this `change or time`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		find := op.FindEntry
		if cmd.Flags().Changed("at") {
			p, err := c.parsePoint("--at", at)
			if err != nil {
				return err
			}
			find = func(s *crmem.Store, name string) (crmem.Entry, error) { return c.entryAt(s, name, p) }
		}
		return c.readFew(func(s *crmem.Store) error {
			e, err := find(s, args[0])
			if err != nil {
				return err
			}
			return c.printResult(e, func() {
				if c.IsTerminal(c.Stdout) {
					c.Out.WriteString(c.heading(e) + "\n" + strings.TrimSuffix(c.Text(e.Content), "\n") + "\n")
				} else {
					c.Out.WriteString(e.Content)
				}
			})
		})
	}
	return c.outputs(cmd, of[crmem.Entry]())
}
