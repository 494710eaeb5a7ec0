package main

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// textIndent is the indentation of the text of a line, after its number.
const textIndent = "      "

// printLine prints a line of a session. The error is that of standard output.
func (c *app) printLine(l *sessionlog.Line) error {
	if d := damageOf(l); d != nil {
		what := "! invalid line"
		if l.Torn && l.Kind == record.KindBad {
			what = "! torn line"
		}
		why := fmt.Sprintf("offset %d, %s: %s", d.Offset, display.Plural(d.Bytes, "byte", "bytes"), display.Printable(d.Message))
		if l.Pieces > 0 {
			why += "; it contains " + display.Plural(l.Pieces, "complete record", "complete records") + ":"
		}
		c.printHead(l.Number, what, why)
	}
	switch l.Kind {
	case record.KindMessage:
		c.printMessage(l.Number, &l.Message)
	case record.KindMarker:
		c.printHead(l.Number, "compacted: this summary replaces the lines above", "")
		c.printText(textIndent, l.Summary)
	case record.KindMeta:
		c.printHead(l.Number, "created", fmt.Sprintf("%s with %s, %s", display.Label(l.Meta.Agent), display.Label(l.Meta.CreatedBy), display.TimeIn(l.Meta.CreatedAt, c.zone())))
	case record.KindMetaRecord:
		c.printHead(l.Number, "title "+display.Quoted(l.Meta.Title), fmt.Sprintf("ran %d s", l.Meta.UptimeSecs))
	case record.KindUnknown:
		if t, ok := record.ParseTurn(l.Raw); ok {
			c.printTurn(l.Number, &t)
			break
		}
		c.printHead(l.Number, "unknown record", cli.Fit(display.Printable(clip.Bytes(string(l.Raw), 256)), 72))
	}
	_, err := c.Out.Write(nil) // the error of the previous writes
	return err
}

// printHead prints the first line of a record.
func (c *app) printHead(number int64, what, more string) {
	if more != "" {
		more = c.Dim("  " + more)
	}
	fmt.Fprintf(c.Out, "%4d  %s%s\n", number, c.Bold(what), more)
}

func (c *app) printMessage(number int64, m *sessionlog.Message) {
	of := ""
	if m.ToolCallID != "" {
		of = "result of " + display.Label(m.ToolCallID)
	}
	c.printHead(number, display.Label(m.Role), of)
	if m.ReasoningContent != "" {
		c.Out.WriteString(textIndent + c.Dim("thinking:") + "\n")
		c.printText(textIndent+"  ", m.ReasoningContent)
	}
	c.printText(textIndent, m.Content)
	for i := range m.ToolCalls {
		call := &m.ToolCalls[i]
		fmt.Fprintf(c.Out, "%s→ %s%s\n", textIndent, display.Label(call.Function.Name), c.Dim("  "+display.Label(call.ID)))
		c.printText(textIndent+"  ", call.Function.Arguments)
	}
}

// printText prints a text indented and without control characters, so that it
// cannot imitate the lines around it.
func (c *app) printText(indent, s string) {
	for line := range strings.Lines(s) {
		if line = cli.PrintableLine(strings.TrimSuffix(line, "\n")); line != "" {
			c.Out.WriteString(indent)
		}
		c.Out.WriteString(line)
		c.Out.WriteByte('\n')
	}
}

// The forms of a session under --json.
type (
	shownMessage struct {
		Line int64 `json:"line"`
		sessionlog.Message
	}
	shownMarker struct {
		Line    int64  `json:"line"`
		Summary string `json:"summary"`
	}
	shownDamage struct {
		Line    int64  `json:"line"`
		Offset  int64  `json:"offset"`
		Bytes   int64  `json:"bytes"`
		Message string `json:"message"`
	}
)

// The lines of sessions tail --json, besides shownTurn.
type (
	tailDamage struct {
		Kind string `json:"kind" op:"words=bad|torn"`
		shownDamage
	}
	tailMessage struct {
		Kind string `json:"kind" op:"words=message"`
		shownMessage
	}
	tailMarker struct {
		Kind string `json:"kind" op:"words=marker"`
		shownMarker
	}
	tailMeta struct {
		Kind string `json:"kind" op:"words=meta"`
		Line int64  `json:"line"`
		op.SessionMeta
	}
	tailTitle struct {
		Kind       string `json:"kind" op:"words=title"`
		Line       int64  `json:"line"`
		Title      string `json:"title"`
		UptimeSecs uint64 `json:"uptime_secs"`
	}
	tailUnknown struct {
		Kind   string          `json:"kind" op:"words=unknown"`
		Line   int64           `json:"line"`
		Record json.RawMessage `json:"record"`
	}
)

