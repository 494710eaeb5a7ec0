package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
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
			var i sessionlog.Info
			err := c.Busy("reading "+s.Path, func() (err error) {
				if fromMarker {
					if from, _, err = s.LastMarker(); err != nil {
						return err
					}
				}
				i, err = s.Info()
				return err
			})
			if err != nil {
				return err
			}
			if c.JSON {
				return c.showSessionJSON(cmd.Context(), s, &i, from)
			}
			return c.showSessionText(cmd.Context(), s, &i, from)
		})
	}
	return c.outputs(cmd, of[shownSession]())
}

func (c *app) showSessionText(ctx context.Context, s *sessionlog.Session, i *sessionlog.Info, from int64) error {
	c.Out.WriteString(c.Bold(display.SessionLabel(s.ID, i.Meta.Title)) + "\n")
	parts := []string{display.Plural(i.Messages, "message", "messages")}
	if i.Meta.Agent != "" {
		parts = append([]string{fmt.Sprintf("%s with %s, %s", display.Label(i.Meta.Agent), display.Label(i.Meta.CreatedBy), display.TimeIn(i.Meta.CreatedAt, c.zone()))}, parts...)
	}
	if i.Meta.UptimeSecs > 0 {
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
	for l, err := range joinStreamed(s.Lines(from)) {
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

func (c *app) showSessionJSON(ctx context.Context, s *sessionlog.Session, i *sessionlog.Info, from int64) error {
	var messages, markers, turns bytes.Buffer // the elements, separated by commas
	damage := []shownDamage{}
	damaged, torn, first := 0, int64(0), int64(0)
	add := func(to *bytes.Buffer, v any) error {
		b, err := cli.EncodeJSON(v)
		if to.Len() > 0 {
			to.WriteByte(',')
		}
		to.Write(bytes.TrimSuffix(b, []byte("\n")))
		return err
	}
	for l, err := range joinStreamed(s.Lines(from)) {
		if err := cmp.Or(err, context.Cause(ctx)); err != nil {
			return err
		}
		if first == 0 {
			first = l.Number
		}
		if l.Torn && (l.Kind == record.KindBad || l.Kind == record.KindBlank) {
			torn = l.Size
		}
		// A torn tail does not count as damage, unless it is the complete file.
		if d := damageOf(&l); d != nil && (torn == 0 || l.Offset == 0) {
			if damaged++; len(damage) < maxShownDamage {
				damage = append(damage, *d)
			}
		}
		if torn > 0 {
			continue
		}
		switch l.Kind {
		case record.KindMarker:
			err = add(&markers, shownMarker{l.Number, l.Summary})
			if err == nil && from > 0 && l.Offset == from {
				err = add(&messages, newShownMessage(l.Number, &sessionlog.Message{Role: record.RoleUser, Content: l.Summary}))
			}
		case record.KindMessage:
			err = add(&messages, newShownMessage(l.Number, &l.Message))
		case record.KindUnknown:
			if t, ok := record.ParseTurn(l.Raw); ok {
				err = add(&turns, newShownTurn(l.Number, &t))
			}
		}
		if err != nil {
			return err
		}
	}
	if s.Size == 0 {
		damaged, damage = 1, append(damage, shownDamage{Line: 1, Message: "no meta line"})
	}
	head, err := cli.EncodeJSON(sessionHead{s.ID, s.File, op.SessionMetaOf(&i.Meta), max(first, 1)})
	if err != nil {
		return err
	}
	tail, err := cli.EncodeJSON(sessionTail{damaged, damage, torn})
	if err != nil {
		return err
	}
	// The messages are encoded once, and are much.
	c.Out.Write(bytes.TrimSuffix(head, []byte("}\n")))
	c.Out.WriteString(`,"messages":[`)
	c.Out.Write(messages.Bytes())
	c.Out.WriteString(`],"markers":[`)
	c.Out.Write(markers.Bytes())
	c.Out.WriteString(`],"turns":[`)
	c.Out.Write(turns.Bytes())
	c.Out.WriteString(`],`)
	_, err = c.Out.Write(tail[1:])
	return err
}

// shownSession is sessions show --json.
type shownSession struct {
	sessionHead
	Messages []shownMessage `json:"messages"`
	Markers  []shownMarker  `json:"markers"`
	Turns    []shownTurn    `json:"turns"`
	sessionTail
}

type sessionHead struct {
	ID   string         `json:"session"`
	File string         `json:"file"`
	Meta op.SessionMeta `json:"meta"`
	From int64          `json:"from_line"`
}

type sessionTail struct {
	Damaged int           `json:"damaged"`
	Damage  []shownDamage `json:"damage"`
	Torn    int64         `json:"torn_bytes"`
}
