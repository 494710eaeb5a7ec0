package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/links"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

// linksAnswer is the output of links --json.
type linksAnswer struct {
	Name  string       `json:"name,omitempty" jsonschema:"of the entry; absent for the links of all entries"`
	Links []links.Link `json:"links"`
}

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
else to the only entry with that alias. If no entry has the name or the alias,
the link is broken. If several entries have the alias, the link is ambiguous: it
leads to no entry. Code contains no links.

--broken lists only broken and ambiguous links. The exit code is 0 in any case;
crabmem lint exits with 1 for them.`,
		Example: `  crabmem links deploy
  crabmem links ship --json
  crabmem links --broken`,
		Args:              atMost(1, "NAME"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().BoolVar(&broken, "broken", false, "list only links that lead to no entry")
	return resultCommand(c, cmd, func(_ context.Context, args []string) (linksAnswer, error) {
		return resultOf(c.read, func(s *crmem.Store) (linksAnswer, error) {
			a := linksAnswer{Links: []links.Link{}}
			if len(args) == 0 {
				a.Links = slices.AppendSeq(a.Links, links.All(s))
			} else {
				e, err := op.FindEntry(s, args[0])
				if err != nil {
					return a, err
				}
				a.Name = e.Name
				a.Links = append(a.Links, links.Of(s, e)...)
				for _, l := range links.To(s, e.ID) {
					if l.FromID != e.ID { // listed above
						a.Links = append(a.Links, l)
					}
				}
			}
			if broken {
				a.Links = slices.DeleteFunc(a.Links, func(l links.Link) bool { return l.Leads() })
			}
			return a, nil
		})
	}, func(a linksAnswer) {
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
		return target + " (ambiguous: alias of " + display.Printable(strings.Join(l.Owners, ", ")) + ")"
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
