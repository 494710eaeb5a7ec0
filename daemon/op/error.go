package op

import (
	"fmt"
	"reflect"

	"crabmem/daemon/errtable"
)

// Error is an error that the daemon reports. errors.Is holds for the error of
// crmem, sessionlog, or the file system that its kind represents.
type Error struct {
	Code    uint32 `json:"code"` // 400, 404, 409, 500 …
	Message string `json:"message"`
	Kind    string `json:"kind,omitempty"`    // a word for programs, as not_found; empty from other daemons
	Path    string `json:"path,omitempty"`    // the file that it is about
	Remedy  string `json:"remedy,omitempty"`  // what to do
	Offset  *int64 `json:"offset,omitempty"`  // in that file
	Details []byte `json:"details,omitempty"` // JSON

	// Family is the subject of the request. It decides the meaning of Kind.
	Family errtable.Family `json:"-"`
}

// Error returns the message. Without a family it also contains the code.
func (e *Error) Error() string {
	if e.Family != errtable.Other {
		return e.Message
	}
	return fmt.Sprintf("server error (%d): %s", e.Code, e.Message)
}

// Is reports whether the kind represents target.
func (e *Error) Is(target error) bool {
	sentinel := errtable.Sentinel(e.Family, e.Kind)
	return sentinel != nil && target == sentinel
}

// Encode encodes the error. It replaces invalid UTF-8 in its texts.
func (e *Error) Encode() []byte {
	mend(reflect.ValueOf(e))
	return must(Encode(e))
}

// Row returns the row of the kind, with the fix that the daemon sent.
func (e *Error) Row() errtable.Row {
	r := errtable.Find(errtable.Sentinel(e.Family, e.Kind))
	if r.Kind == errtable.Failed && e.Kind != "" {
		r.Kind, r.Exit = e.Kind, errtable.ExitFor(e.Kind, e.Code)
	}
	if e.Remedy != "" {
		r.Fix = e.Remedy
	}
	return r
}
