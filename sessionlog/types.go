package sessionlog

import "crabmem/sessionlog/internal/line"

type (
	// Message is one message of a conversation.
	Message = line.Message
	// ToolCall is a model's request to run a tool.
	ToolCall = line.ToolCall
	// Function is the function that a tool call calls.
	Function = line.Function
	// Meta describes a session.
	Meta = line.Meta
	// Line is one line of a session file, or a record found in a bad line.
	Line = line.Line
	// Context is the input for resuming a session.
	Context = line.Context
)
