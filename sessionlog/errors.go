package sessionlog

import (
	"errors"

	"crabmem/sessionlog/internal/line"
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
	ErrFormat = line.ErrFormat
	// ErrInvalid is returned for what no session file takes: text that is not
	// UTF-8, a message without a role or over the limit of a line.
	ErrInvalid = line.ErrInvalid
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
