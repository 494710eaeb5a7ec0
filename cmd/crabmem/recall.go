package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/budget"
	"crabmem/crmem/fusion"
	"crabmem/crmem/recall"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/embedder"
	"crabmem/daemon/op"
	"crabmem/sessionlog"

	"github.com/spf13/cobra"
)

type recallFlags struct {
	op.Question
	filter   filterFlags
	exitCode bool
	at       string
}

func recallCommand(c *app) *cobra.Command {
	f := recallFlags{Question: op.Question{Limit: 5, Analyzer: analysis.Standard.String(), RankArgs: op.RankArgs{Sort: "score"}}}
	cmd := &cobra.Command{
		Use:     "recall QUERY|-",
		GroupID: groupUse,
		Short:   "search the store",
		Long: `Search names, aliases, and content with BM25. The best match comes first; ties
are ordered by ID. An entry need not contain every query word.

If no entry contains a query word, recall searches for completions or spelling
corrections of that word, and prints them. Without a hit, the exit code is 0, or
3 with --exit-code. --explain prints the score breakdown of each hit. --why-not
NAME explains why the entry NAME is not a hit. --analyzer plain reproduces the
tokens and, up to rounding, the scores of the reference implementation, and does
not search names.

--syntax enables clauses:
  "some words"               the words are adjacent
  -word, -"some words"       the entry does not contain them
  name:word                  the name or an alias contains the word
  kind:note, kind:archive    the entry has this kind
  after:2026-04              created on or after this day, month, or year
  before:2026-04-14          created before this day, month, or year
Anything else is a word; after: and before: without a date exit with 2.

` + filterHelp + `
Filters apply before --limit. --min-share 0.3 drops hits with a score of less
than 0.3 times the best score. --sort recent puts the newest matches first, and
--sort important those of the largest importance. --importance 0.3 multiplies
scores by up to 1.3. --expand 2 adds up to 50 entries that are at most 2 links
from a hit, after the hits. --limit and the filters do not apply to them. Among
hits of equal scores, those of the project of the working directory come first.

--in sessions searches messages instead of entries, and --in both merges both by
rank. It finds at most 20 messages. --min-share, --after, --before, and --fusion
select messages, too; a time selects sessions. See crabmem sessions search.

If another match supersedes an entry, the entry directly follows that match.
Expired entries come last. Both need metadata that a flag of remember or append
wrote, or that crabmem metadata adopt adopted. recall marks superseded, expired,
and contradictory entries.

--semantic also finds entries whose words differ from those of QUERY. It needs
an [embedder] in config.toml. Without a daemon, recall first computes missing
vectors. If the model fails, recall searches by words and says so. --fusion
selects how words and meaning are combined, and implies --semantic. --diverse
prefers entries that are not similar to better ones; a lower --lambda makes the
hits more diverse. --half-life 30d halves the score of an entry with each 30
days since it was last read or, if no read was counted, since its last change.
Entries of type identity keep their scores.

--budget TOKENS limits the names and texts of the hits. recall returns names and
snippets, then replaces snippets with full texts where they fit, then lengthens
snippets. It never splits a code block. The limit counts ` + budget.Encoding + ` tokens of
names and texts, with line ends, but not scores or JSON keys. Newer OpenAI
models count fewer tokens; models of other vendors may count more.

--at SEQ or --at TIME searches the store as it was after a change or at a time.
` + pointForms,
		Example: `  crabmem recall "how do we deploy?"
  crabmem recall canary --explain --why-not tea
  crabmem recall "release steps" --json --budget 400
  crabmem recall --syntax '"release steps" -draft kind:note after:2026-01'
  crabmem recall "why main?" --type decision --after 2026-01 --sort recent
  crabmem recall canary --tag infra --min-share 0.3 --expand 1
  crabmem recall canary --at now
  crabmem recall deployment --diverse --half-life 30d
  crabmem recall "release steps" --in both
  crabmem recall nothing-like-it --exit-code || echo "not in memory"`,
		Args:              atLeast(1, "QUERY (or -)"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	fl := cmd.Flags()
	fl.IntVarP(&f.Limit, "limit", "n", f.Limit, "return at most `N` hits, 0 = all")
	f.filter.add(cmd, "search")
	fl.StringVar(&f.In, "in", "", "search in `notes`, sessions, or both")
	fl.Float64Var(&f.MinShare, "min-share", 0, "drop hits below this `share` of the best score, from 0 to 1")
	fl.StringVar(&f.Sort, "sort", f.Sort, "sort by `order` score, recent, or important")
	fl.Float64Var(&f.Importance, "importance", 0, "set the `weight` of importance, from 0 to 1")
	fl.IntVar(&f.Expand, "expand", 0, "add entries within this `distance` in links, 0 to 3")
	fl.StringVar(&f.Analyzer, "analyzer", f.Analyzer, "tokenize with `analyzer` standard or plain")
	fl.BoolVar(&f.Explain, "explain", false, "print the score breakdown of each hit")
	fl.StringVar(&f.WhyNot, "why-not", "", "explain why the entry `NAME` is not a hit")
	fl.IntVar(&f.Budget, "budget", 0, "limit names and texts to this many `tokens`")
	fl.BoolVar(&f.Syntax, "syntax", false, "parse clauses in the query")
	fl.StringVar(&f.at, "at", "", "search the store as it was at this `change or time`")
	fl.BoolVar(&f.Semantic, "semantic", false, "search by meaning, too")
	fl.BoolVar(&f.Diverse, "diverse", false, "prefer entries that are not similar to better ones")
	fl.Float64Var(&f.Lambda, "lambda", 0, "set the `weight` of the score for --diverse, up to 1 (default 0.7)")
	fl.StringVar(&f.Fusion, "fusion", "", "combine words and meaning by this `method`: convex or reciprocal_rank")
	fl.StringVar(&f.HalfLife, "half-life", "", "halve scores with each `age` since the last use, such as 30d or 12w")
	fl.BoolVar(&f.exitCode, "exit-code", false, "exit with 3 if there are no hits")
	completeWords(cmd, "in", op.InNotes, op.InSessions, op.InBoth)
	completeWords(cmd, "sort", "score", "recent", "important")
	completeWords(cmd, "fusion", "convex", "reciprocal_rank")
	completeWords(cmd, "analyzer", "standard", "plain")
	_ = cmd.RegisterFlagCompletionFunc("why-not", c.completeNames(-1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("budget") && f.Budget < 1 {
			return cli.Usagef("--budget %d: want at least 1 token", f.Budget)
		}
		f.Query = strings.Join(args, " ")
		if dir, err := filepath.Abs("."); err == nil {
			f.Present = sessionlog.ProjectOf(c.fs, dir)
		}
		q, err := f.check(c.now())
		if err != nil {
			return err
		}
		if f.Query == "-" {
			if f.Query, err = c.ReadInput(cmd.Context(), 1<<20); err != nil {
				return err
			}
			if !utf8.ValidString(f.Query) {
				return cli.Usagef("standard input is not valid UTF-8")
			}
		}
		for _, flag := range []string{"semantic", "fusion", "in"} {
			if err := atMostOne(cmd, "at", flag); err != nil {
				return err
			}
		}
		var meaning *fusion.Request
		if c.remote == nil && (f.Semantic || f.Fusion != "") {
			if meaning, err = c.semantic(); err != nil {
				return err
			}
		}
		if cmd.Flags().Changed("at") {
			return c.recallAt(cmd.Context(), q, f)
		}
		return c.search(cmd.Context(), meaning, func(s op.Memory) error { return c.recall(cmd.Context(), s, q, f) })
	}
	return c.outputs(cmd, of[recall.Answer]())
}

// check completes the question, and returns its query.
func (f *recallFlags) check(now time.Time) (q crmem.Query, err error) {
	f.FilterArgs = f.filter.FilterArgs
	if q, err = f.Parse(now); err != nil {
		return q, cli.Usagef("--%v", err)
	}
	f.Fields, err = keyValues(f.filter.others)
	// A daemon may have another clock and another time zone.
	for text, at := range map[*string]uint64{&f.After: q.Filter.After, &f.Before: q.Filter.Before} {
		if *text != "" {
			*text = time.Unix(int64(at), 0).UTC().Format(time.RFC3339)
		}
	}
	return q, err
}

// recallAt searches the store as it was at f.at.
func (c *app) recallAt(ctx context.Context, q crmem.Query, f recallFlags) error {
	p, err := c.parsePoint("--at", f.at)
	if err != nil {
		return err
	}
	return c.read(func(s *crmem.Store) error {
		then, err := c.at(s, p)
		if err != nil {
			return err
		}
		return c.recall(ctx, op.Store{Store: then}, q, f)
	})
}

func (c *app) recall(ctx context.Context, s op.Memory, q crmem.Query, f recallFlags) error {
	// The snippets of text output need the weights.
	f.Weights = !c.JSON
	a, err := busy(c, "searching", func() (*recall.Answer, error) { return op.Recall.Do(ctx, s, f.Question) })
	if err != nil {
		return err
	}
	op.Weigh(a)
	nothing := f.exitCode && a.Total == 0
	if c.JSON {
		if nothing {
			return &cli.Failure{Code: cli.ExitNotFound, Kind: "no_hits", Path: s.Path(), Message: nothingFound(a)}
		}
		return c.PrintJSON(a)
	}
	c.recallText(a, q, f)
	if nothing {
		return cli.SilentError(cli.ExitNotFound)
	}
	return nil
}

func nothingFound(a *recall.Answer) string {
	return "nothing found: " + display.Plural(a.Searched, "entry", "entries") + " searched"
}

// corrections prints the terms that replaced query words that no entry
// contains.
func (c *app) corrections(nothing string, list []bm25.Correction) {
	if c.Quiet {
		return
	}
	for _, x := range list {
		fmt.Fprintf(c.Out, "%s contains %s: searched for %s instead\n", nothing, display.Quoted(x.Word), display.Printable(strings.Join(x.Words, ", ")))
	}
}

func (c *app) recallText(a *recall.Answer, q crmem.Query, f recallFlags) {
	c.corrections("no entry", a.Corrections)
	switch {
	case a.Budgeted != nil && a.LeftOut > 0 && len(a.Hits) == 0:
		fmt.Fprintf(c.Out, "--budget %d is too small for the first name: %s\n", a.Budget, display.Plural(a.Total, "match", "matches"))
	case len(a.Hits) == 0:
		c.Out.WriteString(nothingFound(a) + "\n")
		if a.Total == 0 && a.Searched > 0 && c.IsTerminal(c.Stdout) && !f.Semantic && f.Fusion == "" && f.at == "" {
			c.Note("hint: " + c.meaningHint())
		}
	}
	room := c.Width() - 4
	for i := range a.Hits {
		h := &a.Hits[i]
		if h.Message != nil {
			c.messageHead(i+1, h.Session, h.Title, h.Role, h.Line, h.Score)
			c.preview(h.Text(), room)
			continue
		}
		end := ""
		if h.Marks == nil || h.Marks.Linked == nil {
			end = fmt.Sprintf(", score %.3f", h.Score)
		}
		for _, note := range h.Marks.Notes() {
			end += ", " + display.Printable(note)
		}
		fmt.Fprintf(c.Out, "%2d  %s\n", i+1, c.heading(h.Entry())+c.Dim(end))
		switch {
		case h.Snippet != nil:
			c.indent(*h.Snippet)
		case f.Budget > 0:
			c.indent(*h.Content)
		default:
			c.preview(h.Cut(q.Analyzer, 240), room)
		}
		if h.Explain != nil {
			c.explainText(*h.Explain)
		}
	}
	if note := a.Meaning.Note("entry", "entries"); note != "" {
		c.Note(display.Printable(note))
	}
	if len(a.Hits) > 0 && !c.Quiet {
		end := fmt.Sprintf("%d of %s, %s searched", len(a.Hits), display.Plural(a.Total, "match", "matches"), display.Plural(a.Searched, "entry", "entries"))
		if a.Budgeted != nil {
			end += fmt.Sprintf(", %d of %d tokens", a.Tokens, a.Budget)
			if a.LeftOut > 0 {
				end += fmt.Sprintf(", omitted %s", display.Plural(a.LeftOut, "name", "names"))
			}
		}
		c.Out.WriteString(c.Dim(end) + "\n")
	}
	if a.WhyNot != nil {
		c.Out.WriteString(display.Printable(a.WhyNot.Message) + "\n")
		if a.WhyNot.Explain != nil {
			c.explainText(*a.WhyNot.Explain)
		}
	}
}

// preview prints the beginning of a text in one line.
func (c *app) preview(text string, room int) {
	if text = display.Printable(display.OneLine(text)); text != "" {
		fmt.Fprintf(c.Out, "    %s\n", cli.Fit(text, max(room, 0)))
	}
}

func (c *app) indent(text string) {
	for line := range strings.Lines(c.Text(text)) {
		c.Out.WriteString("    " + strings.TrimRight(line, "\r\n") + "\n")
	}
}

func (c *app) explainText(x recall.Explanation) {
	rows := [][]string{{"    term", "tf", "df", "idf", "norm", "score"}}
	if x.Read {
		rows[0] = append(rows[0], "early", "exact", "first in")
	}
	for _, t := range x.Terms {
		row := []string{
			"    " + display.Printable(t.Term), fmt.Sprint(t.TF), fmt.Sprint(t.DF),
			fmt.Sprintf("%.3f", t.IDF*t.Weight), fmt.Sprintf("%.3f", t.LengthNorm), fmt.Sprintf("%.3f", t.Contribution),
		}
		if x.Read {
			row = append(row, fmt.Sprintf("%.3f", t.Early), fmt.Sprintf("%.3f", t.Exact), t.Where())
		}
		rows = append(rows, row)
	}
	c.Table(c.Out, rows, "1234567")
	for _, line := range x.Lines() {
		c.Out.WriteString("    " + display.Printable(line.Text) + "\n")
	}
	fmt.Fprintf(c.Out, "    %s\n", c.Dim(fmt.Sprintf("score %.3f; %d terms here, %.1f on average in %s, pivot %.1f",
		x.Score, x.Len, x.AvgLen, display.Plural(x.Docs, "entry", "entries"), x.Pivot)))
}

// heading describes an entry on one line.
func (c *app) heading(e crmem.Entry) string {
	h := c.Bold(display.Label(e.Name)) + c.Dim(fmt.Sprintf("  %s %d, %s", e.Kind, e.ID, e.CreatedAt.Day(c.zone())))
	if len(e.Aliases) > 0 {
		h += c.Dim(", also " + display.Printable(strings.Join(e.Aliases, ", ")))
	}
	return h
}

// semantic returns how recall uses the embedding model of the configuration. Stores that
// are opened later use the model.
func (c *app) semantic() (*fusion.Request, error) {
	home := c.homeDir()
	conf, err := config.Load(c.fs, home, c.Getenv)
	if err != nil {
		return nil, err
	}
	s := embedder.Semantic(conf.Embedder)
	if s == nil {
		if i := slices.IndexFunc(conf.Broken, func(p config.Problem) bool { return strings.HasPrefix(p.Message, "embedder.") }); i >= 0 {
			return nil, conf.Broken[i : i+1]
		}
		return nil, noEmbedder()
	}
	if c.embed, err = embedder.Open(c.fs, home, conf.Embedder); err != nil {
		return nil, err
	}
	s.Complete = true
	return s, nil
}

// meaningHint says how to search by meaning.
func (c *app) meaningHint() string {
	if conf, err := config.Load(c.fs, c.homeDir(), c.Getenv); err == nil && conf.Embedder != nil {
		return "add --semantic to search by meaning, too"
	}
	return "to search by meaning, too, install a model, such as crabmem model add potion-base-8M"
}

// noEmbedder is the error of a command that needs an embedding model.
func noEmbedder() error {
	return &cli.Failure{Code: cli.ExitUsage, Kind: "no_embedder", Message: "no embedding model is configured",
		Remedy: "run crabmem model list --available, install one with crabmem model add, and set embedder.static in config.toml"}
}
