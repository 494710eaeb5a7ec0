package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/chat"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
)

// An eventFilter selects events; empty fields match all.
type eventFilter struct{ session, agent string }

func (f *eventFilter) matches(m *client.Event) bool {
	if m.Kind == "lag" {
		return true // the missed events are unknown
	}
	return (f.session == "" || f.session == m.StoredID) && (f.agent == "" || f.agent == m.Agent)
}

// maxFolded limits the text of a line in bytes.
const maxFolded = 16 << 10

// An eventPrinter prints events: as JSON, or as lines. It joins the successive parts
// of a text to one line.
type eventPrinter struct {
	c     *app
	lines int
	open  *client.Event // an unfinished text
	text  strings.Builder
}

func (p *eventPrinter) print(m *client.Event) error {
	if p.c.JSON {
		p.lines++
		if err := p.c.PrintJSON(newEvent(m)); err != nil {
			return err
		}
		return p.c.Out.Flush()
	}
	if m.Kind == "text_delta" || m.Kind == "thinking_delta" {
		if o := p.open; o != nil && (o.Kind != m.Kind || o.Session != m.Session || p.text.Len() > maxFolded) {
			p.flush()
		}
		if p.open == nil {
			p.open = m
		}
		p.text.WriteString(m.Text)
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
	if p.open.Kind == "thinking_delta" {
		text = "(" + text + ")"
	}
	p.line(p.open, text)
	p.open = nil
	p.text.Reset()
}

func (p *eventPrinter) line(m *client.Event, text string) {
	at := m.Time
	if t, err := time.Parse(time.RFC3339Nano, m.Time); err == nil {
		at = t.Local().Format(time.TimeOnly)
	}
	where := cmp.Or(m.StoredID, strconv.FormatUint(m.Session, 10))
	p.lines++
	line := fmt.Sprintf("%s  %s  %s  %s", at, display.Label(where), display.Label(m.Agent), text)
	if m.Kind == "lag" {
		line = at + "  " + text
	}
	p.c.Out.WriteString(strings.TrimRight(cli.Fit(line, p.c.Width()), " ") + "\n")
}

// eventTexts returns the lines for an event that is not a delta event.
func eventTexts(m *client.Event) []string {
	switch m.Kind {
	case "user":
		return []string{"> " + display.Printable(display.OneLine(m.Text))}
	case "tool_result":
		return []string{"← " + display.Printable(m.Text)}
	case "tools_complete":
		return nil
	case "usage":
		if u := m.Usage; u != nil && u.ContextLimit > 0 {
			return []string{fmt.Sprintf("%d tokens of %d", u.Total, u.ContextLimit)}
		} else if u != nil {
			return []string{display.Plural(u.Total, "token", "tokens")}
		}
	case "done":
		if m.Err != nil {
			return []string{"failed: " + display.Printable(display.OneLine(m.Err.Message))}
		}
		return []string{"done"}
	case "scope_violation":
		return []string{"refused: " + display.Printable(m.Text)}
	case "lag":
		return []string{display.Plural(m.Lost, "event was", "events were") + " lost: this command read too slowly"}
	}
	if lines := chat.EventLines(m); lines != nil {
		return lines
	}
	return []string{strings.TrimSpace(m.Kind + " " + display.Printable(display.OneLine(m.Text)))}
}
