// Package line encodes and decodes the lines of session files, finds them in a
// file, and reads the context with which a session resumes.
package line

import "time"

// Message is one message of a conversation. Its line in a session file is its
// JSON form.
type Message struct {
	Role             string
	Content          string
	ReasoningContent string
	ToolCallID       string // of the call that a tool's message answers
	ToolCalls        []ToolCall

	// Sender is the sender of a user message. It is never written.
	Sender string
	// Injected marks a message for one run. It is never written.
	Injected bool
}

// ToolCall is a model's request to run a tool.
type ToolCall struct {
	ID       string
	Type     string // "function"; written so when empty
	Function Function
}

// Function is the function that a tool call calls.
type Function struct {
	Name      string
	Arguments string // JSON text
}

// Meta describes a session.
type Meta struct {
	Agent      string
	CreatedBy  string
	CreatedAt  string // RFC 3339; any string in a file of another program
	Title      string
	UptimeSecs uint64
	// Source identifies the origin of an imported session. Such a session is
	// read-only.
	Source string
}

// Created returns CreatedAt as a time, and false if it is not a time.
func (m *Meta) Created() (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, m.CreatedAt)
	return t, err == nil
}
