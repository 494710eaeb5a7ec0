package main

import (
	"context"
	"errors"

	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/sessionlog"

	"github.com/spf13/cobra"
)

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
			return c.onSession(ctx, d, func() error {
				l, err := d.Open(args[0])
				if err != nil {
					return aboutSession(err)
				}
				if err := l.SetTitle(args[1]); err != nil {
					return errors.Join(err, l.Close())
				}
				id := l.ID()
				if err := l.Close(); err != nil { // the title itself is synced
					c.Warn("closing the session: " + err.Error())
				}
				_, found, err := chosenSessions(d, []string{id})
				if err == nil {
					s = found[0]
				}
				return err
			}, func(daemon *client.Client) error {
				r, err := op.TitleSession.Do(ctx, daemon, op.SessionTitle{Session: args[0], Title: args[1]})
				s = r.SessionFile
				return client.MarkRetryable(err)
			})
		})
		return s, err
	}, func(s op.SessionFile) {
		c.Say("titled %s, in %s", display.SessionLabel(s.ID, s.Title), display.Printable(s.File))
	})
}
