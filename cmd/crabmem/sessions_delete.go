package main

import (
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
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var gone []op.SessionFile
		run := func(d *sessionlog.Dir) error {
			ids, found, err := c.chosen(d, args)
			if err != nil || dry {
				gone = found
				return err
			}
			for i, id := range ids {
				err := c.onSession(cmd.Context(), d, func() error { return d.Delete(id) }, func(daemon *client.Client) error {
					_, err := op.DeleteSession.Do(cmd.Context(), daemon, op.SessionID{Session: id})
					return err
				})
				if err != nil {
					return afterOthers(err, "deleted", gone)
				}
				gone = append(gone, found[i])
			}
			return nil
		}
		var err error
		if dry {
			err = c.readSessions(run)
		} else {
			err = c.writeSessions("delete", true, run)
		}
		if err != nil {
			return err
		}
		if c.JSON {
			return c.PrintJSON(deletedSessions{gone, dry})
		}
		verb := "deleted"
		if dry {
			verb = "would delete"
		}
		for _, s := range gone {
			c.Say("%s %s", verb, display.SessionLabel(s.ID, s.Title))
		}
		return nil
	}
	return cmd
}

// chosen finds the sessions that are meant, each once, before anything is done
// to the first.
func (c *app) chosen(d *sessionlog.Dir, args []string) (ids []string, found []op.SessionFile, err error) {
	for _, id := range args {
		s, err := d.Read(id)
		if err != nil {
			return nil, nil, aboutSession(err)
		}
		i, err := s.Info()
		if cerr := s.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return nil, nil, err
		}
		n := op.SessionFileOf(&i)
		if !slices.Contains(found, n) {
			ids, found = append(ids, id), append(found, n)
		}
	}
	return ids, found, nil
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
	cmd := &cobra.Command{
		Use:   "restore ID...",
		Short: "restore sessions from the trash",
		Long: `Move deleted sessions back from the trash unchanged. No other session gets the
ID of a deleted one. crabmem sessions list --trash lists the trash.`,
		Example: `  crabmem sessions delete crab_user_1 && crabmem sessions restore crab_user_1
  crabmem sessions delete crab_user_1 -q && crabmem sessions restore crab_user_1 --json`,
		Args:              atLeast(1, "ID"),
		ValidArgsFunction: c.completeSessions(-1, true),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var back []op.SessionFile
		err := c.writeSessions("restore", true, func(d *sessionlog.Dir) error {
			for _, id := range once(args) {
				err := c.onSession(cmd.Context(), d, func() error { return d.Restore(id) }, func(daemon *client.Client) error {
					_, err := op.RestoreSession.Do(cmd.Context(), daemon, op.SessionID{Session: id})
					return err
				})
				if err != nil {
					f := classify(err)
					if f.Kind == "not_found" {
						f.Remedy = "run crabmem sessions list --trash to list the deleted sessions"
					}
					return afterOthers(aboutSession(f), "restored", back)
				}
				_, found, err := c.chosen(d, []string{id})
				if err != nil {
					return err
				}
				back = append(back, found...)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if c.JSON {
			return c.PrintJSON(restoredSessions{back})
		}
		for _, s := range back {
			c.Say("restored %s", display.SessionLabel(s.ID, s.Title))
		}
		return nil
	}
	return cmd
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
