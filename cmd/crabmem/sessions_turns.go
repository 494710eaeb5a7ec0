package main

import (
	"bytes"
	"iter"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

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
			b, err := cli.EncodeJSON(text.String())
			first.Raw = append(append([]byte(record.TurnText), bytes.TrimSpace(b)...), "}}"...)
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

// printTurn prints a turn record.
func (c *app) printTurn(number int64, t *record.Turn) {
	if t.Kind != "" {
		c.printHead(number, "! turn failed", display.Label(t.Kind)+": "+display.Printable(t.Error))
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
