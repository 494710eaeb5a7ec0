package main

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"

	"github.com/spf13/cobra"
)

// repairedSession is the result of a repair.
type repairedSession struct {
	ID   string `json:"session"`
	File string `json:"file"`
	sessionlog.Repaired
	DryRun bool `json:"dry_run"`
}

func sessionsRepairCommand(c *app) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "repair ID",
		Short: "remove invalid lines from a session",
		Long: `Remove invalid lines and a torn tail from a session, so that it can be resumed.
If a joined line contains a valid record after a torn record, repair keeps the
valid record. Before a change, repair copies the file to sessions/.damaged. It
does not change a valid session.

If the first line is lost, the session's owner is unknown, and repair exits with
5.`,
		Example: `  crabmem sessions repair crab_user_1 --dry-run
  crabmem sessions repair crab_user_1 --json`,
		Args:              exactly(1, "ID"),
		ValidArgsFunction: c.completeSessions(1, false),
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the lines to remove, change nothing")
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (did repairedSession, err error) {
		did.DryRun = dry
		err = c.readSession(args[0], func(s *sessionlog.Session) error {
			did.ID, did.File = s.ID, s.File
			if dry {
				return did.foresee(ctx, s)
			}
			return nil
		})
		if err == nil && !dry {
			err = c.writeSessions("repair", true, func(d *sessionlog.Dir) error {
				return c.onSession(ctx, d, func(on op.Caller) (err error) {
					did.Repaired, err = op.RepairSession.Do(ctx, on, op.SessionID{Session: args[0]})
					return err
				})
			})
		}
		if errors.Is(err, sessionlog.ErrFormat) {
			f := classify(err)
			f.Remedy = "restore the first line from a backup, or run crabmem sessions export " + errtable.ShellWord(args[0]) + " to write the readable lines"
			err = f
		}
		return did, err
	}, func(did repairedSession) {
		took, cut := "removed", "separated"
		if dry {
			took, cut = "would remove", "would separate"
		}
		var parts []string
		if did.Dropped > 0 {
			parts = append(parts, took+" "+display.Plural(did.Dropped, "line", "lines"))
		}
		if did.Unglued > 0 {
			parts = append(parts, cut+" "+display.Plural(did.Unglued, "record", "records")+" from joined lines")
		}
		if parts == nil {
			parts = []string{"session is valid, nothing to repair"}
		}
		c.Say("%s: %s", display.Printable(did.File), strings.Join(parts, ", "))
		if did.Copy != "" {
			c.Say("  original kept in %s", display.Printable(did.Copy))
		}
	})
}

// foresee fills in the result that a repair would have.
func (r *repairedSession) foresee(ctx context.Context, s *sessionlog.Session) error {
	var first error = &record.FormatError{Path: s.Path, Line: 1, Msg: "no meta line"}
	for l, err := range s.Lines(0) {
		if err := cmp.Or(err, context.Cause(ctx)); err != nil {
			return err
		}
		switch {
		case l.Pieces > 0:
			continue
		case first != nil && l.Kind != record.KindMeta:
			return first
		case l.Glued:
			r.Unglued++
		case l.Kind == record.KindBad, l.Torn && l.Kind == record.KindBlank:
			r.Dropped++
		}
		first = nil
	}
	return first
}
