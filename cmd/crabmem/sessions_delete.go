package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/sessionlog"

	"github.com/spf13/cobra"
)

func sessionsDeleteCommand(c *app) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:     "delete ID...",
		Aliases: []string{"rm"},
		Short:   "move sessions to the trash",
		Long: `Move sessions to the trash, sessions/.trash in the home directory. crabmem
sessions restore moves them back unchanged. crabmem never empties the trash.

If an ID is unknown, delete moves nothing. If another process holds a session
open, delete exits with 4. If the daemon has loaded the session, it deletes the
session for you, unless a run is active.`,
		Example: `  crabmem sessions delete crab_user_1 --dry-run
  crabmem sessions delete crab_user_1`,
		Args:              atLeast(1, "ID"),
		ValidArgsFunction: c.completeSessions(-1, false),
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the sessions to delete, change nothing")
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (deletedSessions, error) {
		gone := deletedSessions{DryRun: dry}
		run := func(d *sessionlog.Dir) error {
			found, err := c.chosenSessions(ctx, d, args)
			if err != nil || dry {
				gone.Deleted = found
				return err
			}
			for _, s := range found {
				if err := c.deleteSession(ctx, d, s.ID); err != nil {
					return afterOthers(err, "deleted", gone.Deleted)
				}
				gone.Deleted = append(gone.Deleted, s)
			}
			return nil
		}
		if dry {
			return gone, c.readSessions(run)
		}
		return gone, c.writeSessions("delete", true, run)
	}, func(gone deletedSessions) {
		verb := onDry(dry, "would delete", "deleted")
		for _, s := range gone.Deleted {
			c.Say("%s %s", verb, display.SessionLabel(s.ID, s.Title))
		}
	})
}

// deleteSession moves a session to the trash.
func (c *app) deleteSession(ctx context.Context, d *sessionlog.Dir, id string) error {
	return c.onSession(ctx, d, func(on op.Caller) error {
		_, err := op.DeleteSession.Do(ctx, on, op.SessionID{Session: id})
		return err
	})
}

// chosenSessions finds the sessions that are meant, each once, before anything is done
// to the first.
func (c *app) chosenSessions(ctx context.Context, d *sessionlog.Dir, args []string) (found []op.SessionFile, err error) {
	here := op.SessionsOf(d, c.logger())
	for _, id := range args {
		s, err := op.ShowSession.Do(ctx, here, op.SessionID{Session: id})
		if err != nil {
			return nil, aboutSession(err)
		}
		if !slices.Contains(found, s.SessionFile) {
			found = append(found, s.SessionFile)
		}
	}
	return found, nil
}

// afterOthers adds the completed sessions to an error.
func afterOthers(err error, verb string, done []op.SessionFile) error {
	if len(done) == 0 {
		return err
	}
	ids := make([]string, len(done))
	for i, s := range done {
		ids[i] = s.ID
	}
	f := classify(err)
	f.Message += fmt.Sprintf("; %s before the error: %s", verb, strings.Join(ids, ", "))
	return f
}

func sessionsRestoreCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "restore ID...",
		Short: "restore sessions from the trash",
		Long: `Move deleted sessions back from the trash unchanged. No other session gets the
ID of a deleted one. crabmem sessions list --trash lists the trash.`,
		Example: `  crabmem sessions delete crab_user_1 && crabmem sessions restore crab_user_1
  crabmem sessions delete crab_user_1 -q && crabmem sessions restore crab_user_1 --json`,
		Args:              atLeast(1, "ID"),
		ValidArgsFunction: c.completeSessions(-1, true),
	}, func(ctx context.Context, args []string) (back restoredSessions, err error) {
		err = c.writeSessions("restore", true, func(d *sessionlog.Dir) error {
			for _, id := range once(args) {
				var s op.Session
				err := c.onSession(ctx, d, func(on op.Caller) (err error) {
					s, err = op.RestoreSession.Do(ctx, on, op.SessionID{Session: id})
					return err
				})
				if err != nil {
					return afterOthers(aboutSession(err), "restored", back.Restored)
				}
				back.Restored = append(back.Restored, s.SessionFile)
			}
			return nil
		})
		return back, err
	}, func(back restoredSessions) {
		for _, s := range back.Restored {
			c.Say("restored %s", display.SessionLabel(s.ID, s.Title))
		}
	})
}

// deletedSessions is sessions delete --json.
type deletedSessions struct {
	Deleted []op.SessionFile `json:"deleted"`
	DryRun  bool             `json:"dry_run"`
}

// restoredSessions is sessions restore --json.
type restoredSessions struct {
	Restored []op.SessionFile `json:"restored"`
}

func sessionsTitleCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "title ID TITLE",
		Short: "set the title of a session",
		Long: `Set or replace the title of a session. An empty TITLE removes it. title appends
a line to the file and renames the file. The ID and the other lines do not
change.

If another process holds the session open, or if the session was imported, title
exits with 4. If the daemon has loaded the session, it sets the title for you.`,
		Example: `  crabmem sessions title crab_user_1 "Which port"
  crabmem sessions title crab_user_1 "" --json`,
		Args:              exactly(2, "ID and TITLE"),
		ValidArgsFunction: c.completeSessions(1, false),
	}, func(ctx context.Context, args []string) (s op.SessionFile, err error) {
		err = c.writeSessions("title", true, func(d *sessionlog.Dir) error {
			return c.onSession(ctx, d, func(on op.Caller) error {
				r, err := op.TitleSession.Do(ctx, on, op.SessionTitle{Session: args[0], Title: args[1]})
				s = r.SessionFile
				if _, isDaemon := on.(*client.Client); isDaemon {
					err = client.MarkRetryable(err)
				}
				return err
			})
		})
		return s, err
	}, func(s op.SessionFile) {
		c.Say("titled %s, in %s", display.SessionLabel(s.ID, s.Title), display.Printable(s.File))
	})
}
