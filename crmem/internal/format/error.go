package format

import (
	"errors"
	"fmt"
	"strings"
)

// ErrFormat is the class of Error.
var ErrFormat = errors.New("not a valid store")

// Error reports where a file breaks a rule of FORMAT.md. It is ErrFormat.
type Error struct {
	Path   string // empty for bytes without a file
	Offset int64  // from the start of the file, of the first byte that is wrong
	Entry  int    // position of the entry, from 0; -1 outside the entries
	Field  string // name of FORMAT.md; "trailing" for bytes after the end
	Msg    string
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Path != "" {
		fmt.Fprintf(&b, "%s: ", e.Path)
	}
	fmt.Fprintf(&b, "offset %d: ", e.Offset)
	if e.Entry >= 0 {
		fmt.Fprintf(&b, "entry %d: ", e.Entry)
	}
	fmt.Fprintf(&b, "%s: %s", e.Field, e.Msg)
	return b.String()
}

// Is makes a Error an ErrFormat.
func (e *Error) Is(target error) bool { return target == ErrFormat }

// OffsetOf returns the offset of a Error, or 0.
func OffsetOf(err error) int64 {
	var f *Error
	if errors.As(err, &f) {
		return f.Offset
	}
	return 0
}
