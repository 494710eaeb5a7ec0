package main

import (
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/memtool"

	"github.com/spf13/cobra"
)

func (c *app) forgetCommand() *cobra.Command {
	var archive, dry, purge, everywhere bool
	cmd := &cobra.Command{
		Use:     "forget NAME",
		GroupID: groupUse,
		Short:   "remove a note",
		Long: `Remove the note NAME, by its exact name. The store never reuses the ID.
forget removes an archive only with --archive; without it, forget exits with 4.

The history keeps the text, so crabmem restore brings the entry back. With
history = "off" in [memory], it does not.

With --purge, forget removes the entry, its versions in the history, and its
texts from every other file of the store. NAME may also be the last name of a
removed entry. A purge cannot be undone. It deletes damaged and temporary files
that may contain a text, and lists them.

A purge does not remove the text from these places; forget --purge lists those
that it finds, with a fix: other entries and spaces of the home, sessions, and
Markdown trees. The search ignores texts shorter than 12 bytes and has limits;
a message reports an incomplete search. A purge also does not remove the text
from open files, memory, free disk blocks, backups, and other copies.

With --everywhere, forget also purges these places in the home: entries with the
text, and entries whose earlier versions have it, in every space, archives too;
sessions and deleted sessions, where [purged] replaces each string with the
text; quarantine files, kept copies, and messages of chats. The entry itself
goes last. If a place is left, forget lists the reason, keeps the entry, purges
the others, and exits with 1; then correct the place and run it again. It also
exits with 1 if the search is incomplete, a version is shorter than 12 bytes, or
a Markdown tree may have the text: forget cannot purge trees, but removes their
merge bases. --dry-run lists the places.

If no entry has the name, the exit code is 3. An interrupted purge continues
when a command or the daemon next opens the store for writing.`,
		Example: `  crabmem forget deploy --dry-run
  crabmem forget deploy
  crabmem forget chat-2026-01 --archive
  crabmem forget tea --purge --dry-run
  crabmem forget tea --purge --everywhere --dry-run`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().BoolVar(&archive, "archive", false, "also remove an archive")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the entry to remove, change nothing")
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove the history of the note; no undo")
	cmd.Flags().BoolVar(&everywhere, "everywhere", false, "also purge the other places in the home")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		if purge {
			return c.purge(cmd.Context(), name, purgeOptions{archive, dry, everywhere})
		}
		if everywhere {
			return wrongArgs(cmd, "--everywhere needs --purge")
		}
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
