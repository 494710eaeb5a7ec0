package chat

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openai/openai-go"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// params returns a request as the endpoint expects it.
//
// The sender of a message is not sent. Reasoning is not sent back, because it
// costs tokens and most endpoints refuse or ignore it, unless
// Endpoint.KeepReasoning is set.
func (e *Endpoint) params(r Request, stream bool) (openai.ChatCompletionNewParams, error) {
	p := openai.ChatCompletionNewParams{Model: r.Model}
	if len(r.Messages) == 0 {
		return p, fmt.Errorf("the request has no messages")
	}
	names := namesOf(r.Tools)
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
		p.Messages = append(p.Messages, e.message(m, names))
	}
	for _, t := range r.Tools {
		f, err := function(t, names.name(t.Name))
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, openai.ChatCompletionToolParam{Function: f})
	}
	switch choice := cmp.Or(r.ToolChoice, "auto"); {
	case choice != "auto" && choice != "none" && choice != "required":
		if names.sent[choice] == "" {
			return p, fmt.Errorf("the request has no tool %q of tool_choice", choice)
		}
		p.ToolChoice = openai.ChatCompletionToolChoiceOptionParamOfChatCompletionNamedToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: names.name(choice)})
	case len(p.Tools) > 0:
		p.ToolChoice.OfAuto = openai.String(choice)
	}
	if r.Thinking {
		p.ReasoningEffort = openai.ReasoningEffortHigh
	}
	if r.MaxTokens > 0 && e.CompletionTokens {
		p.MaxCompletionTokens = openai.Int(int64(r.MaxTokens))
	} else if r.MaxTokens > 0 {
		p.MaxTokens = openai.Int(int64(r.MaxTokens))
	}
	if stream {
		p.StreamOptions.IncludeUsage = openai.Bool(true)
		p.SetExtraFields(map[string]any{"stream": true})
	}
	return p, nil
}

func (e *Endpoint) message(m *sessionlog.Message, names toolNames) openai.ChatCompletionMessageParamUnion {
	content := validUTF8(m.Content)
	switch m.Role {
	case record.RoleSystem:
		return openai.SystemMessage(content)
	case record.RoleTool:
		return openai.ToolMessage(content, e.callID(m.ToolCallID))
	case record.RoleAssistant:
		return openai.ChatCompletionMessageParamUnion{OfAssistant: e.assistant(m, content, names)}
	}
	return openai.UserMessage(content)
}

// assistant returns null for the content of a message that is only calls, as
// the reference does.
func (e *Endpoint) assistant(m *sessionlog.Message, content string, names toolNames) *openai.ChatCompletionAssistantMessageParam {
	var a openai.ChatCompletionAssistantMessageParam
	extra := make(map[string]any)
	if content == "" {
		extra["content"] = nil
	} else {
		a.Content.OfString = openai.String(content)
	}
	for i, c := range m.ToolCalls {
		call := openai.ChatCompletionMessageToolCallParam{ID: e.callID(c.ID)}
		call.Function.Name, call.Function.Arguments = names.name(c.Function.Name), argumentsObject(c.Function.Arguments)
		if e.Unsigned && i == 0 {
			call.SetExtraFields(map[string]any{"extra_content": unsigned})
		}
		a.ToolCalls = append(a.ToolCalls, call)
	}
	if e.KeepReasoning && len(m.ToolCalls) > 0 {
		extra["reasoning_content"] = validUTF8(m.ReasoningContent)
	}
	if len(extra) > 0 {
		a.SetExtraFields(extra)
	}
	return &a
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
func function(t Tool, name string) (openai.FunctionDefinitionParam, error) {
	f := openai.FunctionDefinitionParam{Name: name}
	if t.Description != "" {
		f.Description = openai.String(t.Description)
	}
	if len(t.Parameters) == 0 {
		f.Parameters = openai.FunctionParameters{"type": "object", "properties": struct{}{}}
		return f, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(t.Parameters, &members); err != nil {
		return f, fmt.Errorf("tool %s: its parameters are not a JSON object: %w", t.Name, err)
	}
	f.Parameters = make(openai.FunctionParameters, len(members))
	for name, v := range members {
		f.Parameters[name] = v
	}
	return f, nil
}
