package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/display"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
)

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
