package cli

import (
	"fmt"

	"crabmem/daemon/errtable"
)

// The exit codes of a command.
const (
	ExitFailure     = errtable.ExitFailure
	ExitUsage       = errtable.ExitUsage
	ExitNotFound    = errtable.ExitNotFound
	ExitConflict    = errtable.ExitConflict
	ExitCorrupt     = errtable.ExitCorrupt
	ExitUnknown     = errtable.ExitUnknown
	ExitPermission  = errtable.ExitPermission
	ExitUnreachable = errtable.ExitUnreachable
)

// Failure is the error of a command line.
type Failure struct {
	Code    int    `json:"code" op:"words=1|2|3|4|5|6|7|8|130|143"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Path    string `json:"path"`   // the file it is about; may be empty
	Offset  *int64 `json:"offset"` // in that file; null if unknown
	Remedy  string `json:"remedy"` // fix, an imperative; may be empty
	More    any    `json:"details,omitempty"`
	// Warnings are those that came before the error.
	Warnings []string `json:"warnings,omitempty"`
	Err      error    `json:"-"`
}

func (f *Failure) Error() string { return f.Message }
func (f *Failure) Unwrap() error { return f.Err }

// Row returns the failure as a row of errtable.
func (f *Failure) Row() errtable.Row {
	return errtable.Row{Kind: f.Kind, Exit: f.Code, Fix: f.Remedy}
}

// Usagef is an error in the command line.
func Usagef(format string, args ...any) error {
	return &Failure{Code: ExitUsage, Kind: "usage", Message: fmt.Sprintf(format, args...)}
}

// SilentError ends a command with a code and without a message.
type SilentError int

func (e SilentError) Error() string { return "" }
