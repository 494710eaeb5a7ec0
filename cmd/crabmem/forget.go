package main

import (
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/memtool"

	"github.com/spf13/cobra"
)

func (c *app) forgetCommand() *cobra.Command {
	var archive, dry bool
	cmd := &cobra.Command{
		Use:     "forget NAME",
		GroupID: groupUse,
		Short:   "remove a note",
		Long: `Remove the note NAME, by its exact name. The store never reuses the ID.
forget removes an archive only with --archive; without it, forget exits with 4.

The history keeps the text, so crabmem restore brings the entry back. With
history = "off" in [memory], it does not.`,
		Example: `  crabmem forget deploy --dry-run
  crabmem forget deploy
  crabmem forget chat-2026-01 --archive`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().BoolVar(&archive, "archive", false, "also remove an archive")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the entry to remove, change nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		var e crmem.Entry
		check := func(s *crmem.Store) (err error) {
			e, err = memtool.FindToRemove(s, name, archive)
			return err
		}
		var err error
		if dry {
			err = c.read(check)
		} else {
			err = c.update(cmd.Context(), "forget", func(s *crmem.Store) ([]crmem.Op, error) {
				return []crmem.Op{crmem.Remove{Name: name}}, check(s)
			})
		}
		if err != nil {
			return err
		}
		switch {
		case c.JSON && dry:
			return c.PrintJSON(map[string]string{"would_forget": name})
		case c.JSON:
			return c.PrintJSON(map[string]string{"forgot": name})
		case dry:
			c.Say("would forget %s (%s %d, %s)", display.Label(name), e.Kind, e.ID, display.Size(int64(len(e.Content))))
		default:
			c.Say("forgot %s (%s %d)", display.Label(name), e.Kind, e.ID)
		}
		return nil
	}
	return cmd
}
