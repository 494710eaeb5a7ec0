package chat

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// The JSON object of a request. The fields are in the order of the members.
type (
	requestBody struct {
		Messages            []any           `json:"messages,omitzero"`
		Model               string          `json:"model,omitzero"`
		MaxCompletionTokens int             `json:"max_completion_tokens,omitzero"`
		MaxTokens           int             `json:"max_tokens,omitzero"`
		ReasoningEffort     string          `json:"reasoning_effort,omitzero"`
		StreamOptions       map[string]bool `json:"stream_options,omitzero"`
		ToolChoice          string          `json:"tool_choice,omitzero"`
		Tools               []requestTool   `json:"tools,omitzero"`
		Stream              bool            `json:"stream,omitzero"`
	}
	textMessage struct {
		Content    string        `json:"content"`
		ToolCalls  []requestCall `json:"tool_calls,omitzero"`
		ToolCallID *string       `json:"tool_call_id,omitzero"`
		Role       string        `json:"role"`
		Reasoning  *string       `json:"reasoning_content,omitzero"`
	}
	// callMessage is an assistant message without text. Its content is null.
	callMessage struct {
		ToolCalls []requestCall `json:"tool_calls"`
		Role      string        `json:"role"`
		Content   *string       `json:"content"`
		Reasoning *string       `json:"reasoning_content,omitzero"`
	}
	requestCall struct {
		ID       string          `json:"id"`
		Function requestFunction `json:"function"`
		Type     string          `json:"type"`
		Extra    json.RawMessage `json:"extra_content,omitzero"`
	}
	requestFunction struct {
		Arguments string `json:"arguments"`
		Name      string `json:"name"`
	}
	requestTool struct {
		Function toolFunction `json:"function"`
		Type     string       `json:"type"`
	}
	toolFunction struct {
		Name        string                     `json:"name"`
		Description string                     `json:"description,omitzero"`
		Parameters  map[string]json.RawMessage `json:"parameters"`
	}
)

// body returns the JSON text of a request as the endpoint expects it.
//
// The sender of a message is not sent. Reasoning is not sent back, because it
// costs tokens and most endpoints refuse or ignore it, unless
// Endpoint.KeepReasoning is set.
func (e *Endpoint) body(r Request, stream bool) ([]byte, error) {
	if len(r.Messages) == 0 {
		return nil, fmt.Errorf("the request has no messages")
	}
	b := requestBody{Model: r.Model, Stream: stream}
	known := func(name string) bool {
		return slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Name == name })
	}
	messages := r.Messages
	if len(r.Tools) == 0 {
		messages = withoutCalls(messages)
	}
	if e.Alternate {
		messages = alternating(messages)
	}
	for i := range messages {
		m := &messages[i]
		if isEmpty(m) {
			continue // some endpoints refuse it
		}
		b.Messages = append(b.Messages, e.message(m, known))
	}
	for _, t := range r.Tools {
		f, err := function(t)
		if err != nil {
			return nil, err
		}
		b.Tools = append(b.Tools, requestTool{f, "function"})
	}
	if len(b.Tools) > 0 {
		b.ToolChoice = "auto"
	}
	if r.Thinking {
		b.ReasoningEffort = "high"
	}
	if tokens := max(r.MaxTokens, 0); e.CompletionTokens {
		b.MaxCompletionTokens = tokens
	} else {
		b.MaxTokens = tokens
	}
	if stream {
		b.StreamOptions = map[string]bool{"include_usage": true}
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(b); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

func (e *Endpoint) message(m *sessionlog.Message, known func(tool string) bool) any {
	content := validUTF8(m.Content)
	switch m.Role {
	case record.RoleSystem:
		return textMessage{Content: content, Role: "system"}
	case record.RoleTool:
		id := e.callID(m.ToolCallID)
		return textMessage{Content: content, ToolCallID: &id, Role: "tool"}
	case record.RoleAssistant:
		return e.assistant(m, content, known)
	}
	return textMessage{Content: content, Role: "user"}
}

// assistant returns null for the content of a message that is only calls, as
// the reference does.
func (e *Endpoint) assistant(m *sessionlog.Message, content string, known func(tool string) bool) any {
	var calls []requestCall
	for i, c := range m.ToolCalls {
		name := c.Function.Name
		if !known(name) {
			name = toolName(name)
		}
		call := requestCall{
			ID: e.callID(c.ID), Type: "function",
			Function: requestFunction{Name: name, Arguments: argumentsObject(c.Function.Arguments)},
		}
		if e.Unsigned && i == 0 {
			call.Extra = unsigned
		}
		calls = append(calls, call)
	}
	var reasoning *string
	if e.KeepReasoning && len(calls) > 0 {
		reasoning = new(validUTF8(m.ReasoningContent))
	}
	if content == "" {
		return callMessage{ToolCalls: calls, Role: "assistant", Reasoning: reasoning}
	}
	return textMessage{Content: content, ToolCalls: calls, Role: "assistant", Reasoning: reasoning}
}

func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// callID puts another id in the place of one that the endpoint would refuse: it
// is of the endpoint that answered then.
func (e *Endpoint) callID(id string) string {
	if e.CallIDs == nil || e.CallIDs.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return base32.StdEncoding.EncodeToString(sum[:])[:9]
}

// toolName replaces invalid characters in the name of an unknown tool that a
// model called: endpoints refuse histories with such names.
func toolName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
	return cmp.Or(s[:min(len(s), 64)], "unnamed")
}

// unsigned is Google's substitute for missing signatures in histories of calls.
var unsigned = json.RawMessage(`{"google":{"thought_signature":"skip_thought_signature_validator"}}`)

// argumentsObject returns arguments as an object. Endpoints that parse
// arguments refuse a complete history if one call has invalid arguments, and so
// every later request of the session. A lone surrogate counts as invalid.
func argumentsObject(s string) string {
	s = strings.TrimSpace(s)
	var object map[string]json.RawMessage
	if s == "" {
		return "{}"
	}
	if json.Unmarshal([]byte(s), &object) == nil && object != nil && !hasLone(s) {
		return s
	}
	b, _ := json.Marshal(map[string]string{"invalid_arguments": s})
	return string(b)
}

// function copies a tool's schema as it is but for the order of its members.
func function(t Tool) (toolFunction, error) {
	f := toolFunction{Name: t.Name, Description: t.Description}
	if len(t.Parameters) == 0 {
		f.Parameters = map[string]json.RawMessage{"type": json.RawMessage(`"object"`), "properties": json.RawMessage(`{}`)}
		return f, nil
	}
	if err := json.Unmarshal(t.Parameters, &f.Parameters); err != nil {
		return f, fmt.Errorf("tool %s: its parameters are not a JSON object: %w", t.Name, err)
	}
	if f.Parameters == nil { // JSON null
		f.Parameters = map[string]json.RawMessage{}
	}
	return f, nil
}
