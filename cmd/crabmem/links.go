package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/links"
	"crabmem/crmem/lint"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func linksCommand(c *app) *cobra.Command {
	broken := false
	cmd := &cobra.Command{
		Use:     "links [NAME]",
		GroupID: groupUse,
		Short:   "list the links between entries",
		Long: `List the links of the entry NAME, then the links of other entries to NAME. For
each link, links prints the relation, the line, and the other entry. Without
NAME, it lists the links of all entries.

[[name]] in a text, or in its metadata, is a link to the entry of that name, or
else to the only entry with that alias. As in Obsidian, a link may name a
heading (deploy#Steps) or a block (deploy#^a1), show another text (deploy|how),
end in .md, begin with folders, and use other case; ![[name]] is a link, too.
Links to pictures and other files, and links in code, do not count.

If no entry has the name or the alias, the link is broken. If several entries
fit equally well, the link is ambiguous: it leads to no entry.

--broken lists only broken and ambiguous links. The exit code is 0 in any case;
crabmem lint exits with 1 for them.`,
		Example: `  crabmem links deploy
  crabmem links ship --json
  crabmem links --broken`,
		Args:              atMost(1, "NAME"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().BoolVar(&broken, "broken", false, "list only links that lead to no entry")
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (op.EntryLinks, error) {
		in := op.LinkFilter{Broken: broken}
		if len(args) > 0 {
			in.Name = args[0]
		}
		return resultOf(c.read, func(s *crmem.Store) (op.EntryLinks, error) { return op.ReadLinks.Do(ctx, op.Store{Store: s}, in) })
	}, func(a op.EntryLinks) {
		rows := [][]string{{"FROM", "LINE", "RELATION", "TO"}}
		for _, l := range a.Links {
			rows = append(rows, []string{display.Label(l.From), strconv.Itoa(l.Line), l.Relation, linkTarget(&l)})
		}
		none := "no links"
		if broken {
			none = "no broken links"
		}
		c.fitTable(rows, "1", none)
	})
}

// linkTarget describes where a link leads.
func linkTarget(l *links.Link) string {
	target := display.Label(l.Target)
	switch l.State {
	case links.ByAlias:
		return target + " (alias of " + display.Label(l.To) + ")"
	case links.Broken:
		return target + " (broken)"
	case links.Ambiguous:
		return target + " (ambiguous: " + display.Printable(strings.Join(l.Owners, ", ")) + ")"
	}
	return target
}

type graphFlags struct {
	format, from string
	depth        int
	linked       bool
}

func graphCommand(c *app) *cobra.Command {
	f := graphFlags{format: "dot", depth: 1}
	cmd := &cobra.Command{
		Use:     "graph",
		GroupID: groupUse,
		Short:   "draw the links between entries",
		Long: `Print a graph: the entries and, with the relation as label, their links. Broken
links are omitted; see crabmem links --broken.

--format dot prints it for Graphviz, and --format mermaid as a flowchart for
Markdown pages. The shape of an entry is that of its kind or type. Superseded
entries are dashed, and links contradicts are red. Labels contain at most 80
characters of a name, and escapes for characters that cannot be printed.
--format json, or --json, prints the IDs, complete names, and links.

--from NAME limits the graph to the entries within --depth links of NAME, in
either direction. --linked omits entries without links.`,
		Example: `  crabmem graph | head
  crabmem graph --format mermaid --linked > graph.mmd
  crabmem graph --from deploy --depth 2 --json`,
	}
	fl := cmd.Flags()
	fl.StringVar(&f.format, "format", f.format, "print the graph in the `format` dot, mermaid, or json")
	fl.StringVar(&f.from, "from", "", "draw only the surroundings of the entry `NAME`")
	fl.IntVar(&f.depth, "depth", f.depth, "with --from, draw entries within `N` links")
	fl.BoolVar(&f.linked, "linked", false, "omit entries without links")
	completeWords(cmd, "format", "dot", "mermaid", "json")
	_ = cmd.RegisterFlagCompletionFunc("from", c.completeNames(-1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(cmd, c.JSON); err != nil {
			return err
		}
		return c.read(func(s *crmem.Store) error {
			g := links.NewGraph(s)
			if f.from != "" {
				e, err := op.FindEntry(s, f.from)
				if err != nil {
					return err
				}
				g = g.Near(e.ID, f.depth)
			}
			if f.linked {
				g = g.Linked()
			}
			switch {
			case c.JSON || f.format == "json":
				return c.PrintJSON(g)
			case f.format == "mermaid":
				return g.WriteMermaid(c.Out)
			}
			return g.WriteDOT(c.Out)
		})
	}
	return c.outputs(cmd, of[links.Graph]())
}

// check checks the flags.
func (f *graphFlags) check(cmd *cobra.Command, json bool) error {
	if !slices.Contains([]string{"dot", "mermaid", "json"}, f.format) {
		return cli.Usagef("--format %q: want dot, mermaid, or json", f.format)
	}
	if json && f.format != "json" {
		if err := atMostOne(cmd, "json", "format"); err != nil {
			return err
		}
	}
	if f.depth < 0 {
		return cli.Usagef("--depth %d: want 0 or more", f.depth)
	}
	if cmd.Flags().Changed("depth") && f.from == "" {
		return cli.Usagef("--depth needs --from NAME")
	}
	return nil
}

// lintAnswer is the output of lint --json.
type lintAnswer struct {
	Entries  int            `json:"entries"`
	Findings []lint.Finding `json:"findings" jsonschema:"ascending by ID and line"`
}

func lintCommand(c *app) *cobra.Command {
	unread := false
	cmd := &cobra.Command{
		Use:     "lint",
		GroupID: groupCare,
		Short:   "find faulty links, metadata, and duplicates",
		Long: `Check what the entries state and suggest fixes. lint changes nothing. It finds:

  broken_link     a link to a name or alias that no entry has
  ambiguous_link  a link to an alias of several entries
  near_duplicate  an entry with nearly the text of an earlier one: at least 80 %
                  of the pairs of adjacent words of both texts are the same
  contradiction   an entry that contradicts another, if none is superseded
  expired         an entry whose day of expires, in UTC, is over
  front_matter    a text that begins like metadata, but breaks its rules
  value           a type, importance, day, or relation without effect
  not_adopted     expires or supersedes without effect; see crabmem metadata
  cycle           supersedes, caused_by, or part_of that leads back to its entry

With --unread, it also finds:

  unread          an entry of at least 30 days without a search that found it
                  or a read. The daemon and MCP servers count searches and
                  reads, but commands do not.

lint does not compare texts of fewer than 5 words, and no entry with the one
that it supersedes. Its work per entry is limited: among many similar texts, it
can miss near duplicates.

The exit code is 1 if lint finds something. crabmem verify checks the bytes of
the store instead.`,
		Example: `  crabmem lint
  crabmem lint --json
  crabmem lint --unread`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.read(func(s *crmem.Store) error {
				a := lintAnswer{Entries: s.Len()}
				_ = c.Busy("checking", func() error {
					a.Findings = lint.Check(s, c.now())
					return nil
				})
				if unread {
					list, counted := lint.Unread(s, c.now())
					a.Findings = append(a.Findings, list...)
					if !counted {
						c.Say("no reads are counted in this store: the daemon and MCP servers count them")
					}
				}
				return c.printFindings(&a)
			})
		},
	}
	cmd.Flags().BoolVar(&unread, "unread", false, "also find entries that no search found")
	return c.outputs(cmd, of[lintAnswer]())
}

func (c *app) printFindings(a *lintAnswer) error {
	if c.JSON {
		if err := c.PrintJSON(a); err != nil {
			return err
		}
	} else {
		for _, f := range a.Findings {
			place := display.Label(f.Name)
			if f.Line > 0 {
				place += fmt.Sprintf(", line %d", f.Line)
			}
			message := display.Printable(f.Message)
			for i, name := range f.Others {
				message += []string{": ", ", "}[min(i, 1)] + display.Label(name)
			}
			fmt.Fprintf(c.Out, "%s: %s\n    try: %s\n", c.Bold(place), message, display.Printable(f.Remedy))
		}
		c.Say("%s in %s", display.Plural(len(a.Findings), "finding", "findings"), display.Plural(a.Entries, "entry", "entries"))
	}
	if len(a.Findings) == 0 {
		return nil
	}
	if err := c.Out.Flush(); err != nil {
		return err
	}
	return cli.SilentError(cli.ExitFailure)
}
