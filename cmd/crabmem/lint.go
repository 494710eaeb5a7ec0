package main

import (
	"fmt"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/lint"
	"crabmem/daemon/display"

	"github.com/spf13/cobra"
)

// lintAnswer is the output of lint --json.
type lintAnswer struct {
	Entries  int            `json:"entries"`
	Findings []lint.Finding `json:"findings" jsonschema:"ascending by ID and line"`
}

func lintCommand(c *app) *cobra.Command {
	unread := false
	cmd := &cobra.Command{
		Use:     "lint",
		GroupID: groupCare,
		Short:   "find faulty links, metadata, and duplicates",
		Long: `Check what the entries state and suggest fixes. lint changes nothing. It finds:

  broken_link     a link to a name or alias that no entry has
  ambiguous_link  a link to an alias of several entries
  near_duplicate  an entry with nearly the text of an earlier one: at least 80 %
                  of the pairs of adjacent words of both texts are the same
  contradiction   an entry that contradicts another, if none is superseded
  expired         an entry whose day of expires, in UTC, is over
  front_matter    a text that begins like metadata, but breaks its rules
  value           a type, importance, day, or relation without effect
  not_adopted     expires or supersedes without effect; see crabmem metadata
  cycle           supersedes, caused_by, or part_of that leads back to its entry

With --unread, it also finds:

  unread          an entry of at least 30 days without a search that found it
                  or a read. The daemon and MCP servers count searches and
                  reads, but commands do not.

lint does not compare texts of fewer than 5 words, and no entry with the one
that it supersedes. Its work per entry is limited: among many similar texts, it
can miss near duplicates.

The exit code is 1 if lint finds something. crabmem verify checks the bytes of
the store instead.`,
		Example: `  crabmem lint
  crabmem lint --json
  crabmem lint --unread`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.read(func(s *crmem.Store) error {
				a := lintAnswer{Entries: s.Len()}
				_ = c.Busy("checking", func() error {
					a.Findings = lint.Check(s, c.now())
					return nil
				})
				if unread {
					list, counted := lint.Unread(s, c.now())
					a.Findings = append(a.Findings, list...)
					if !counted {
						c.Say("no reads are counted in this store: the daemon and MCP servers count them")
					}
				}
				return c.printFindings(&a)
			})
		},
	}
	cmd.Flags().BoolVar(&unread, "unread", false, "also find entries that no search found")
	return c.outputs(cmd, of[lintAnswer]())
}

func (c *app) printFindings(a *lintAnswer) error {
	if c.JSON {
		if err := c.PrintJSON(a); err != nil {
			return err
		}
	} else {
		for _, f := range a.Findings {
			place := display.Label(f.Name)
			if f.Line > 0 {
				place += fmt.Sprintf(", line %d", f.Line)
			}
			message := display.Printable(f.Message)
			for i, name := range f.Others {
				message += []string{": ", ", "}[min(i, 1)] + display.Label(name)
			}
			fmt.Fprintf(c.Out, "%s: %s\n    try: %s\n", c.Bold(place), message, display.Printable(f.Remedy))
		}
		c.Say("%s in %s", display.Plural(len(a.Findings), "finding", "findings"), display.Plural(a.Entries, "entry", "entries"))
	}
	if len(a.Findings) == 0 {
		return nil
	}
	if err := c.Out.Flush(); err != nil {
		return err
	}
	return cli.SilentError(cli.ExitFailure)
}
