package main

import (
	"context"
	"strconv"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

// compacted is compact --json.
type compacted struct {
	Session string `json:"session"`
	op.Compacted
}

func compactCommand(c *app) *cobra.Command {
	var focus string
	var size int
	cmd := &cobra.Command{
		Use:     "compact SESSION",
		GroupID: groupAgents,
		Short:   "replace a session's history with a summary",
		Long: `Let the model summarize a session, and resume the session from the summary. The
session file keeps the history; crabmem sessions compactions prints it. The
summary also becomes an archive in the store. compact waits for an active run.

SESSION is a session ID, such as crab_user_1, or the session's number in the
daemon. --focus sets the topics to cover, and --size limits the tokens of the
summary. Without a daemon the exit code is 8.`,
		Example: `  crabmem compact crab_user_1 --focus "what was decided"
  crabmem compact crab_user_1 --size 400 --json`,
		Args:              exactly(1, "SESSION"),
		ValidArgsFunction: c.completeSessions(1, false),
	}
	cmd.Flags().StringVar(&focus, "focus", "", "cover the topics in these `words`")
	cmd.Flags().IntVar(&size, "size", 0, "limit the summary to this many `tokens`, 0 = as configured")
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (r compacted, err error) {
		if size < 0 || size > 1<<20 {
			return r, cli.Usagef("--size %d: want 0 to %d", size, 1<<20)
		}
		in := op.Compaction{Focus: focus, Tokens: size}
		if n, err := strconv.ParseUint(args[0], 10, 64); err == nil {
			in.Number = n
		} else {
			in.Session = args[0]
		}
		r.Session = args[0]
		r.Compacted, err = ask(ctx, c, op.CompactSession, in)
		return r, err
	}, func(r compacted) {
		where := ""
		if r.Archive != "" {
			where = ", in the archive " + display.Label(r.Archive)
		}
		c.Say("compacted %s: %d tokens to %d%s", display.Label(r.Session), r.TokensBefore, r.TokensAfter, where)
		c.Out.WriteString(c.Text(r.Summary) + "\n")
	})
}