func newShownMessage(line int64, m *sessionlog.Message) shownMessage {
	s := shownMessage{line, *m}
	s.ToolCalls = append([]sessionlog.ToolCall{}, m.ToolCalls...)
	return s
}

// damageOf returns the error of a line, or nil.
func damageOf(l *sessionlog.Line) *shownDamage {
	switch {
	case l.Kind == record.KindBad:
		return &shownDamage{l.Number, l.Offset, l.Size, l.Err.Msg}
	case l.Number == 1 && l.Kind != record.KindMeta && !l.Glued:
		return &shownDamage{1, 0, l.Size, fmt.Sprintf("no meta line: line 1 is of kind %s", l.Kind)}
	}
	return nil
}

// lineJSON returns the error of a line and its record as lines of JSON. A blank
// line gives no output.
func lineJSON(l *sessionlog.Line) ([]byte, error) {
	var out []byte
	add := func(v any) error {
		b, err := display.JSON(v)
		out = append(append(out, b...), '\n')
		return err
	}
	if d := damageOf(l); d != nil {
		kind := "bad"
		if l.Torn && l.Kind == record.KindBad {
			kind = "torn"
		}
		if err := add(tailDamage{kind, *d}); err != nil {
			return nil, err
		}
	}
	var err error
	switch l.Kind {
	case record.KindMessage:
		err = add(tailMessage{"message", newShownMessage(l.Number, &l.Message)})
	case record.KindMarker:
		err = add(tailMarker{"marker", shownMarker{l.Number, l.Summary}})
	case record.KindMeta:
		err = add(tailMeta{"meta", l.Number, op.SessionMetaOf(&l.Meta)})
	case record.KindMetaRecord:
		err = add(tailTitle{"title", l.Number, l.Meta.Title, l.Meta.UptimeSecs})
	case record.KindUnknown:
		if t, ok := record.ParseTurn(l.Raw); ok {
			err = add(newShownTurn(l.Number, &t))
			break
		}
		err = add(tailUnknown{"unknown", l.Number, l.Raw})
	}
	return out, err
}

// joinStreamed omits text records that a message or a marker replaces. It joins other
// successive text records to one line, with the number of the first.
func joinStreamed(lines iter.Seq2[sessionlog.Line, error]) iter.Seq2[sessionlog.Line, error] {
	return func(yield func(sessionlog.Line, error) bool) {
		var first sessionlog.Line
		var text strings.Builder
		flush := func() bool {
			if text.Len() == 0 {
				return true
			}
			b, err := display.JSON(text.String())
			first.Raw = append(append([]byte(record.TurnText), b...), "}}"...)
			text.Reset()
			return yield(first, err)
		}
		for l, err := range lines {
			t, ok := record.Turn{}, false
			switch l.Kind {
			case record.KindUnknown:
				t, ok = record.ParseTurn(l.Raw)
			case record.KindMessage, record.KindMarker:
				text.Reset()
			}
			if ok && t.Kind == "" {
				if text.Len() == 0 {
					first = l
				}
				text.WriteString(t.Text)
				continue
			}
			if ok && !flush() || !yield(l, err) {
				return
			}
		}
		flush()
	}
}

// turnEnd describes the end of a turn without an answer.
func turnEnd(t *record.Turn) string {
	if t.Kind == errtable.Cancelled {
		return "turn canceled"
	}
	return "turn failed"
}

// printTurn prints a turn record.
func (c *app) printTurn(number int64, t *record.Turn) {
	if t.Kind != "" {
		c.printHead(number, "! "+turnEnd(t), display.Label(t.Kind)+": "+display.Printable(t.Error))
		return
	}
	c.printHead(number, "assistant, partial", "incomplete response")
	c.printText(textIndent, t.Text)
}

// shownTurn is the JSON output of a turn record. The kind is partial or failed.
type shownTurn struct {
	Kind    string `json:"kind" op:"words=partial|failed"`
	Line    int64  `json:"line"`
	Text    string `json:"text"`
	Failure string `json:"failure"` // its kind
	Message string `json:"message"`
}

func newShownTurn(line int64, t *record.Turn) shownTurn {
	if t.Kind != "" {
		return shownTurn{Kind: "failed", Line: line, Failure: t.Kind, Message: t.Error}
	}
	return shownTurn{Kind: "partial", Line: line, Text: t.Text}
}
