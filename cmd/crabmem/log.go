package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/timetext"

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
	return resultCommand(c, cmd, func(_ context.Context, args []string) (a changeLog, err error) {
		since, err := timetext.Parse(f.since, false, c.now())
		if err != nil {
			return a, cli.Usagef("--since %v", err)
		}
		if f.limit < 0 {
			return a, cli.Usagef("--limit %d: want 0 or more", f.limit)
		}
		list, err := resultOf(c.read, func(s *crmem.Store) ([]op.Change, error) { return c.changesOf(s, args) })
		if err != nil {
			return a, err
		}
		list = slices.DeleteFunc(list, func(l op.Change) bool {
			return f.agent != "" && l.By.Agent != f.agent || f.since != "" && (l.Time.IsZero() || l.Time.Before(since))
		})
		slices.Reverse(list)
		a.Changes = list
		if f.limit > 0 && len(list) > f.limit {
			a.Changes, a.More = list[:f.limit], len(list)-f.limit
		}
		return a, nil
	}, c.logText)
}

// changesOf returns the changes of a store, oldest first, or those of the entries
// that have or had the name in args.
func (c *app) changesOf(s *crmem.Store, args []string) ([]op.Change, error) {
	list, changes := []op.Change{}, s.Changes()
	if len(args) > 0 {
		changes = s.ChangesOf(args[0])
	}
	c.eachChange(changes, func(ch *crmem.Change) {
		l := op.ChangeOf(ch, false)
		l.Name, l.OldName = strings.Clone(l.Name), strings.Clone(l.OldName)
		for i, a := range l.Aliases {
			l.Aliases[i] = strings.Clone(a)
		}
		list = append(list, l)
	})
	if len(args) > 0 && len(list) == 0 {
		if _, err := op.FindEntry(s, args[0]); err != nil {
			return nil, err
		}
	}
	return list, nil
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
