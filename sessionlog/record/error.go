package record

import (
	"errors"
	"fmt"
	"strings"
)

// ErrFormat is returned for a file that is not a session file, and for a bad
// line where the rules allow none.
var ErrFormat = errors.New("not a valid session file")

// FormatError is the position and the cause of an ErrFormat.
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

// Damage is a line that a reader omitted in full or in part.
type Damage struct {
	Line   int64 // from 1
	Offset int64 // of the line, from the start of the file
	Size   int64 // bytes, without the \n
	Msg    string
}
