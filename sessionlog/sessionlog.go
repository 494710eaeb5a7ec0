// Package sessionlog stores sessions as append-only files of JSON lines.
//
// A [Dir] is a folder of sessions. A [Log] is a session open for writing, and a
// [Session] is a session open for reading. Package search finds messages in all
// sessions of a folder. FORMAT.md defines the bytes, which are those of RFC 0064.
// DESIGN.md gives the reasons.
package sessionlog

import (
	"errors"

	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
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
	// Line is one line of a session file, or a record found in a bad line.
	Line = line.Line
	// Context is the input for resuming a session.
	Context = line.Context
)

// Classes of errors, for errors.Is. A *vfs.LockedError names the lock holder.
var (
	// ErrNotFound is returned if no session has the ID.
	ErrNotFound = errors.New("no such session")
	// ErrExists is returned by a move if the target folder contains a session
	// with the same ID or file name.
	ErrExists = errors.New("session exists")
	// ErrAmbiguous is returned if two files have one ID.
	ErrAmbiguous = errors.New("ambiguous session ID")
	// ErrFormat is returned for a file that is not a session file, and for a bad
	// line where the rules allow none. A *[record.FormatError] has the position.
	ErrFormat = record.ErrFormat
	// ErrInvalid is returned for values that a session file cannot contain: text
	// that is not UTF-8, a message without a role, or a line over the limit.
	ErrInvalid = line.ErrInvalid
	// ErrReadOnly is returned for a write to an imported session.
	ErrReadOnly = errors.New("session is read-only")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("session is closed")
	// ErrNotApplied is returned if a write failed and changed nothing.
	ErrNotApplied = errors.New("not applied")
	// ErrUnknown is returned if the outcome of a write is unknown. The session is
	// fail-stop until it is opened again, and recovery determines the outcome.
	ErrUnknown = errors.New("outcome unknown")
	// ErrDisplaced is returned if another program removed, replaced, or resized
	// a file of a session. See [DisplacedError].
	ErrDisplaced = errors.New("another program changed the session's files")
	// ErrStopped is returned by each write after a write with an unknown outcome,
	// and wraps the first error. The later write changes nothing.
	ErrStopped = errors.New("session is stopped")
)
