// Package chat speaks the chat completions of one OpenAI-compatible endpoint. A
// call is one attempt: retries, names of models and kinds of providers are those of
// package model, whose aliases of these types are what other packages use.
package chat

import (
	"encoding/json"
	"strings"
	"time"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// Bounds of what is believed of an endpoint.
const (
	maxStream    = 64 << 20 // bytes of a stream, decompressed
	maxEvent     = 4 << 20  // bytes of one event of a stream
	maxBody      = 8 << 20  // bytes of an answer that is not streamed
	maxErrorBody = 64 << 10 // bytes that are read of an error's body
	maxAnswer    = 8 << 20  // bytes of text, reasoning and arguments
	maxArguments = 1 << 20  // bytes of one call's arguments
	maxCalls     = 128      // tool calls of one answer
)

// Request is what a model is asked.
type Request struct {
	Model     string // empty: the active one
	Messages  []sessionlog.Message
	Tools     []Tool
	Thinking  bool // asks for high reasoning effort
	MaxTokens int  // of the answer; 0 leaves it to the endpoint

	// Timeout is for the first byte, in place of the provider's. The first byte
	// of an answer that is not streamed comes when all of it is written.
	Timeout time.Duration
}

// Tool is a tool that the model may call.
type Tool struct {
	Name, Description string
	Parameters        json.RawMessage // JSON Schema of an object
}

// Chunk is a piece of a streamed answer. Any of its fields may be empty.
type Chunk struct {
	Content, Reasoning string
	Calls              []CallDelta
	Finish             string // why the answer ends; once
	Usage              *Usage // once, with Finish or after it
	Model              string // who answers in place of the one asked; in the first chunk
}

// CallDelta is a piece of a tool call: ID, Type and Name replace what was sent
// before when they are not empty, Arguments goes on from it. The first piece
// of a call has an ID.
type CallDelta struct {
	Index                     int // of the call in the answer, from 0 without gaps
	ID, Type, Name, Arguments string
}

// Usage is how many tokens an answer took.
type Usage struct {
	Prompt, Completion, Total int
}

// Response is a whole answer.
type Response struct {
	Message sessionlog.Message
	Finish  string
	Usage   *Usage // nil when the endpoint does not tell
	Model   string // who answers in place of the one asked
}

// Collector puts the chunks of a stream together. Its zero value is empty.
type Collector struct {
	content, reasoning strings.Builder
	calls              []sessionlog.ToolCall
	arguments          []strings.Builder
	r                  Response
}

// Add takes the next chunk.
func (c *Collector) Add(k Chunk) {
	c.content.WriteString(k.Content)
	c.reasoning.WriteString(k.Reasoning)
	for _, d := range k.Calls {
		for d.Index >= len(c.calls) {
			c.calls = append(c.calls, sessionlog.ToolCall{})
			c.arguments = append(c.arguments, strings.Builder{})
		}
		call := &c.calls[d.Index]
		replace(&call.ID, d.ID)
		replace(&call.Type, d.Type)
		replace(&call.Function.Name, d.Name)
		c.arguments[d.Index].WriteString(d.Arguments)
	}
	replace(&c.r.Finish, k.Finish)
	replace(&c.r.Model, k.Model)
	if k.Usage != nil {
		c.r.Usage = k.Usage
	}
}

func replace(s *string, by string) {
	if by != "" {
		*s = by
	}
}

// Response returns the answer so far. Calls without a name are left out: there
// is nothing to run.
func (c *Collector) Response() *Response {
	r := c.r
	r.Message = sessionlog.Message{
		Role: record.RoleAssistant, Content: c.content.String(), ReasoningContent: c.reasoning.String(),
	}
	for i, call := range c.calls {
		if call.Function.Name == "" {
			continue
		}
		call.Function.Arguments = c.arguments[i].String()
		r.Message.ToolCalls = append(r.Message.ToolCalls, call)
	}
	return &r
}
