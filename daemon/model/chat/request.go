package chat

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"crabmem/sessionlog"
)

// params writes a request as the endpoint takes it.
//
// Injected messages are sent as any other; who a message is from is not sent.
// Reasoning is not sent back, for it costs tokens and most endpoints refuse or
// ignore it, but where Endpoint.KeepReasoning says that the endpoint wants it.
func (e *Endpoint) params(r Request, stream bool) (openai.ChatCompletionNewParams, error) {
	p := openai.ChatCompletionNewParams{Model: r.Model}
	if len(r.Messages) == 0 {
		return p, fmt.Errorf("the request has no messages")
	}
	known := func(name string) bool {
		return slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Name == name })
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		if m.Role == sessionlog.RoleAssistant && m.Content == "" && len(m.ToolCalls) == 0 {
			continue // it says nothing, and some endpoints refuse it
		}
		p.Messages = append(p.Messages, e.message(m, known))
	}
	for _, t := range r.Tools {
		f, err := function(t)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(f))
	}
	if len(p.Tools) > 0 {
		p.ToolChoice.OfAuto = param.NewOpt("auto")
	}
	if r.Thinking {
		p.ReasoningEffort = shared.ReasoningEffortHigh
	}
	if r.MaxTokens > 0 && e.CompletionTokens {
		p.MaxCompletionTokens = param.NewOpt(int64(r.MaxTokens))
	} else if r.MaxTokens > 0 {
		p.MaxTokens = param.NewOpt(int64(r.MaxTokens))
	}
	if stream {
		p.StreamOptions.IncludeUsage = param.NewOpt(true)
	}
	return p, nil
}

func (e *Endpoint) message(m *sessionlog.Message, known func(tool string) bool) openai.ChatCompletionMessageParamUnion {
	content := strings.ToValidUTF8(m.Content, "\uFFFD")
	switch m.Role {
	case sessionlog.RoleSystem:
		return openai.SystemMessage(content)
	case sessionlog.RoleTool:
		return openai.ToolMessage(content, e.callID(m.ToolCallID))
	case sessionlog.RoleAssistant:
		return e.assistant(m, content, known)
	}
	return openai.UserMessage(content)
}

// assistant writes null for the content of a message that is only calls, as
// the reference does.
func (e *Endpoint) assistant(m *sessionlog.Message, content string, known func(tool string) bool) openai.ChatCompletionMessageParamUnion {
	var a openai.ChatCompletionAssistantMessageParam
	extra := make(map[string]any)
	if content == "" {
		extra["content"] = nil
	} else {
		a.Content.OfString = param.NewOpt(content)
	}
	for i, c := range m.ToolCalls {
		name := c.Function.Name
		if !known(name) {
			name = toolName(name)
		}
		call := &openai.ChatCompletionMessageFunctionToolCallParam{
			ID: e.callID(c.ID),
			Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{
				Name: name, Arguments: argumentsObject(c.Function.Arguments),
			},
		}
		if e.Unsigned && i == 0 {
			call.SetExtraFields(map[string]any{"extra_content": unsigned})
		}
		a.ToolCalls = append(a.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{OfFunction: call})
	}
	if e.KeepReasoning && len(m.ToolCalls) > 0 {
		extra["reasoning_content"] = strings.ToValidUTF8(m.ReasoningContent, "\uFFFD")
	}
	if len(extra) > 0 {
		a.SetExtraFields(extra)
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &a}
}

// callID puts another id in the place of one that the endpoint would refuse: it
// is of the endpoint that answered then.
func (e *Endpoint) callID(id string) string {
	if e.CallIDs == nil || e.CallIDs.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return base32.StdEncoding.EncodeToString(sum[:])[:9]
}

// toolName makes a name of what a model called a tool that there is not:
// endpoints refuse histories with other names.
func toolName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
	return cmp.Or(s[:min(len(s), 64)], "unnamed")
}

// unsigned is what Google has for histories whose calls were kept without the
// signatures that its models give them.
var unsigned = map[string]any{"google": map[string]any{"thought_signature": "skip_thought_signature_validator"}}

// argumentsObject makes an object of what a model wrote: endpoints that parse the
// arguments in a history refuse all of it for one call that is none, and with
// it every later request of the session. A lone surrogate counts as invalid.
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
func function(t Tool) (shared.FunctionDefinitionParam, error) {
	f := shared.FunctionDefinitionParam{Name: t.Name}
	if t.Description != "" {
		f.Description = param.NewOpt(t.Description)
	}
	if len(t.Parameters) == 0 {
		f.Parameters = shared.FunctionParameters{"type": "object", "properties": struct{}{}}
		return f, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(t.Parameters, &members); err != nil {
		return f, fmt.Errorf("tool %s: its parameters are not a JSON object: %w", t.Name, err)
	}
	f.Parameters = make(shared.FunctionParameters, len(members))
	for k, v := range members {
		f.Parameters[k] = v
	}
	return f, nil
}
