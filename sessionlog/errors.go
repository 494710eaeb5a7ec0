package sessionlog

import (
	"errors"
	"fmt"
	"strings"
)

// What callers branch on. Every error says more than its class; ask with
// errors.Is. Who holds a lock is a vfs.LockedError.
var (
	// ErrNotFound is returned when no session has the id.
	ErrNotFound = errors.New("no such session")
	// ErrExists is returned when a session cannot be restored because one of
	// its id is there.
	ErrExists = errors.New("session exists")
	// ErrAmbiguous is returned when two files claim one id.
	ErrAmbiguous = errors.New("id of several files")
	// ErrFormat is returned when a file is not a session file or has a bad line
	// where none may be.
	ErrFormat = errors.New("not a valid session file")
	// ErrInvalid is returned for what no session file takes: text that is not
	// UTF-8, a message without a role or over the limit of a line.
	ErrInvalid = errors.New("invalid")
	// ErrReadOnly is returned for a write to an imported session.
	ErrReadOnly = errors.New("the session is read-only")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the session is closed")
	// ErrNotApplied is returned when a write was refused by the disk and is
	// certain not to have happened.
	ErrNotApplied = errors.New("not applied")
	// ErrUnknown is returned when a write may or may not have reached the
	// disk. The session takes no more writes until it is opened again, and that
	// tells.
	ErrUnknown = errors.New("outcome unknown")
	// ErrDisplaced is returned when another program removed, replaced or resized
	// a file of a session: see [DisplacedError].
	ErrDisplaced = errors.New("another program changed the session's files")
	// ErrStopped is returned, with the first error, by every write after one
	// whose outcome is unknown. Nothing of the later write was done.
	ErrStopped = errors.New("the session stopped taking writes")
)

// FormatError says where a file is not what FORMAT.md says. It is ErrFormat.
type FormatError struct {
	Path   string // empty for bytes without a file
	Line   int64  // from 1
	Offset int64  // of the line, from the start of the file
	Msg    string
}

func (e *FormatError) Error() string {
	var b strings.Builder
	if e.Path != "" {
		fmt.Fprintf(&b, "%s: ", e.Path)
	}
	fmt.Fprintf(&b, "line %d (offset %d): %s", e.Line, e.Offset, e.Msg)
	return b.String()
}

// Is makes a FormatError an ErrFormat.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }
