package agent

import (
	"context"
	"time"

	"crabmem/daemon/tool"
	"crabmem/sessionlog"
)

// Kind is the kind of an event.
type Kind uint8

// The kinds of events, and the fields of Event that each has.
const (
	TextDelta     Kind = iota + 1 // Text
	ThinkingDelta                 // Text
	ToolStart                     // Calls; Early if only names are known
	AskUser                       // Questions
	ToolResult                    // Result
	ToolsComplete                 // without data
	Usage                         // Usage
	Compacted                     // Text is the summary, Archive its entry
	Refused                       // Refused
	Notice                        // Text is something the user should know
	Done                          // Text is the answer, Stop and Err why it ended; the last event
	Appended                      // Text is the user's input, Line its message; Repeated
)

// Event is something that happened in a run.
type Event struct {
	Kind      Kind
	Text      string
	Line      int64 // of the session's file; 0 if the input has no request ID
	Repeated  bool  // an earlier run answered the request
	Calls     []sessionlog.ToolCall
	Early     bool
	Questions []Question
	Result    Result
	Usage     TokenUsage
	Archive   string
	Refused   *tool.Violation
	Stop      Stop
	Err       error
}

// Result is the result of a tool call.
type Result struct {
	CallID, Name, Output string
	Failed               bool
	Took                 time.Duration
}

// TokenUsage is how full the context is after a model's answer, in tokens.
type TokenUsage struct {
	Prompt, Completion int
	Limit              int  // of the model's context
	Estimated          bool // the provider did not report it: bytes / 4
}

// Question is one question to the user.
type Question struct {
	Question    string   `json:"question" jsonschema:"what to ask"`
	Header      string   `json:"header" jsonschema:"a few words that name the question"`
	Options     []Option `json:"options" jsonschema:"answers to choose from"`
	MultiSelect bool     `json:"multi_select,omitempty" jsonschema:"more than one may be chosen"`
}

// Option is one answer to choose.
type Option struct {
	Label       string `json:"label" jsonschema:"the answer"`
	Description string `json:"description" jsonschema:"what choosing it means"`
}

// Stop is the reason why a run ended.
type Stop uint8

// Why a run ends. Every one but Answered comes with an error.
const (
	Answered  Stop = iota + 1 // the model gave an answer
	Exhausted                 // the model requested more steps than the limit
	Cancelled                 // the caller disconnected or cancelled
	Failed                    // the model, the log or a rule
)

type emitKey struct{}

// Emit sends an event of a running tool to the run's caller.
func Emit(ctx context.Context, e Event) {
	if emit, ok := ctx.Value(emitKey{}).(func(Event)); ok {
		emit(e)
	}
}
