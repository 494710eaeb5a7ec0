package sessionlog

import "fmt"

// maxScratch is how much of the memory for unescaping is kept between lines.
const maxScratch = 1 << 20

// appendText appends the text of a string of the line.
func (r *record) appendText(dst []byte, s span) []byte {
	if s.typ != jsonString {
		return dst
	}
	if !s.escaped {
		return append(dst, r.line[s.lo:s.hi]...)
	}
	return appendUnescaped(dst, r.line[s.lo:s.hi])
}

// text returns the text of a string of the line; of anything else it is empty.
func (r *record) text(s span) string {
	if s.typ != jsonString {
		return ""
	}
	b := r.line[s.lo:s.hi]
	if s.escaped {
		r.scratch = appendUnescaped(r.scratch[:0], b)
		b = r.scratch
		if cap(r.scratch) > maxScratch {
			r.scratch = nil
		}
	}
	switch string(b) { // what every line has costs nothing
	case RoleUser:
		return RoleUser
	case RoleAssistant:
		return RoleAssistant
	case RoleTool:
		return RoleTool
	case RoleSystem:
		return RoleSystem
	case typeFunction:
		return typeFunction
	}
	return string(b)
}

const typeFunction = "function"

// message returns the message a line holds.
func (r *record) message() Message {
	m := Message{
		Role:             r.text(r.values[keyRole]),
		Content:          r.text(r.values[keyContent]),
		ReasoningContent: r.text(r.values[keyReasoning]),
		ToolCallID:       r.text(r.values[keyToolCallID]),
	}
	for l := range r.calls {
		m.ToolCalls = append(m.ToolCalls, ToolCall{
			ID:       r.text(l.id),
			Type:     r.text(l.typ),
			Function: Function{Name: r.text(l.name), Arguments: r.text(l.arguments)},
		})
	}
	return m
}

// calls yields the tool calls of a message. They are read anew, so that a line
// of any number of them costs no memory to classify.
func (r *record) calls(yield func(*call) bool) {
	s := r.values[keyToolCalls]
	if s.typ != jsonArray {
		return
	}
	c := cursor{b: r.line, i: int(s.lo) + 1}
	var l call
	var bad fault
	for start := true; c.element(start); start = false {
		if !l.read(&c, &bad) || !yield(&l) {
			return
		}
	}
}

// meta returns what a meta line says.
func (r *record) meta() Meta {
	return Meta{
		Agent:      r.text(r.values[keyAgent]),
		CreatedBy:  r.text(r.values[keyCreatedBy]),
		CreatedAt:  r.text(r.values[keyCreatedAt]),
		Title:      r.text(r.values[keyTitle]),
		UptimeSecs: r.uptime,
		Source:     r.text(r.values[keySource]),
	}
}

// summary returns the text of a marker.
func (r *record) summary() string { return r.text(r.values[keyCompact]) }

// UnmarshalJSON reads a message as a line of a session file holds it.
func (m *Message) UnmarshalJSON(b []byte) error {
	var r record
	if err := r.decodeAs(b, KindMessage); err != nil || r.kind != KindMessage {
		return err
	}
	*m = r.message()
	return nil
}

// UnmarshalJSON reads the first line of a session file.
func (m *Meta) UnmarshalJSON(b []byte) error {
	var r record
	if err := r.decodeAs(b, KindMeta); err != nil || r.kind != KindMeta {
		return err
	}
	*m = r.meta()
	return nil
}

// decodeAs decodes one record of a kind. A null is none and no error, as
// encoding/json has it.
func (r *record) decodeAs(b []byte, k Kind) error {
	if string(b) == "null" {
		return nil
	}
	r.decode(b, k == KindMeta)
	switch r.kind {
	case k:
		return nil
	case KindBad:
		return fmt.Errorf("%w: %s: %s", ErrFormat, k, r.reason())
	}
	return fmt.Errorf("%w: a %s where a %s belongs", ErrFormat, r.kind, k)
}
