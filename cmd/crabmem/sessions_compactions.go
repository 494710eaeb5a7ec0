package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"unicode/utf8"

	"crabmem/bm25/clip"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/sessionlog"

	"github.com/spf13/cobra"
)

func sessionsCompactionsCommand(c *app) *cobra.Command {
	return family(&cobra.Command{
		Use:   "compactions COMMAND",
		Short: "list compactions and print their history",
		Long: `A compaction replaces the history of a session with a summary. The session file
keeps the history before the summary. These commands list the compactions of a
session and print the lines that a compaction replaced.`,
		Example: `  crabmem sessions compactions list crab_user_1
  crabmem sessions compactions show crab_user_1 1`,
	},
		compactionsListCommand(c),
		compactionsShowCommand(c),
	)
}

func compactionsListCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "list ID",
		Aliases: []string{"ls"},
		Short:   "list the compactions of a session",
		Long: `List the compactions of a session, oldest first: number, line of the summary,
replaced lines and messages, and the first words of the summary. --json prints
an array with the full summaries and the byte ranges of the replaced lines.`,
		Example: `  crabmem sessions compactions list crab_user_1
  crabmem sessions compactions list crab_user_1 --json`,
		Args:              exactly(1, "ID"),
		ValidArgsFunction: c.completeSessions(1, false),
	}, func(_ context.Context, args []string) (all []sessionlog.Compaction, err error) {
		err = c.readSession(args[0], func(s *sessionlog.Session) (err error) {
			all, err = busy(c, "reading "+s.Path, s.Compactions)
			return err
		})
		return append([]sessionlog.Compaction{}, all...), err
	}, func(all []sessionlog.Compaction) {
		rows := [][]string{{"N", "LINE", "REPLACES", "MESSAGES", "SUMMARY"}}
		for i := range all {
			p := &all[i]
			rows = append(rows, []string{strconv.Itoa(p.N), strconv.FormatInt(p.Line, 10), replaced(p), strconv.Itoa(p.Messages),
				cli.Fit(cli.FirstLine(clip.Bytes(p.Summary, 1<<10)), 100)})
		}
		c.fitTable(rows, "013", "no compactions")
	})
}

// replaced lists the lines that a compaction replaced.
func replaced(p *sessionlog.Compaction) string {
	switch {
	case p.LastLine < p.FirstLine:
		return "no lines"
	case p.LastLine == p.FirstLine:
		return fmt.Sprintf("line %d", p.FirstLine)
	}
	return fmt.Sprintf("lines %d-%d", p.FirstLine, p.LastLine)
}

func compactionsShowCommand(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID N",
		Short: "print the lines that a compaction replaced",
		Long: `Print the lines that compaction N of a session replaced, byte for byte,
including invalid lines. On a terminal, show replaces control characters. N is
the number in the list, from 1.

--json prints one object with the compaction and its "lines". A line that is not
UTF-8 has "base64" instead of "text". A line over 64 MiB has neither.`,
		Example: `  crabmem sessions compactions show crab_user_1 1
  crabmem sessions compactions show crab_user_1 1 --json`,
		Args: exactly(2, "ID and N"),
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return c.completeSessions(1, false)(cmd, args, toComplete)
		}
		var numbers []string
		_ = c.readSession(args[0], func(s *sessionlog.Session) error { // no session, no numbers
			all, err := s.Compactions()
			for _, p := range all {
				numbers = append(numbers, cobra.CompletionWithDesc(strconv.Itoa(p.N), cli.Fit(cli.FirstLine(p.Summary), 60)))
			}
			return err
		})
		return numbers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 1 {
			return cli.Usagef("compaction %q: want a number, 1 or more", args[1])
		}
		return c.readSession(args[0], func(s *sessionlog.Session) error {
			all, err := busy(c, "reading "+s.Path, s.Compactions)
			if err != nil {
				return err
			}
			if n > len(all) {
				return &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Path: s.Path,
					Message: fmt.Sprintf("%s has %s, but no number %d", s.ID, display.Plural(len(all), "compaction", "compactions"), n),
					Remedy:  "crabmem sessions compactions list " + errtable.ShellWord(s.ID)}
			}
			p := all[n-1]
			switch {
			case c.JSON:
				return c.expandJSON(cmd.Context(), s, p)
			case c.IsTerminal(c.Stdout):
				return replacedLines(cmd.Context(), s, p, func(l *sessionlog.Line) error {
					_, err := c.Out.WriteString(cli.PrintableLine(string(l.Raw)) + "\n")
					return err
				})
			}
			return s.Expand(p, c.Out)
		})
	}
	return c.outputs(cmd, of[expandedCompaction]())
}

// replacedLines calls f with every line that a compaction replaced.
func replacedLines(ctx context.Context, s *sessionlog.Session, p sessionlog.Compaction, f func(l *sessionlog.Line) error) error {
	for l, err := range s.LinesFrom(p.From, p.FirstLine) {
		err = cmp.Or(err, context.Cause(ctx))
		if err != nil || l.Offset >= p.To {
			return err
		}
		if l.Glued {
			continue // it was in the line before
		}
		if end := p.To - l.Offset; end < l.Size { // the marker is in the same line
			l.Size = end
			if l.Raw != nil {
				l.Raw = l.Raw[:end]
			}
		}
		if err := f(&l); err != nil {
			return err
		}
	}
	return nil
}

func (c *app) expandJSON(ctx context.Context, s *sessionlog.Session, p sessionlog.Compaction) error {
	a := expandedCompaction{p, []replacedLine{}}
	err := replacedLines(ctx, s, p, func(l *sessionlog.Line) error {
		v := replacedLine{Line: l.Number, Offset: l.Offset, Bytes: l.Size}
		if text := string(l.Raw); utf8.ValidString(text) && (l.Raw != nil || l.Size == 0) {
			v.Text = &text
		} else if l.Raw != nil {
			text = base64.StdEncoding.EncodeToString(l.Raw)
			v.Base64 = &text
		}
		a.Lines = append(a.Lines, v)
		return nil
	})
	if err != nil {
		return err
	}
	return c.PrintJSON(a)
}

// expandedCompaction is sessions compactions show --json.
type expandedCompaction struct {
	sessionlog.Compaction
	Lines []replacedLine `json:"lines"`
}

type replacedLine struct {
	Line   int64   `json:"line"`
	Offset int64   `json:"offset"`
	Bytes  int64   `json:"bytes"`
	Text   *string `json:"text,omitempty"`
	Base64 *string `json:"base64,omitempty"`
}

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
