package main

import (
	"cmp"
	"iter"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/timetext"

	"github.com/spf13/cobra"
)

func listCommand(c *app) *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		GroupID: groupUse,
		Short:   "list the entries of the store",
		Long: `List the entries, each with its ID, kind, creation day, bytes, name, and
aliases. --json prints an array of entries with "bytes" instead of content;
--content adds the content, and --use adds when an entry last changed after its
creation, and when and how often a daemon or an MCP server read it.

--sort sets the order: id (the default), name, created or recent (the newest
first), size (the largest first), or important (the largest importance first).
--limit prints the first entries of that order. --since is another name for
--after.

` + filterHelp + `

--deleted lists the removed entries instead, as they were before the removal,
and the day of the removal. --json prints the removals as crabmem log does.
crabmem restore restores an entry.`,
		Example: `  crabmem list
  crabmem list --sort created -n 10 --since 30d
  crabmem list --kind archive
  crabmem list --type decision --tag infra --sort important
  crabmem list --json --content
  crabmem list --deleted`,
	}
	fl := cmd.Flags()
	f.filter.add(cmd, "list")
	fl.StringVar(&f.sort, "sort", "id", "sort by `field` id, name, created, recent, size, or important")
	fl.StringVar(&f.since, "since", "", "list only entries created at or after this `time`")
	fl.IntVarP(&f.limit, "limit", "n", 0, "list at most `N` entries, 0 = all")
	fl.BoolVar(&f.content, "content", false, "include the content")
	fl.BoolVar(&f.use, "use", false, "with --json, add when entries were changed and read")
	fl.BoolVar(&f.deleted, "deleted", false, "list the removed entries")
	completeWords(cmd, "sort", "id", "name", "created", "recent", "size", "important")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		choose, err := f.choose(c.now())
		if err != nil {
			return err
		}
		if f.deleted {
			return c.read(func(s *crmem.Store) error { return c.listRemoved(s, choose, f.content) })
		}
		return c.eachEntry(cmd.Context(), func(all iter.Seq[crmem.Entry], addUse func(...*crmem.EntryInfo)) error {
			entries := choose(all)
			if !c.JSON {
				c.listText(entries, f.content)
				return nil
			}
			infos := make([]*crmem.EntryInfo, len(entries))
			for i := range entries {
				info := entries[i].Info(f.content)
				infos[i] = &info
			}
			if f.use {
				addUse(infos...) // reads the history
			}
			return c.PrintJSON(infos)
		})
	}
	return c.outputs(cmd, of[[]crmem.EntryInfo](), of[[]op.Change]())
}

type listFlags struct {
	filter           filterFlags
	sort, since      string
	limit            int
	content, deleted bool
	use              bool // add when entries were changed and read
}

// choose checks the flags. It returns a function that selects and sorts entries.
func (f *listFlags) choose(now time.Time) (func(iter.Seq[crmem.Entry]) []crmem.Entry, error) {
	var q crmem.Query
	if err := f.filter.apply(&q, now); err != nil {
		return nil, err
	}
	since, err := timetext.Parse(f.since, false, now)
	if err != nil {
		return nil, cli.Usagef("--since %v", err)
	}
	if f.limit < 0 {
		return nil, cli.Usagef("--limit %d: want 0 or more", f.limit)
	}
	recent := func(a, b crmem.Entry) int {
		return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(b.ID, a.ID))
	}
	order, ok := map[string]func(a, b crmem.Entry) int{
		"id":      func(a, b crmem.Entry) int { return cmp.Compare(a.ID, b.ID) },
		"name":    func(a, b crmem.Entry) int { return cmp.Compare(a.Name, b.Name) },
		"created": recent,
		"recent":  recent,
		"size":    func(a, b crmem.Entry) int { return cmp.Compare(len(b.Content), len(a.Content)) },
		"important": func(a, b crmem.Entry) int {
			x, _, _ := metadata.Parse(a.Content)
			y, _, _ := metadata.Parse(b.Content)
			return cmp.Compare(y.Importance(), x.Importance())
		},
	}[f.sort]
	if !ok {
		return nil, cli.Usagef("--sort %q: want id, name, created, recent, size, or important", f.sort)
	}
	return func(all iter.Seq[crmem.Entry]) []crmem.Entry {
		var list []crmem.Entry
		for e := range all {
			if (q.Kinds == nil || q.Kinds[0] == e.Kind) && q.Filter.Selects(uint64(e.CreatedAt), e.Content) && (since.Unix() <= 0 || e.CreatedAt >= crmem.UnixTime(since.Unix())) {
				list = append(list, e)
			}
		}
		slices.SortStableFunc(list, order)
		if f.limit > 0 {
			list = list[:min(f.limit, len(list))]
		}
		return list
	}, nil
}

