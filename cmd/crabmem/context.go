package main

import (
	"context"
	"errors"
	"slices"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/sessionlog"

	"github.com/spf13/cobra"
)

func contextCommand(c *app) *cobra.Command {
	in := op.ContextQuery{Budget: contextBudget}
	cmd := &cobra.Command{
		Use:     "context",
		GroupID: groupUse,
		Short:   "print what an agent should know at the start",
		Long: `Print the first lines of the most important notes, each with the name of its
note: up to 15 of the types identity and preference, 10 pinned notes, 10 of the
types decision and goal, 10 open tasks (type todo or task), and the 15 newest
notes. The titles of the last 5 sessions follow. Each note is printed once. The
more important notes come first, then the newer ones.

A task is open unless it has the metadata done: true or status: done. Notes that
expired or that another note supersedes are omitted. With --project, decisions
and goals have the metadata project: NAME, and sessions have the project NAME:
the name of their working directory, or of the directory with .git above it.

The text is between two lines that mark it as data, and has at most --budget
tokens (cl100k_base). It uses no model, and stays the same until an entry, a
session, or, for a note that expires, the day changes. Without entries and
sessions, context prints nothing and exits with 0. With --space or --db, it
prints no sessions.`,
		Example: `  crabmem context
  crabmem context --budget 500 --project shop
  crabmem context --json`,
	}
	cmd.Flags().IntVar(&in.Budget, "budget", in.Budget, "limit the text to this many `tokens`, 100 to 50000")
	cmd.Flags().StringVar(&in.Project, "project", "", "only decisions, goals, and sessions of the project `NAME`")
	return resultCommand(c, cmd, func(ctx context.Context, _ []string) (op.ContextText, error) {
		if err := in.Validate(); err != nil {
			return op.ContextText{}, cli.Usagef("--%v", err)
		}
		return c.contextText(ctx, in)
	}, func(out op.ContextText) { c.Out.WriteString(out.Text) })
}

const contextBudget = 1500 // tokens

// contextText returns the context from the store and the sessions in its home. It is
// empty without a store.
func (c *app) contextText(ctx context.Context, in op.ContextQuery) (op.ContextText, error) {
	var sessions func() (*sessionlog.Dir, error)
	if c.namedStore() == "" && (c.space == "" || c.space == space.Main) && c.workspaceStore() == "" {
		sessions = func() (*sessionlog.Dir, error) { return c.openSessions("list", true) }
	}
	if c.remote != nil {
		return op.ReadContext.Do(ctx, c.remote, in)
	}
	read := func(s *crmem.Store) (op.ContextText, error) {
		return op.ReadContext.Do(ctx, op.Store{Store: s, Now: c.now, Sessions: op.SessionsIn(sessions)}, in)
	}
	out, err := resultOf(c.read, read)
	if sessions != nil && errors.Is(err, crmem.ErrNoStore) {
		s := crmem.New(nil)
		out, err = read(s)
		err = errors.Join(err, s.Close())
	}
	return out, err
}

func pinCommand(c *app) *cobra.Command {
	return pinning(c, false, &cobra.Command{
		Use:   "pin NAME...",
		Short: "show notes in every context",
		Long: `Pin the notes NAME, so that crabmem context shows them. pin adds the metadata
pinned: true to all of the notes or to none; the texts of the notes stay the
same. NAME is a name, or an alias of exactly one note. crabmem undo NAME undoes
it. If a note does not exist, pin exits with 3; for an archive it exits with 4.`,
		Example: `  crabmem pin deploy
  crabmem pin deploy tea --json`,
	})
}

func unpinCommand(c *app) *cobra.Command {
	return pinning(c, true, &cobra.Command{
		Use:   "unpin NAME...",
		Short: "remove the pins of notes",
		Long: `Remove the metadata pinned: true from all of the notes NAME or from none. NAME
is a name, or an alias of exactly one note. crabmem undo NAME undoes it. If a
note does not exist, unpin exits with 3; for an archive it exits with 4.`,
		Example: `  crabmem unpin deploy
  crabmem unpin deploy tea --json`,
	})
}

// pinning makes cmd pin or unpin notes.
func pinning(c *app, unpin bool, cmd *cobra.Command) *cobra.Command {
	cmd.GroupID, cmd.Args, cmd.ValidArgsFunction = groupUse, atLeast(1, "NAME"), c.completeNames(-1)
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (op.Pinned, error) {
		return writeStore(ctx, c, cmd.Name(), op.PinNotes, op.Pins{Names: args, Unpin: unpin})
	}, func(p op.Pinned) {
		for _, name := range p.Names {
			if slices.Contains(p.Changed, name) {
				c.Say("%sned %s", cmd.Name(), display.Label(name))
			} else {
				c.Say("%s is unchanged", display.Label(name))
			}
		}
	})
}
