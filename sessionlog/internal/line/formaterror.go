package line

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrFormat is returned when a file is not a session file or has a bad line
	// where none may be.
	ErrFormat = errors.New("not a valid session file")
	// ErrInvalid is returned for what no session file takes: text that is not
	// UTF-8, a message without a role or over the limit of a line.
	ErrInvalid = errors.New("invalid")
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
