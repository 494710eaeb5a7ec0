// Package chat speaks the chat completions of one OpenAI-compatible endpoint. A
// call is one attempt: retries, names of models and kinds of providers are those of
// package model, whose aliases of these types are what other packages use.
package chat

import (
	"encoding/json"
	"time"

	"crabmem/sessionlog"
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

// replace sets *s to a text that is not empty.
func replace(s *string, by string) {
	if by != "" {
		*s = by
	}
}
