// Package line encodes and decodes the lines of session files, finds them in a
// file, and reads the context with which a session resumes.
package line

import (
	"errors"
	"strings"
	"time"

	"crabmem/sessionlog/record"
)

// maxScratch is how much of the memory for unescaping is kept between lines.
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

// text returns the text of a string of the line; of anything else it is empty.
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
	for _, common := range commonTexts {
		if string(b) == common {
			return common
		}
	}
	return string(b)
}

const typeFunction = "function"

// commonTexts are texts that most lines contain; text allocates nothing for them.
var commonTexts = [...]string{record.RoleUser, record.RoleAssistant, record.RoleTool, record.RoleSystem, typeFunction}

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
	if m.Role == record.RoleUser {
		m.Work = record.WorkKeys(r.Line)
	}
	return m
}

// Calls yields the tool calls of a message. It parses the line again, so that
// classifying a line with many calls takes no memory.
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

// meta returns what a meta line says.
func (r *Record) Meta() Meta {
	return Meta{
		Agent:      r.Text(r.Values[keyAgent]),
		CreatedBy:  r.Text(r.Values[keyCreatedBy]),
		CreatedAt:  r.Text(r.Values[keyCreatedAt]),
		Title:      r.Text(r.Values[keyTitle]),
		UptimeSecs: r.uptime,
		Source:     r.Text(r.Values[keySource]),
		Project:    r.Text(r.Values[keyProject]),
		Parent:     r.Text(r.Values[keyParent]),
		Workspace:  r.Text(r.Values[keyWorkspace]),
	}
}

// summary returns the text of a marker.
func (r *Record) Summary() string { return r.Text(r.Values[KeyCompact]) }

// IsResult reports whether a message is what a tool gave back.
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

// Message is one message of a conversation.
type Message struct {
	Role             string     `json:"role"`
	Content          string     `json:"content"`
	ReasoningContent string     `json:"reasoning_content"`
	ToolCallID       string     `json:"tool_call_id"` // of the call that a tool's message answers
	ToolCalls        []ToolCall `json:"tool_calls"`

	// Request is the ID of the client's request that a user message is from (S35).
	// Only Log.Request reads it.
	Request string `json:"-"`
	// Work lists the outcomes and messages that a user message delivers (S38).
	Work []string `json:"-"`
	// Sender is the sender of a user message. It is never written.
	Sender string `json:"-"`
	// Injected marks a message for one run. It is never written.
	Injected bool `json:"-"`
}

// ToolCall is a model's request to run a tool.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"` // "function"; written so when empty
	Function Function `json:"function"`
}

// Function is the function that a tool call calls.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON text
}

// Meta describes a session.
type Meta struct {
	Agent      string
	CreatedBy  string
	CreatedAt  string // RFC 3339; any string in a file of another program
	Title      string
	UptimeSecs uint64 // run time; of an imported session, from CreatedAt to its last message
	// Source identifies the origin of an imported session. Such a session is
	// read-only.
	Source string
	// Project is the name of the project that the session is about, or "".
	Project string
	// Parent is the session and the ID of the work that the session does, as in
	// crab_user_1/w7 (S37), or "".
	Parent string
	// Workspace is the real path of the workspace whose agents and skills the session
	// uses, or "".
	Workspace string
	// Request is the ID of the client's request for which the session was created
	// (S35). Only Dir.CreatedFor reads it.
	Request string
}

// workSender begins CreatedBy of a session that does work; the parent's CreatedBy follows.
const workSender = "work-"

// IsWork reports whether the session does work of another session (S37).
func (m *Meta) IsWork() bool { return m.Parent != "" && strings.HasPrefix(m.CreatedBy, workSender) }

// WorkMeta returns the meta line of a session that does work of the session with the ID
// id and m.
func (m *Meta) WorkMeta(id, work, agent string) Meta {
	return Meta{Agent: agent, CreatedBy: workSender + m.CreatedBy, Project: m.Project, Parent: id + "/" + work, Workspace: m.Workspace}
}

// SetEnd sets UptimeSecs of an imported session to the time from CreatedAt to its last
// message.
func (m *Meta) SetEnd(t time.Time) {
	if from, ok := m.Created(); ok && t.After(from) {
		m.UptimeSecs = uint64(t.Sub(from) / time.Second)
	}
}

// End returns the time of an imported session's last message. It returns false for
// other sessions, and if the source had no times.
func (m *Meta) End() (time.Time, bool) {
	from, ok := m.Created()
	const most = 1 << 32 // seconds
	return from.Add(time.Duration(min(m.UptimeSecs, most)) * time.Second), ok && m.Source != "" && from.Unix() > 0
}

// Created returns CreatedAt as a time, and false if it is not a time.
func (m *Meta) Created() (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, m.CreatedAt)
	return t, err == nil
}

// ErrInvalid is returned for values that a session file cannot contain: text
// that is not UTF-8, a message without a role, or a line over the limit.
var ErrInvalid = errors.New("invalid")
