package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/timetext"
	"crabmem/sessionlog"

	"github.com/spf13/cobra"
)

func sessionsListCommand(c *app) *cobra.Command {
	var f sessionListFlags
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "list the sessions",
		Long: `List the sessions with ID, age, messages, agent, sender, and title. The newest
comes first; ties are ordered by ID. --agent and --sender match exact names.
--limit prints the first sessions of that order. --since takes a day
(2026-04-14, today, yesterday), a month (2026-04), a time
(2026-04-14T10:00:00Z), or an age (2d, 12h), in the local time zone. --trash
lists the sessions that crabmem sessions restore can restore.

The title of a session is the first line of its first message. After the first
turn, the model replaces it if [sessions] titles is model, the default. The
model never replaces a title that crabmem sessions title set.

--json prints an array; "damaged" counts invalid lines. For a file that is
not a valid session, "error" is set and "damaged" is 1; run crabmem sessions
verify for details.

For a file over 32 MiB, list reads only its beginning and its end. Its counts
are then lower bounds, shown as 12+. crabmem sessions show reads the whole file.`,
		Example: `  crabmem sessions list
  crabmem sessions list -n 10 --since yesterday
  crabmem sessions list --agent crab --json
  crabmem sessions list --trash`,
	}
	fl := cmd.Flags()
	fl.StringVar(&f.agent, "agent", "", "list only sessions of this `agent`")
	fl.StringVar(&f.sender, "sender", "", "list only sessions with this `sender`")
	fl.StringVar(&f.since, "since", "", "list only sessions created at or after this `time`")
	fl.IntVarP(&f.limit, "limit", "n", 0, "list at most `N` sessions, 0 = all")
	fl.BoolVar(&f.trash, "trash", false, "list deleted sessions")
	completeParties(c, cmd)
	completeWords(cmd, "since", "today", "yesterday")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		choose, err := f.choose(c.now())
		if err != nil {
			return err
		}
		return c.readSessions(func(d *sessionlog.Dir) error {
			infos, err := busy(c, "reading sessions", func() ([]sessionlog.Info, error) { return listSessions(d, f.trash) })
			if err != nil {
				return err
			}
			infos = choose(infos)
			kept, err := d.Kept("")
			if err != nil {
				return err
			}
			for _, k := range kept {
				c.Warn(keptMessage(k) + "; " + keptRemedy)
			}
			list := make([]op.SessionFile, len(infos))
			for k := range infos {
				list[k] = op.SessionFileOf(&infos[k])
			}
			return c.printResult(list, func() { c.listSessionsText(infos, f.trash) })
		})
	}
	return c.outputs(cmd, of[[]op.SessionFile]())
}

type sessionListFlags struct {
	agent, sender, since string
	limit                int
	trash                bool
}

// choose checks the flags. It returns a function that selects sessions of a list.
func (f *sessionListFlags) choose(now time.Time) (func([]sessionlog.Info) []sessionlog.Info, error) {
	since, err := timetext.Parse(f.since, false, now)
	if err != nil {
		return nil, cli.Usagef("--since %v", err)
	}
	if f.limit < 0 {
		return nil, cli.Usagef("--limit %d: want 0 or more", f.limit)
	}
	return func(list []sessionlog.Info) []sessionlog.Info {
		list = slices.DeleteFunc(list, func(i sessionlog.Info) bool {
			created, _ := i.Meta.Created() // without a time, a session is older than every time
			return f.agent != "" && i.Meta.Agent != f.agent || f.sender != "" && i.Meta.CreatedBy != f.sender || created.Before(since)
		})
		if f.limit > 0 {
			list = list[:min(f.limit, len(list))]
		}
		return list
	}, nil
}

// listSessions returns the sessions, or those in the trash, newest first.
func listSessions(d *sessionlog.Dir, trash bool) ([]sessionlog.Info, error) {
	list := d.List
	if trash {
		list = d.Trashed
	}
	infos, err := list()
	slices.SortFunc(infos, sessionlog.Info.Compare)
	return infos, err
}

func (c *app) listSessionsText(infos []sessionlog.Info, trash bool) {
	rows := [][]string{{"ID", "AGE", "MESSAGES", "AGENT", "SENDER", "TITLE"}}
	now := c.now()
	for k := range infos {
		i := &infos[k]
		age := "-"
		if t, ok := i.Meta.Created(); ok {
			age = ageOf(now.Sub(t))
		}
		messages := strconv.Itoa(i.Messages)
		if i.Partial {
			messages += "+"
		}
		rows = append(rows, []string{
			display.Label(i.ID), age, messages, cli.Fit(display.Printable(i.Meta.Agent), 24), cli.Fit(display.Printable(i.Meta.CreatedBy), 24), sessionState(i),
		})
	}
	c.fitTable(rows, "12", "no sessions"+map[bool]string{true: " in the trash"}[trash])
}

// sessionState returns a session's title, and the problem of its file.
func sessionState(i *sessionlog.Info) string {
	title := display.Printable(i.Meta.Title)
	switch {
	case i.Err != nil:
		err := i.Err
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err
		}
		return "(cannot be read: " + display.Printable(err.Error()) + ")"
	case i.Damaged > 0 && title != "":
		title += " "
		fallthrough
	case i.Damaged > 0:
		title += "(" + display.Plural(i.Damaged, "invalid line", "invalid lines") + ")"
	}
	return title
}

// ageOf writes how long ago something was.
func ageOf(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d < 2*365*day:
		return fmt.Sprintf("%d d", d/day)
	}
	return fmt.Sprintf("%d y", d/(365*day))
}

// fitTable prints a table, or the line none if it has only a head and none is set. On a
// terminal, it cuts the last column to the width.
func (c *app) fitTable(rows [][]string, right, none string) {
	if len(rows) == 1 && none != "" {
		c.Say("%s", none)
		return
	}
	if w := c.Width(); w > 0 {
		last := len(rows[0]) - 1
		for i := range last {
			most := 0
			for _, r := range rows {
				most = max(most, cli.Columns(r[i]))
			}
			w -= most + 2
		}
		for _, r := range rows {
			r[last] = cli.Fit(r[last], max(w, 10))
		}
	}
	c.Table(c.Out, rows, right)
}

// completeParties completes --agent and --sender.
func completeParties(c *app, cmd *cobra.Command) {
	for name, of := range map[string]func(m *sessionlog.Meta) string{
		"agent":  func(m *sessionlog.Meta) string { return m.Agent },
		"sender": func(m *sessionlog.Meta) string { return m.CreatedBy },
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, completeWith(-1, func(_ context.Context, found *candidates) {
			_ = c.readSessions(func(d *sessionlog.Dir) error { // no folder, no words
				infos, err := d.List()
				for i := range infos {
					if w := of(&infos[i].Meta); w != "" && display.Printable(w) == w {
						found.add(w)
					}
				}
				return err
			})
			slices.Sort(found.list)
			found.list = slices.Compact(found.list)
		}))
	}
}
