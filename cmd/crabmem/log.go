package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/timetext"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
)

// changeLog is the output of log --json.
type changeLog struct {
	Changes []op.Change `json:"changes" jsonschema:"newest first"`
	More    int         `json:"more" jsonschema:"changes that --limit omits"`
}

type logFlags struct {
	since, agent string
	limit        int
}

func logCommand(c *app) *cobra.Command {
	f := logFlags{limit: 20}
	cmd := &cobra.Command{
		Use:     "log [NAME]",
		GroupID: groupUse,
		Short:   "list the changes of the store",
		Long: `List the changes of the store, newest first: the number of the change, the time,
who made it, what it did, the ID, size, and name of the entry. WHO is the agent
and the client: cli, mcp, wire, load, or import. A change of another program has
the number "-".

With NAME, log lists the changes of the entry with that name or alias, also
those under earlier names. It also lists the changes of other entries that had
the name. If no entry has or had the name, log exits with 3.

log prints at most 20 changes; --limit 0 prints all. --since takes the times of
crabmem list. If a part of the history is damaged, log warns and lists the rest.`,
		Example: `  crabmem log
  crabmem log deploy --limit 0
  crabmem log --since yesterday --agent crab --json`,
		Args:              atMost(1, "NAME"),
		ValidArgsFunction: c.completeNames(1),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.since, "since", "", "list only changes made at or after this `time`")
	fl.StringVar(&f.agent, "agent", "", "list only changes of this `agent`")
	fl.IntVarP(&f.limit, "limit", "n", f.limit, "list at most `N` changes, 0 = all")
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (a changeLog, err error) {
		since, err := timetext.Parse(f.since, false, c.now())
		if err != nil {
			return a, cli.Usagef("--since %v", err)
		}
		if f.limit < 0 {
			return a, cli.Usagef("--limit %d: want 0 or more", f.limit)
		}
		q := op.LogQuery{Name: strings.Join(args, ""), Since: since, Agent: f.agent, Limit: f.limit}
		list, err := readStore(ctx, c, crmem.Options{}, op.ReadLog, q)
		for line := range strings.Lines(list.Damaged) {
			c.Warn("read history: " + strings.TrimSuffix(line, "\n"))
		}
		return changeLog{list.Changes, list.More}, err
	}, c.logText)
}

func (c *app) logText(a changeLog) {
	rows := [][]string{{"SEQ", "TIME", "WHO", "CHANGE", "ID", "SIZE", "NAME"}}
	for _, l := range a.Changes {
		seq, at, name := "-", "-", display.Label(l.Name)
		if !l.Time.IsZero() {
			at = display.At(l.Time, c.zone())
		}
		if l.Change > 0 {
			seq = strconv.FormatUint(l.Change, 10)
		}
		if l.OldName != "" {
			name += " (was " + display.Label(l.OldName) + ")"
		}
		if !l.Redacted.IsZero() {
			name += " (redacted)"
		}
		rows = append(rows, []string{seq, at, actorLabel(l.By), string(l.Type),
			strconv.FormatUint(l.ID, 10), display.Size(int64(l.Bytes)), name})
	}
	c.fitTable(rows, "045", "no changes")
	if a.More > 0 {
		c.Say("%s omitted; --limit 0 lists all", display.Plural(a.More, "older change", "older changes"))
	}
}

// actorLabel describes who made a change.
func actorLabel(a crmem.Actor) string {
	switch {
	case a.Agent == "":
		return display.Printable(cmp.Or(a.Client, "-"))
	case a.Client == "":
		return display.Printable(a.Agent)
	}
	return display.Printable(a.Agent + " (" + a.Client + ")")
}

// entryVersion is an entry at a point of its history.
type entryVersion struct {
	entry crmem.Entry // ID 0: there was none
	label string      // of the point
}

// diffAnswer is the output of diff --json.
type diffAnswer struct {
	Name string       `json:"name"`
	From *crmem.Entry `json:"from" jsonschema:"null: there was no entry"`
	To   *crmem.Entry `json:"to"`
	Diff string       `json:"diff" jsonschema:"of the contents, unified; empty if they are equal"`
}

