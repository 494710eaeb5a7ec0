package line

import (
	"fmt"

	"crabmem/sessionlog/record"
)

// MaxScratch limits the memory for unescaping that is kept between lines.
const MaxScratch = 1 << 20

// appendText appends the text of a string of the line.
func (r *Record) AppendText(dst []byte, s Span) []byte {
	if s.Type != String {
		return dst
	}
	if !s.Escaped {
		return append(dst, r.Line[s.Lo:s.Hi]...)
	}
	return appendUnescaped(dst, r.Line[s.Lo:s.Hi])
}

// Text returns the text of a string of the line, or "" for other types.
func (r *Record) Text(s Span) string {
	if s.Type != String {
		return ""
	}
	b := r.Line[s.Lo:s.Hi]
	if s.Escaped {
		r.scratch = appendUnescaped(r.scratch[:0], b)
		b = r.scratch
		if cap(r.scratch) > MaxScratch {
			r.scratch = nil
		}
	}
	switch string(b) { // common values without an allocation
	case record.RoleUser:
		return record.RoleUser
	case record.RoleAssistant:
		return record.RoleAssistant
	case record.RoleTool:
		return record.RoleTool
	case record.RoleSystem:
		return record.RoleSystem
	case typeFunction:
		return typeFunction
	}
	return string(b)
}

const typeFunction = "function"

// message returns the message a line holds.
func (r *Record) Message() Message {
	m := Message{
		Role:             r.Text(r.Values[KeyRole]),
		Content:          r.Text(r.Values[KeyContent]),
		ReasoningContent: r.Text(r.Values[keyReasoning]),
		ToolCallID:       r.Text(r.Values[KeyToolCallID]),
	}
	for l := range r.Calls {
		m.ToolCalls = append(m.ToolCalls, ToolCall{
			ID:       r.Text(l.ID),
			Type:     r.Text(l.typ),
			Function: Function{Name: r.Text(l.Name), Arguments: r.Text(l.Arguments)},
		})
	}
	return m
}

// Calls yields the tool calls of a message. It parses them again, so that
// classifying a line needs no memory per call.
func (r *Record) Calls(yield func(*call) bool) {
	s := r.Values[KeyToolCalls]
	if s.Type != Array {
		return
	}
	c := cursor{b: r.Line, i: int(s.Lo) + 1}
	var l call
	var bad fault
	for start := true; c.element(start); start = false {
		if !l.read(&c, &bad) || !yield(&l) {
			return
		}
	}
}

// Meta returns the content of a meta line.
func (r *Record) Meta() Meta {
	return Meta{
		Agent:      r.Text(r.Values[keyAgent]),
		CreatedBy:  r.Text(r.Values[keyCreatedBy]),
		CreatedAt:  r.Text(r.Values[keyCreatedAt]),
		Title:      r.Text(r.Values[keyTitle]),
		UptimeSecs: r.uptime,
		Source:     r.Text(r.Values[keySource]),
	}
}

// summary returns the text of a marker.
func (r *Record) Summary() string { return r.Text(r.Values[KeyCompact]) }

// UnmarshalJSON reads a message as a line of a session file holds it.
func (m *Message) UnmarshalJSON(b []byte) error {
	var r Record
	if err := r.decodeAs(b, record.KindMessage); err != nil || r.Kind != record.KindMessage {
		return err
	}
	*m = r.Message()
	return nil
}

// UnmarshalJSON reads the first line of a session file.
func (m *Meta) UnmarshalJSON(b []byte) error {
	var r Record
	if err := r.decodeAs(b, record.KindMeta); err != nil || r.Kind != record.KindMeta {
		return err
	}
	*m = r.Meta()
	return nil
}

// decodeAs decodes one record of a kind. A null decodes to no record without an
// error, as in encoding/json.
func (r *Record) decodeAs(b []byte, k record.Kind) error {
	if string(b) == "null" {
		return nil
	}
	r.Decode(b, k == record.KindMeta)
	switch r.Kind {
	case k:
		return nil
	case record.KindBad:
		return fmt.Errorf("%w: %s: %s", record.ErrFormat, k, r.Reason())
	}
	return fmt.Errorf("%w: got a %s, want a %s", record.ErrFormat, r.Kind, k)
}

// IsResult reports whether a message is the result of a tool call.
func (r *Record) IsResult() bool {
	if id := r.Values[KeyToolCallID]; id.Type == String && id.Lo < id.Hi {
		return true
	}
	switch r.Text(r.Values[KeyRole]) {
	case record.RoleTool, "function":
		return true
	}
	return false
}