// listRemoved lists the removed entries of a store that choose selects.
func (c *app) listRemoved(s *crmem.Store, choose func(iter.Seq[crmem.Entry]) []crmem.Entry, content bool) error {
	t := c.timeline(s, "", 0)
	removed := t.removed()
	sort.Slice(removed, func(i, j int) bool { return removed[i].Before.ID < removed[j].Before.ID })
	entries := choose(func(yield func(crmem.Entry) bool) {
		for _, ch := range removed {
			if !yield(ch.Before) {
				return
			}
		}
	})
	list := make([]op.Change, len(entries))
	for i, e := range entries {
		ch := t.last[e.ID]
		list[i] = op.ChangeOf(&ch, content)
	}
	return c.printResult(list, func() {
		if content {
			c.listText(entries, content)
			return
		}
		rows := [][]string{{"ID", "KIND", "REMOVED", "BYTES", "NAME"}}
		for _, e := range entries {
			day := "-"
			if at := t.last[e.ID].Time; !at.IsZero() {
				day = at.In(c.zone()).Format(time.DateOnly)
			}
			rows = append(rows, []string{strconv.FormatUint(e.ID, 10), e.Kind.String(), day, strconv.Itoa(len(e.Content)), display.Label(e.Name)})
		}
		c.fitTable(rows, "03", "no entries")
	})
}

func (c *app) listText(entries []crmem.Entry, content bool) {
	if content && len(entries) > 0 {
		for i, e := range entries {
			if i > 0 {
				c.Out.WriteString("\n")
			}
			c.Out.WriteString(c.heading(e) + "\n")
			c.Out.WriteString(strings.TrimRight(c.Text(e.Content), "\n") + "\n")
		}
		return
	}
	rows := [][]string{{"ID", "KIND", "CREATED", "BYTES", "NAME"}}
	for _, e := range entries {
		name := display.Label(e.Name)
		if len(e.Aliases) > 0 {
			name += " (" + display.Printable(strings.Join(e.Aliases, ", ")) + ")"
		}
		rows = append(rows, []string{
			strconv.FormatUint(e.ID, 10), e.Kind.String(), e.CreatedAt.Day(c.zone()), strconv.Itoa(len(e.Content)), name,
		})
	}
	c.fitTable(rows, "03", "no entries")
}

func showCommand(c *app) *cobra.Command {
	at := ""
	cmd := &cobra.Command{
		Use:     "show NAME",
		GroupID: groupUse,
		Short:   "print an entry",
		Long: `Print the content of an entry: byte for byte in a pipe or a file, with a heading
on a terminal. NAME is the name of the entry, or an alias of exactly one entry.
If several entries share the alias, show lists them and exits with 4. If no
entry has exactly this name, a canonically equivalent name (NFC, NFD) is found.

--at SEQ or --at TIME prints the entry as it was after a change or at a time.
` + pointForms + `
If no entry had the name, --at prints the present entry of the name as it was.

--json adds when the entry last changed after its creation, and when and how
often a daemon or an MCP server read it, as far as the store knows.`,
		Example: `  crabmem show deploy
  crabmem show ship --json
  crabmem show deploy --at now
  crabmem show deploy | wc -c`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: c.completeNames(1),
	}
	cmd.Flags().StringVar(&at, "at", "", "print the entry as it was at this `change or time`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		info, err := c.shown(cmd, args[0], at)
		if err != nil {
			return err
		}
		e := info.Entry()
		return c.printResult(usedEntry{entryKeys(e), info.Use}, func() {
			if c.IsTerminal(c.Stdout) {
				c.Out.WriteString(c.heading(e) + "\n" + strings.TrimSuffix(c.Text(e.Content), "\n") + "\n")
			} else {
				c.Out.WriteString(e.Content)
			}
		})
	}
	return c.outputs(cmd, of[usedEntry]())
}

// shown returns the entry of a name, now or at a point.
func (c *app) shown(cmd *cobra.Command, name, at string) (info crmem.EntryInfo, err error) {
	o := crmem.Options{Lazy: true} // it uses few entries
	if !cmd.Flags().Changed("at") {
		e, err := readStore(cmd.Context(), c, o, op.ReadNamed, op.NamedQuery{Name: name, Use: c.JSON})
		return e.EntryInfo, err
	}
	p, err := c.parsePoint("--at", at)
	if err != nil {
		return info, err
	}
	return info, c.readWith(o, func(s *crmem.Store) error {
		e, err := c.entryAt(s, name, p)
		info = e.Info(true)
		return err
	})
}

// usedEntry is an entry, and when it was changed and read.
type (
	usedEntry struct {
		entryKeys
		crmem.Use
	}
	entryKeys crmem.Entry
)
