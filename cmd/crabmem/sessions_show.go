package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"

	"github.com/spf13/cobra"
)

// maxShownDamage limits the list of damages; all are counted.
const maxShownDamage = 1000

func sessionsShowCommand(c *app) *cobra.Command {
	var fromMarker bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "print a session",
		Long: `Print a session in the order of its file, each line with its number: messages,
tool calls and results, compactions, titles, and failed turns. show labels the
text of an incomplete response "assistant, partial", and prints an invalid line
in its place, with the reason. --from-marker begins at the last compaction,
where a resumed session begins.

--json prints one object: "messages", "markers", and "turns" (partial responses
and failures) with their line numbers, and "damage" with line, offset, and
reason. With --from-marker, the summary is the first user message, as in a
resumed session.`,
		Example: `  crabmem sessions show crab_user_1
  crabmem sessions show crab_user_1 --from-marker --json`,
		Args:              exactly(1, "ID"),
		ValidArgsFunction: c.completeSessions(1, false),
	}
	cmd.Flags().BoolVar(&fromMarker, "from-marker", false, "begin at the last compaction")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.readSession(args[0], func(s *sessionlog.Session) error {
			from := int64(0)
			if fromMarker {
				var err error
				if from, err = busy(c, "reading "+s.Path, func() (int64, error) {
					from, _, err := s.LastMarker()
					return from, err
				}); err != nil {
					return err
				}
			}
			return c.showSession(cmd.Context(), s, from)
		})
	}
	return c.outputs(cmd, of[shownSession]())
}

// showSession prints a session from an offset on.
func (c *app) showSession(ctx context.Context, s *sessionlog.Session, from int64) error {
	i, err := busy(c, "reading "+s.Path, s.Info)
	if err != nil {
		return err
	}
	if !c.JSON {
		return c.showSessionText(ctx, s, &i, from)
	}
	a, err := describeSession(ctx, s, &i, from)
	if err != nil {
		return err
	}
	return c.PrintJSON(a)
}

func (c *app) showSessionText(ctx context.Context, s *sessionlog.Session, i *sessionlog.Info, from int64) error {
	c.Out.WriteString(c.Bold(display.SessionLabel(s.ID, i.Meta.Title)) + "\n")
	parts := []string{display.Plural(i.Messages, "message", "messages")}
	if i.Meta.Agent != "" {
		parts = append([]string{fmt.Sprintf("%s with %s, %s", display.Label(i.Meta.Agent), display.Label(i.Meta.CreatedBy), display.TimeIn(i.Meta.CreatedAt, c.zone()))}, parts...)
	}
	if i.Meta.Source == "" && i.Meta.UptimeSecs > 0 {
		parts = append(parts, fmt.Sprintf("ran %d s", i.Meta.UptimeSecs))
	}
	if i.Meta.Source != "" {
		parts = append(parts, "imported from "+display.Printable(i.Meta.Source))
	}
	if i.Damaged > 0 {
		parts = append(parts, display.Plural(i.Damaged, "invalid line", "invalid lines"))
	}
	if from > 0 {
		parts = append(parts, "since the last compaction")
	}
	c.Out.WriteString(c.Dim(strings.Join(parts, ", ")) + "\n")
	for l, err := range joinStreamed(shown(s.Lines(from), from)) {
		err = cmp.Or(err, context.Cause(ctx))
		if err == nil && (l.Kind == record.KindMeta || l.Kind == record.KindBlank && damageOf(&l) == nil) {
			continue // printed above, or empty
		}
		if err == nil {
			if !l.Glued {
				c.Out.WriteByte('\n')
			}
			err = c.printLine(&l)
		}
		if err != nil {
			return err
		}
	}
	if s.Size == 0 {
		c.Out.WriteString("the file is empty: it has no meta line\n")
	}
	return nil
}

// shown omits copies, unless the lines begin at a marker: the copies are then messages.
func shown(lines iter.Seq2[sessionlog.Line, error], marker int64) iter.Seq2[sessionlog.Line, error] {
	return func(yield func(sessionlog.Line, error) bool) {
		for l, err := range lines {
			if l.Kind == record.KindCopy && marker > 0 {
				l.Kind = record.KindMessage
			}
			if l.Kind != record.KindCopy && !yield(l, err) {
				return
			}
		}
	}
}

// describeSession returns the lines of a session from an offset on.
func describeSession(ctx context.Context, s *sessionlog.Session, i *sessionlog.Info, from int64) (shownSession, error) {
	a := shownSession{ID: s.ID, File: s.File, Meta: op.SessionMetaOf(&i.Meta),
		Messages: []shownMessage{}, Markers: []shownMarker{}, Turns: []shownTurn{}, Damage: []shownDamage{}}
	for l, err := range joinStreamed(shown(s.Lines(from), from)) {
		if err := cmp.Or(err, context.Cause(ctx)); err != nil {
			return a, err
		}
		if a.From == 0 {
			a.From = l.Number
		}
		if l.Torn && (l.Kind == record.KindBad || l.Kind == record.KindBlank) {
			a.Torn = l.Size
		}
		// A torn tail does not count as damage, unless it is the complete file.
		if d := damageOf(&l); d != nil && (a.Torn == 0 || l.Offset == 0) {
			if a.Damaged++; len(a.Damage) < maxShownDamage {
				a.Damage = append(a.Damage, *d)
			}
		}
		if a.Torn > 0 {
			continue
		}
		switch l.Kind {
		case record.KindMarker:
			a.Markers = append(a.Markers, shownMarker{l.Number, l.Summary})
			if from > 0 && l.Offset == from {
				a.Messages = append(a.Messages, newShownMessage(l.Number, &sessionlog.Message{Role: record.RoleUser, Content: l.Summary}))
			}
		case record.KindMessage:
			a.Messages = append(a.Messages, newShownMessage(l.Number, &l.Message))
		case record.KindUnknown:
			if t, ok := record.ParseTurn(l.Raw); ok {
				a.Turns = append(a.Turns, newShownTurn(l.Number, &t))
			}
		}
	}
	a.From = max(a.From, 1)
	if s.Size == 0 {
		a.Damaged, a.Damage = 1, append(a.Damage, shownDamage{Line: 1, Message: "no meta line"})
	}
	return a, nil
}

// shownSession is sessions show --json.
type shownSession struct {
	ID       string         `json:"session"`
	File     string         `json:"file"`
	Meta     op.SessionMeta `json:"meta"`
	From     int64          `json:"from_line"`
	Messages []shownMessage `json:"messages"`
	Markers  []shownMarker  `json:"markers"`
	Turns    []shownTurn    `json:"turns"`
	Damaged  int            `json:"damaged"`
	Damage   []shownDamage  `json:"damage"`
	Torn     int64          `json:"torn_bytes"`
}
