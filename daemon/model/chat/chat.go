// Package chat is a client of the chat completions of one OpenAI-compatible
// endpoint. A call is one attempt. Package model adds retries, model names, and
// kinds of providers; other packages use its aliases of these types.
package chat

import (
	"encoding/json"
	"time"

	"crabmem/sessionlog"
)

// Limits of an endpoint's responses.
const (
	maxStream    = 64 << 20 // bytes of a stream, decompressed
	maxEvent     = 4 << 20  // bytes of one event of a stream
	maxBody      = 8 << 20  // bytes of an answer that is not streamed
	maxErrorBody = 64 << 10 // bytes that are read of an error's body
	maxAnswer    = 8 << 20  // bytes of text, reasoning and arguments
	maxArguments = 1 << 20  // bytes of one call's arguments
	maxCalls     = 128      // tool calls of one answer
)

// Request is a request to a model.
type Request struct {
	Model    string // empty: the active one
	Messages []sessionlog.Message
	Tools    []Tool
	// ToolChoice is auto, none, required, or the name of a tool; "" is auto.
	ToolChoice string
	Thinking   bool // high reasoning effort
	MaxTokens  int  // of the answer; 0 leaves it to the endpoint

	// Timeout is for the first byte, in place of the provider's. The first byte
	// of an answer that is not streamed comes when all of it is written.
	Timeout time.Duration
	// Once permits only one attempt, with one model.
	Once bool
	// Until is when the first byte is due at the latest, with all attempts; zero: the
	// time-outs alone apply. Followed is set if another model follows this one.
	Until    time.Time
	Followed bool

	// OnNotice is called with what the user should know before the response, such as a
	// wait for another attempt. OnProgress is called with the part of the prompt that the
	// server has read, from 0 to 100. They may be nil.
	OnNotice   func(text string)
	OnProgress func(percent int)
}

// Tool is a tool that the model may call.
type Tool struct {
	Name, Description string
	Parameters        json.RawMessage // JSON Schema of an object
}

// Notice calls OnNotice.
func (r *Request) Notice(text string) {
	if r.OnNotice != nil {
		r.OnNotice(text)
	}
}

// Chunk is a piece of a streamed answer. Any of its fields may be empty.
type Chunk struct {
	Content, Reasoning string
	Calls              []CallDelta
	Finish             string // why the answer ends; in the last chunk
	Usage              *Usage // once
	Model              string // the model that responds if it is not the requested one; in the first chunk
}

// CallDelta is a part of a tool call: nonempty ID, Type, and Name replace
// earlier values, and Arguments is appended. The first part of a call has an
// ID. Arguments arrive complete, in the last chunk of a response.
type CallDelta struct {
	Index                     int // of the call in the answer, from 0 without gaps
	ID, Type, Name, Arguments string
}

// Usage is the token count of a response.
type Usage struct {
	Prompt, Completion, Total int
}

// Response is a complete response.
type Response struct {
	Message sessionlog.Message
	Finish  string
	Usage   *Usage // nil if the endpoint does not report it
	Model   string // the model that responds if it is not the requested one
}

// replace sets *s to a text that is not empty.
func replace(s *string, by string) {
	if by != "" {
		*s = by
	}
}
