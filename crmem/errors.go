package crmem

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"crabmem/crmem/internal/format"
)

// Errors that callers test with errors.Is. Each returned error adds details.
// The lock holder is in a vfs.LockedError. A closed store returns
// [fs.ErrClosed].
var (
	// ErrNotFound is returned when no entry has the name.
	ErrNotFound = errors.New("no such entry")
	// ErrExists is returned when an entry of the name exists already.
	ErrExists = errors.New("entry exists")
	// ErrKind is returned when an operation does not fit the entry's kind.
	ErrKind = errors.New("wrong kind of entry")
	// ErrAmbiguous is returned by Get for an alias of several entries.
	ErrAmbiguous = errors.New("alias of several entries")
	// ErrInvalid is returned for an invalid name, alias, or content.
	ErrInvalid = errors.New("invalid")
	// ErrStale is returned for an [Unchanged] that does not hold: an entry has
	// changed since it was read.
	ErrStale = errors.New("the entry has changed")
	// ErrCurrent is returned by Redact for a text that the entry has now.
	ErrCurrent = errors.New("the entry has this text now")
	// ErrNoStore is returned when the store's file is missing and the call
	// does not create one.
	ErrNoStore = errors.New("no store")
	// ErrFormat is returned when a file is not a valid store.
	ErrFormat = format.ErrFormat
	// ErrNewer is returned, together with ErrFormat, for a file that a newer program
	// wrote and considers valid. A repair would remove entries from it.
	ErrNewer = format.ErrNewer
	// ErrOlder is returned, together with ErrFormat, for a log version that this program
	// no longer reads.
	ErrOlder = format.ErrOlder
	// ErrForeign is returned when snapshot, log and lock do not belong together:
	// another program wrote, replaced or removed one of them.
	ErrForeign = errors.New("mismatched store files")
	// ErrReadOnly is returned for a write to a store opened for reading.
	ErrReadOnly = errors.New("the store is open for reading only")
	// ErrFull is returned for a write that would make the store exceed
	// [Options.MaxBytes].
	ErrFull = errors.New("the store is full")
	// ErrNotApplied is returned when a write was refused by the disk and is
	// certain not to have happened.
	ErrNotApplied = errors.New("not applied")
	// ErrUnknown is returned if the outcome of a write is unknown. The store is
	// fail-stop: it refuses later writes. Reopen it to read the outcome.
	ErrUnknown = errors.New("outcome unknown")
	// ErrStopped is returned, with the first error, by every write after one
	// whose outcome is unknown. The later write has no effect.
	ErrStopped = errors.New("the store is stopped after a failed write")
)

// errClosed is the [fs.ErrClosed] of a store.
var errClosed closedError

type closedError struct{}

func (closedError) Error() string { return "the store is closed" }

func (closedError) Is(target error) bool { return target == fs.ErrClosed }

// isOtherVersion reports whether an error about a log names another version.
func isOtherVersion(err error) bool { return errors.Is(err, ErrNewer) || errors.Is(err, ErrOlder) }

// FormatError states where a file differs from FORMAT.md: Path, Offset, the
// position Entry (-1 outside the entries), Field, and Msg. It matches [ErrFormat]
// and, if Newer is set, [ErrNewer], or, if Older is set, [ErrOlder].
type FormatError = format.Error

// AmbiguousError names the entries that share an alias, or that have canonically
// equivalent names. It is ErrAmbiguous.
type AmbiguousError struct {
	Alias  string
	Owners []string // names, by ascending id
}

func (e *AmbiguousError) Error() string {
	if slices.ContainsFunc(e.Owners, func(owner string) bool { return SameName(owner, e.Alias) }) {
		return fmt.Sprintf("no entry has the name %+q, but %d entries have equivalent names: %+q", e.Alias, len(e.Owners), e.Owners)
	}
	return fmt.Sprintf("%q is an alias of %d entries: %s", e.Alias, len(e.Owners), strings.Join(e.Owners, ", "))
}

// Is makes an AmbiguousError an ErrAmbiguous.
func (e *AmbiguousError) Is(target error) bool { return target == ErrAmbiguous }

// nameError attaches the name of an entry to an error's class.
type nameError struct {
	class error
	name  string
	more  string
}

func (e *nameError) Error() string {
	s := fmt.Sprintf("%s: %q", e.class, e.name)
	if e.more != "" {
		s += ": " + e.more
	}
	return s
}

func (e *nameError) Unwrap() error { return e.class }

// opCount prints as a number of operations.
type opCount int

func (n opCount) String() string {
	if n == 1 {
		return "1 operation"
	}
	return fmt.Sprintf("%d operations", int(n))
}
