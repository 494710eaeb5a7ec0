package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"crabmem/bm25/analysis"
	"crabmem/bm25/clip"
	"crabmem/bm25/snippet"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
	"crabmem/daemon/timetext"
	"crabmem/sessionlog"
	"crabmem/sessionlog/search"

	"github.com/spf13/cobra"
)

// maxUnread limits the names of files that cannot be searched.
const maxUnread = 5

type sessionSearchFlags struct {
	agent, sender string
	roles         []string
	since, until  string
	limit, window int
	tools         bool
	semantic      bool
	exitCode      bool
}

func sessionsSearchCommand(c *app) *cobra.Command {
	f := sessionSearchFlags{limit: 5, window: 5}
	cmd := &cobra.Command{
		Use:   "search QUERY|-",
		Short: "search messages in all sessions",
		Long: `Search the messages and summaries of all sessions, and the titles, agents, and
senders. A message need not contain every query word, and a response also
matches the words of its question. If no message contains a query word, search
uses completions or spelling corrections of that word, and prints them. The best
match comes first; among equal scores, the newest. Each hit includes the
messages around it.

--role selects a role: a message role, compact for summaries, or session for
titles and names. Repeat the flag for several roles. --since and --until take
a day (2026-04-14, today, yesterday), a month (2026-04), a time
(2026-04-14T10:00:00Z), or an age (2d, 12h). Days are those of the local time
zone. Messages have no timestamps, so --since omits sessions last written before
that time, and --until omits sessions created after it. An imported session was
last written at the time of its last message.

--semantic also finds messages whose words differ from those of QUERY. It needs
an embedding model: see crabmem model --help.

Tool arguments and results can contain files and secrets, so search omits them
unless --tools is set. If there are no hits, the exit code is 0, or 3 with
--exit-code.`,
		Example: `  crabmem sessions search "which port"
  crabmem sessions search loopback --agent crab --role assistant --since 2026-01-01
  crabmem sessions search port --json --limit 1 --window 3
  crabmem sessions search nothing-like-it --exit-code || echo "never said"`,
		Args:              atLeast(1, "QUERY (or -)"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	fl := cmd.Flags()
	fl.StringVar(&f.agent, "agent", "", "search only sessions of this `agent`")
	fl.StringVar(&f.sender, "sender", "", "search only sessions with this `sender`")
	fl.StringArrayVar(&f.roles, "role", nil, "search only this `role`; may be repeated")
	fl.StringVar(&f.since, "since", "", "omit sessions last written before this `time`")
	fl.StringVar(&f.until, "until", "", "omit sessions created after this `time`")
	fl.IntVarP(&f.limit, "limit", "n", f.limit, "return at most `N` hits, up to 20")
	fl.IntVar(&f.window, "window", f.window, "show `N` messages around a hit, including the hit, up to 16")
	fl.BoolVar(&f.tools, "tools", false, "also search tool arguments and results")
	fl.BoolVar(&f.semantic, "semantic", false, "search by meaning, too")
	fl.BoolVar(&f.exitCode, "exit-code", false, "exit with 3 if there are no hits")
	completeParties(c, cmd)
	completeWords(cmd, "role", "user", "assistant", "system", "tool", "compact", "session")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q, err := f.query(strings.Join(args, " "), c.now())
		if err != nil {
			return err
		}
		if q.Text == "-" {
			if q.Text, err = c.ReadInput(cmd.Context(), 1<<20); err != nil {
				return err
			}
			if !utf8.ValidString(q.Text) {
				return cli.Usagef("standard input is not valid UTF-8")
			}
		}
		if err := atMostOne(cmd, "tools", "semantic"); err != nil {
			return err
		}
		if f.semantic {
			if q.Semantic, err = c.semantic(); err != nil {
				return err
			}
			q.Progress = c.Step
		}
		return c.readSessions(func(d *sessionlog.Dir) error { return c.searchSessions(cmd.Context(), d, q, f) })
	}
	return c.outputs(cmd, of[sessionsFound]())
}

func (f *sessionSearchFlags) query(text string, now time.Time) (search.Query, error) {
	q := search.Query{Text: text, Limit: f.limit, Agent: f.agent, Sender: f.sender, Roles: f.roles, Window: f.window}
	if f.limit < 1 || f.limit > search.MaxHits {
		return q, cli.Usagef("--limit %d: want 1 to %d", f.limit, search.MaxHits)
	}
	if f.window < 0 || f.window > search.MaxWindow {
		return q, cli.Usagef("--window %d: want 0 to %d", f.window, search.MaxWindow)
	}
	if f.window == 0 {
		q.Window = -1 // no window; 0 is the default
	}
	var err error
	if q.Since, err = timetext.Parse(f.since, false, now); err != nil {
		return q, cli.Usagef("--since %v", err)
	}
	if q.Until, err = timetext.Parse(f.until, true, now); err != nil {
		return q, cli.Usagef("--until %v", err)
	}
	return q, nil
}

// sessionsFound is the answer of sessions search.
type sessionsFound struct {
	Query string `json:"query"`
	search.Result
}

func (c *app) searchSessions(ctx context.Context, d *sessionlog.Dir, q search.Query, f sessionSearchFlags) error {
	a := sessionsFound{Query: q.Text}
	err := c.Busy("reading sessions", func() error {
		r, err := c.searchDir(ctx, d, q, f.tools)
		if err == nil {
			a.Result = *r
		}
		return err
	})
	if err != nil {
		return err
	}
	nothing := "nothing found: " + display.Plural(a.Searched, "text", "texts") + " searched"
	if c.JSON {
		if f.exitCode && len(a.Hits) == 0 {
			return &cli.Failure{Code: cli.ExitNotFound, Kind: "no_hits", Path: d.Path(), Message: nothing}
		}
		return c.PrintJSON(a)
	}
	c.corrections("no text", a.Corrections)
	if note := a.Meaning.Note("text", "texts"); note != "" {
		c.Note(display.Printable(note))
	}
	if len(a.Hits) == 0 {
		c.Out.WriteString(nothing + "\n")
		if f.exitCode {
			return cli.SilentError(cli.ExitNotFound)
		}
		return nil
	}
	c.foundText(&a)
	return nil
}

// searchDir searches the messages in a folder of sessions.
func (c *app) searchDir(ctx context.Context, d *sessionlog.Dir, q search.Query, tools bool) (*search.Result, error) {
	x, err := search.NewIndex(d, &search.IndexOptions{Tools: tools, Embed: c.embed})
	if err != nil {
		return nil, err
	}
	r, err := x.Search(ctx, q)
	if err == nil {
		c.warnUnread(x.Unread())
	}
	return r, errors.Join(err, x.Close())
}

// searchMessages searches the messages of the home, which may have no sessions.
func (c *app) searchMessages(ctx context.Context, q search.Query) (*search.Result, error) {
	d, err := c.openSessions("", false)
	if err != nil {
		return nil, err
	}
	r, err := c.searchDir(ctx, d, q, false)
	return r, errors.Join(err, d.Close())
}

// warnUnread lists the files that were not searched.
func (c *app) warnUnread(unread map[string]error) {
	names := slices.Sorted(maps.Keys(unread))
	for i, name := range names {
		if i == maxUnread {
			c.Warn(fmt.Sprintf("and %s also not searched", display.Plural(len(names)-i, "file was", "files were")))
			return
		}
		c.Warn(fmt.Sprintf("%s was not searched: %v", name, unread[name]))
	}
}

func (c *app) foundText(a *sessionsFound) {
	terms := make(map[string]float64)
	for t := range analysis.Standard.Tokens(a.Query) {
		terms[t] = 1
	}
	for _, x := range a.Corrections {
		for t := range analysis.Standard.Tokens(strings.Join(x.Words, " ")) {
			terms[t] = 1
		}
	}
	for i := range a.Hits {
		h := &a.Hits[i]
		c.messageHead(i+1, h.ID, h.Title, h.Role, h.Line, h.Score)
		best := display.OneLine(snippet.Cut(h.Snippet, analysis.Standard, terms, 240))
		if !slices.ContainsFunc(h.Window, func(w search.Windowed) bool { return w.Line == h.Line }) {
			c.foundLine(">", h.Line, h.Role, best)
		}
		for _, w := range h.Window {
			if w.Line == h.Line {
				c.foundLine(">", w.Line, h.Role, best)
			} else {
				c.foundLine(" ", w.Line, w.Role, display.OneLine(clip.Bytes(w.Text, 240)))
			}
		}
	}
	if !c.Quiet {
		c.Out.WriteString(c.Dim(fmt.Sprintf("%d of %s, %s searched", len(a.Hits), display.Plural(a.Total, "match", "matches"), display.Plural(a.Searched, "text", "texts"))) + "\n")
	}
}

// messageHead prints the place of a hit.
func (c *app) messageHead(rank int, id, title, role string, line int64, score float64) {
	fmt.Fprintf(c.Out, "%2d  %s%s\n", rank, c.Bold(display.SessionLabel(id, title)),
		c.Dim(fmt.Sprintf("  %s, line %d, score %.3f", display.Label(role), line, score)))
}

func (c *app) foundLine(mark string, line int64, role, text string) {
	l := fmt.Sprintf("  %s %4d  %-9s  %s", mark, line, cli.Fit(display.Label(role), 9), display.Printable(text))
	c.Out.WriteString(strings.TrimRight(cli.Fit(l, c.Width()), " ") + "\n")
}
