package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/chat"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/agent"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
)

// An eventFilter selects events; empty fields match all.
type eventFilter struct{ session, agent string }

func (f *eventFilter) matches(m *agent.Event) bool {
	if m.Kind == agent.Lag {
		return true // the missed events are unknown
	}
	return (f.session == "" || f.session == m.Session) && (f.agent == "" || f.agent == m.Agent)
}

// maxFolded limits the text of a line in bytes.
const maxFolded = 16 << 10

// An eventPrinter prints events: as JSON, or as lines. It joins the successive parts
// of a text to one line.
type eventPrinter struct {
	c     *app
	lines int
	open  *agent.Event // an unfinished text
	text  strings.Builder
}

func (p *eventPrinter) print(m *agent.Event) error {
	if p.c.JSON {
		p.lines++
		if err := p.c.PrintJSON(newEventLine(*m)); err != nil {
			return err
		}
		return p.c.Out.Flush()
	}
	if m.Kind == agent.TextDelta || m.Kind == agent.ThinkingDelta {
		if o := p.open; o != nil && (o.Kind != m.Kind || o.Number != m.Number || p.text.Len() > maxFolded) {
			p.flush()
		}
		if p.open == nil {
			p.open = m
		}
		p.text.WriteString(m.Content)
		return nil
	}
	p.flush()
	for _, line := range eventTexts(m) {
		p.line(m, line)
	}
	return p.c.Out.Flush()
}

// flush prints an unfinished text.
func (p *eventPrinter) flush() {
	if p.open == nil {
		return
	}
	text := display.Printable(display.OneLine(p.text.String()))
	if p.open.Kind == agent.ThinkingDelta {
		text = "(" + text + ")"
	}
	p.line(p.open, text)
	p.open = nil
	p.text.Reset()
}

func (p *eventPrinter) line(m *agent.Event, text string) {
	at := m.Time
	if t, err := time.Parse(time.RFC3339Nano, m.Time); err == nil {
		at = t.Local().Format(time.TimeOnly)
	}
	where := cmp.Or(m.Session, strconv.FormatUint(m.Number, 10))
	p.lines++
	line := fmt.Sprintf("%s  %s  %s  %s", at, display.Label(where), display.Label(m.Agent), text)
	if m.Kind == agent.Lag {
		line = at + "  " + text
	}
	p.c.Out.WriteString(strings.TrimRight(cli.Fit(line, p.c.Width()), " ") + "\n")
}

// eventTexts returns the lines for an event that is not a delta event.
func eventTexts(m *agent.Event) []string {
	switch m.Kind {
	case agent.User:
		return []string{"> " + display.Printable(display.OneLine(m.Content))}
	case agent.ToolResult:
		return []string{"← " + display.Printable(m.Content)}
	case agent.ToolsComplete:
		return nil
	case agent.Usage:
		if u := m.Usage; u != nil && u.Limit > 0 {
			return []string{fmt.Sprintf("%d tokens of %d", u.Prompt+u.Completion, u.Limit)}
		} else if u != nil {
			return []string{display.Plural(u.Prompt+u.Completion, "token", "tokens")}
		}
	case agent.Done:
		if m.Error != nil && m.Error.Kind == errtable.Cancelled {
			return []string{"canceled"}
		}
		if m.Error != nil {
			return []string{"failed: " + display.Printable(display.OneLine(m.Error.Message))}
		}
		return []string{"done"}
	case agent.Refused:
		return []string{"refused: " + display.Printable(m.Content)}
	case agent.Progress:
		return []string{display.Printable(m.Note)}
	case agent.Lag:
		return []string{display.Plural(m.Lost, "event was", "events were") + " lost: this command read too slowly"}
	}
	if lines := chat.EventLines(m); lines != nil {
		return lines
	}
	return []string{strings.TrimSpace(string(m.Kind) + " " + display.Printable(display.OneLine(m.Content)))}
}
