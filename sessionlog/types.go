package sessionlog

import (
	"time"

	"crabmem/sessionlog/internal/line"
)

// Roles of messages. A message may have any other.
const (
	RoleSystem    = line.RoleSystem
	RoleUser      = line.RoleUser
	RoleAssistant = line.RoleAssistant
	RoleTool      = line.RoleTool
)

// Kinds of lines.
const (
	KindBlank      = line.KindBlank      // only white space
	KindBad        = line.KindBad        // invalid: see Line.Err
	KindMeta       = line.KindMeta       // line 1: agent, sender, and time
	KindMessage    = line.KindMessage    // a message
	KindMarker     = line.KindMarker     // a compaction marker
	KindMetaRecord = line.KindMetaRecord // a title and a run time
	KindUnknown    = line.KindUnknown    // an object of another program
)

type (
	// Message is one message of a conversation.
	Message = line.Message
	// ToolCall is a model's request to run a tool.
	ToolCall = line.ToolCall
	// Function is the function that a tool call calls.
	Function = line.Function
	// Meta describes a session.
	Meta = line.Meta
	// Kind is the kind of a line.
	Kind = line.Kind
	// Line is one line of a session file, or a record found in a bad line.
	Line = line.Line
	// FormatError is the position and the cause of an ErrFormat.
	FormatError = line.FormatError
	// Context is the input for resuming a session.
	Context = line.Context
)

// Timestamp formats a time for Meta.CreatedAt.
func Timestamp(t time.Time) string { return line.Timestamp(t) }