func diffCommand(c *app) *cobra.Command {
	return c.outputs(&cobra.Command{
		Use:     "diff NAME [A [B]]",
		GroupID: groupUse,
		Short:   "compare two versions of an entry",
		Long: `Print the difference between two versions of an entry, as a unified diff of the
texts. Lines before the diff list differences of the name, kind, and aliases.

Without A and B, diff prints the last change of the entry. With A, it compares
the entry at A with the present one. With A and B, it compares the entry at A
with the entry at B. A and B are SEQ or TIME.
` + pointForms + `

NAME is a name or an alias, or the name of a removed entry. If there is no such
entry or no such change, diff exits with 3. If the versions are equal, diff
prints no diff and exits with 0.`,
		Example: `  crabmem diff deploy
  crabmem diff deploy 1
  crabmem diff deploy 1 now --json`,
		Args:              between(1, 3, "NAME and at most two of SEQ or TIME"),
		ValidArgsFunction: c.completeNames(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.read(func(s *crmem.Store) error {
				from, to, err := c.versions(s, args[0], args[1:])
				if err != nil {
					return err
				}
				return c.printDiff(args[0], from, to)
			})
		},
	}, of[diffAnswer]())
}

// versions returns the versions of an entry to compare.
func (c *app) versions(s *crmem.Store, name string, points []string) (from, to entryVersion, err error) {
	if len(points) == 0 {
		t := c.timelineOf(s.ChangesOf(name), name, 0)
		id, err := t.idOf(s, name)
		if err != nil {
			return from, to, err
		}
		ch, ok := t.last[id]
		if !ok {
			return from, to, noHistory(s, name)
		}
		label := "by another program"
		if ch.Seq > 0 {
			label = fmt.Sprintf("change %d", ch.Seq)
		}
		return entryVersion{ch.Before, "before " + label}, entryVersion{ch.After, label}, nil
	}
	both := []*entryVersion{&from, &to}
	to.label = "now"
	var missing error
	for i, text := range points {
		p, err := c.parsePoint("point", text)
		if err != nil {
			return from, to, err
		}
		both[i].label = p.String()
		both[i].entry, err = c.entryAt(s, name, p)
		if errors.Is(err, crmem.ErrNotFound) && !errors.Is(err, errNoPoint) {
			missing, err = err, nil
		}
		if err != nil {
			return from, to, err
		}
	}
	if len(points) == 1 {
		if id, err := c.timelineOf(s.ChangesOf(name), name, 0).idOf(s, name); err == nil {
			to.entry = entryByID(s, id)
		}
	}
	if from.entry.ID == 0 && to.entry.ID == 0 {
		return from, to, missing
	}
	return from, to, nil
}

// entryByID returns the entry of an ID, or an entry with ID 0.
func entryByID(s *crmem.Store, id uint64) crmem.Entry {
	for e := range s.All() {
		if e.ID == id {
			return e
		}
	}
	return crmem.Entry{}
}

func (c *app) printDiff(name string, from, to entryVersion) error {
	label := func(v entryVersion) string {
		if v.entry.ID == 0 {
			return "/dev/null"
		}
		return display.Label(v.entry.Name) + " (" + v.label + ")"
	}
	text := diff.Diff(label(from), []byte(from.entry.Content), label(to), []byte(to.entry.Content))
	_, text, _ = bytes.Cut(text, []byte("\n")) // the line "diff A B"
	a := diffAnswer{Name: name, Diff: string(text), From: existing(from.entry), To: existing(to.entry)}
	return c.printResult(a, func() {
		lines := fieldDifferences(from.entry, to.entry)
		for _, l := range lines {
			c.Out.WriteString(l + "\n")
		}
		if len(text) > 0 {
			c.Out.WriteString(strings.TrimSuffix(c.Text(a.Diff), "\n") + "\n")
		} else if len(lines) == 0 {
			c.Say("%s: no difference", display.Label(name))
		}
	})
}

// existing returns a pointer to an entry, or nil if its ID is 0.
func existing(e crmem.Entry) *crmem.Entry {
	if e.ID == 0 {
		return nil
	}
	return &e
}

// fieldDifferences describes the differences between two versions of an entry, except
// for the contents.
func fieldDifferences(from, to crmem.Entry) (lines []string) {
	if from.ID == 0 || to.ID == 0 {
		return nil
	}
	if from.ID != to.ID {
		lines = append(lines, fmt.Sprintf("id: %d -> %d", from.ID, to.ID))
	}
	if from.Name != to.Name {
		lines = append(lines, "name: "+display.Label(from.Name)+" -> "+display.Label(to.Name))
	}
	if from.Kind != to.Kind {
		lines = append(lines, fmt.Sprintf("kind: %s -> %s", from.Kind, to.Kind))
	}
	if !slices.Equal(from.Aliases, to.Aliases) {
		lines = append(lines, "aliases: "+aliasLabel(from.Aliases)+" -> "+aliasLabel(to.Aliases))
	}
	return lines
}

func aliasLabel(list []string) string {
	if len(list) == 0 {
		return "(no alias)"
	}
	return display.Printable(strings.Join(list, ", "))
}
