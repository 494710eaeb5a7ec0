package main

import (
	"context"
	"fmt"
	"strconv"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func forgetCommand(c *app) *cobra.Command {
	var archive, dry, purge, everywhere, yes bool
	var at string
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
removed entry. A purge cannot be undone; on a terminal, forget asks first unless
--yes is set. It deletes damaged and temporary files that may contain a text,
and lists them.

A purge does not remove the text from these places; forget --purge lists those
that it finds, with a fix: other entries and spaces of the home, sessions,
messages of the webhook and of channels, Markdown trees, and other files of the
home. The search ignores texts shorter than 12 bytes and has limits; a message
reports an incomplete search. A purge also does not remove the text from open
files, memory, free disk blocks, backups, and other copies.

With --everywhere, forget first purges other places in the home, then the entry:
- entries and archives of every space whose text or earlier versions contain the
  text
- sessions and deleted sessions: [purged] replaces each string that contains the
  text
- quarantine files and kept copies of sessions
- the input history of crabmem chat: forget removes messages with the text
- messages and answers of the webhook and of channels: [purged] replaces the
  text
If forget cannot purge one of these places, it purges the others, keeps the
entry, prints the reason, and exits with 1. Correct the place, then run the
command again. It cannot purge other files of the home, such as Crab.md. It
cannot purge Markdown trees either; it removes their merge bases.
The exit code is also 1 if a tree may contain the text, if the search is
incomplete, or if a version is shorter than 12 bytes. --dry-run lists the places
and exits with 0.

With --at SEQ, --purge removes only the text that the entry had after that
change, from every file of the store, and keeps the entry and the change.
crabmem log lists the changes. If the entry has the text now, the exit code is
4. With --at, forget does not search other places for the text.

If no entry has the name, the exit code is 3. An interrupted purge continues
when a command or the daemon next opens the store for writing, and every 30
seconds in a process that has it open.`,
		Example: `  crabmem forget deploy --dry-run
  crabmem forget deploy
  crabmem forget chat-2026-01 --archive
  crabmem forget tea --purge --dry-run
  crabmem remember tea 'black' && crabmem forget tea --purge --at 2
  crabmem forget tea --purge --everywhere --dry-run`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().BoolVar(&archive, "archive", false, "also remove an archive")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the entry to remove, change nothing")
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove the history of the note; no undo")
	cmd.Flags().StringVar(&at, "at", "", "with --purge: remove only the text after change `SEQ`")
	yesFlag(cmd, &yes)
	cmd.Flags().BoolVar(&everywhere, "everywhere", false, "also purge other places in the home; needs --purge")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		if at != "" && (!purge || everywhere || archive) {
			return wrongArgs(cmd, "--at needs --purge, without --everywhere and --archive")
		}
		if at != "" {
			return c.redact(cmd.Context(), name, at, dry, yes)
		}
		if purge {
			return c.purge(cmd.Context(), name, purgeOptions{archive, dry, everywhere, yes})
		}
		if everywhere {
			return wrongArgs(cmd, "--everywhere needs --purge")
		}
		e, err := c.forget(cmd.Context(), name, archive, dry)
		if err != nil {
			return err
		}
		if dry {
			return c.printResult(forgettable{e.Name}, func() {
				c.Say("would forget %s (%s %d, %s)", display.Label(e.Name), e.Kind, e.ID, display.Size(int64(e.Bytes)))
			})
		}
		return c.printResult(forgotten{e.Name}, func() { c.Say("forgot %s (%s %d)", display.Label(e.Name), e.Kind, e.ID) })
	}
	return c.outputs(cmd, of[redactedText](), of[forgotten](), of[forgettable](), of[purgedEntry]())
}

// forget removes the entry of a name, or with dry only finds it.
func (c *app) forget(ctx context.Context, name string, archive, dry bool) (e op.Entry, err error) {
	q := op.NamedQuery{Name: name, Remove: map[bool]string{false: "note", true: "any"}[archive]}
	if dry {
		return readStore(ctx, c, crmem.Options{}, op.ReadNamed, q)
	}
	return e, c.write(ctx, "forget", false, func(s op.Memory) error {
		for try := 1; ; try++ {
			if e, err = op.ReadNamed.Do(ctx, s, q); err != nil {
				return err
			}
			_, err = op.DeleteEntry.Do(ctx, s, op.DeletedEntry{EntryState: op.EntryState{ID: e.ID, Match: e.ETag}, Archive: archive})
			if err == nil || try == op.MaxTries || classify(err).Kind != "changed" { // by another process
				return err
			}
		}
	})
}

// forgotten is forget --json.
type forgotten struct {
	Forgot string `json:"forgot"`
}

// forgettable is forget --dry-run --json.
type forgettable struct {
	Name string `json:"would_forget"`
}

// redactedText is the output of forget --purge --at --json.
type redactedText struct {
	Name    string   `json:"name" jsonschema:"of the entry after the change"`
	ID      uint64   `json:"id"`
	Change  uint64   `json:"change"`
	DryRun  bool     `json:"dry_run"`
	Deleted []string `json:"deleted" jsonschema:"files that may have contained the text"`
}

// redact implements forget --purge --at: it removes the text that the entry of a name had
// after a change, and keeps the entry.
func (c *app) redact(ctx context.Context, name, at string, dry, yes bool) error {
	seq, err := strconv.ParseUint(at, 10, 64)
	if err != nil || seq == 0 {
		return cli.Usagef("--at %q: want the number of a change, see crabmem log %s", at, errtable.ShellWord(name))
	}
	r := redactedText{Change: seq, DryRun: dry, Deleted: []string{}}
	err = c.read(func(s *crmem.Store) error {
		t := c.timelineOf(s.ChangesOf(name), name, seq)
		id, err := t.idOf(s, name)
		switch ch := &t.change; {
		case err != nil:
			return err
		case ch.Type == "" || ch.After.ID != id:
			return missingFrom(s, errNoPoint, fmt.Sprintf("the history has no change %d that set a text of %s", seq, display.Quoted(name)), "run crabmem log "+errtable.ShellWord(name)+" to list the changes")
		default:
			r.Name, r.ID = ch.After.Name, id
			if now := entryByID(s, id); now.ID != 0 && now.Content == ch.After.Content && ch.AfterRedacted.IsZero() {
				return &cli.Failure{Code: cli.ExitConflict, Kind: "current", Path: s.Path(), Err: crmem.ErrCurrent, Message: "purge text of " + display.Quoted(name) + ": " + crmem.ErrCurrent.Error(),
					Remedy: "change the entry first, or run crabmem forget --purge " + errtable.ShellWord(name) + " to purge it"}
			}
			return nil
		}
	})
	if err == nil && !dry {
		if err := c.confirmPurge("purge "+r.label(), yes); err != nil {
			return err
		}
		var did op.Deleted
		did, err = writeStore(ctx, c, "forget", op.Redact, op.Version{ID: r.ID, Seq: seq})
		r.Deleted = append(r.Deleted, did.Deleted...)
	}
	if err != nil {
		return err
	}
	return c.printResult(r, func() {
		if dry {
			c.Say("would purge %s", r.label())
			return
		}
		c.Say("purged %s; undo is not possible", r.label())
		for _, f := range r.Deleted {
			c.Say("deleted %s, which may have contained the text", display.Printable(f))
		}
	})
}

func (r *redactedText) label() string {
	return fmt.Sprintf("the text of %s after change %d", display.Label(r.Name), r.Change)
}
