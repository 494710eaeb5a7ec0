package crmem

import (
	"errors"
	"fmt"
	"strings"
)

// errFormat is the class of FormatError.
var errFormat = errors.New("not a valid store")

// FormatError says where a file is not what FORMAT.md says. It is ErrFormat.
type FormatError struct {
	Path   string // empty for bytes without a file
	Offset int64  // from the start of the file, of the first byte that is wrong
	Entry  int    // position of the entry, from 0; -1 outside the entries
	Field  string // as FORMAT.md names it; "trailing" for what follows the end
	Msg    string
}

func (e *FormatError) Error() string {
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

// Is makes a FormatError an ErrFormat.
func (e *FormatError) Is(target error) bool { return target == errFormat }

// offsetOf returns the offset of a FormatError, or 0.
func offsetOf(err error) int64 {
	var f *FormatError
	if errors.As(err, &f) {
		return f.Offset
	}
	return 0
}
