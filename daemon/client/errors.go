package client

import (
	"errors"
	"fmt"

	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// Error is an error that the daemon reports. errors.Is holds for the error of
// crmem, sessionlog, or the file system that its kind represents.
type Error struct {
	Code    uint32 // 400, 404, 409, 500 …
	Message string
	Kind    string // a word for programs, as not_found; empty from other daemons
	Path    string // the file that it is about
	Remedy  string // what to do

	Offset  *int64 // in that file
	Details []byte // JSON

	// Family is the subject of the request. It decides the meaning of Kind.
	Family errtable.Family
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

func newError(f errtable.Family, m *pb.ErrorMsg) *Error {
	return &Error{
		Code: m.GetCode(), Message: m.GetMessage(), Kind: m.GetKind(), Path: m.GetPath(), Remedy: m.GetRemedy(),
		Offset: m.Offset, Details: m.GetDetails(), Family: f,
	}
}

// familyOf returns the subject of a request.
func familyOf(m *pb.ClientMessage) errtable.Family {
	if m.GetCall() != nil {
		return op.Find(m.GetCall().GetOp()).Family
	}
	return errtable.Other
}

// NoDaemonError is returned if no process listens on the daemon's address.
type NoDaemonError struct {
	Addr wire.Addr
	err  error
}

func (e *NoDaemonError) Error() string { return e.cause() + ": run crabmem daemon start" }

// cause returns the text of the error without its fix.
func (e *NoDaemonError) cause() string { return "no daemon answers at " + e.Addr.Address }

func (e *NoDaemonError) Unwrap() error { return e.err }

// SkewError is returned if the daemon and this program use different versions of
// the protocol.
type SkewError struct {
	Daemon   string // version of the daemon; empty if unknown
	Protocol uint32 // protocol of the daemon; 0 if it does not support Hello
}

func (e *SkewError) Error() string { return e.cause() + ": stop it, then run crabmem daemon start" }

// cause returns the text of the error without its fix.
func (e *SkewError) cause() string {
	if e.Protocol == 0 {
		return "call daemon: not a crabmem daemon, or older than this program"
	}
	return fmt.Sprintf("call daemon: it has version %s and protocol %d, but this program needs protocol %d", e.Daemon, e.Protocol, pb.Version)
}

// unexpectedError is an answer of another kind than the request wants.
type unexpectedError struct{ Answer *pb.ServerMessage }

func (e *unexpectedError) Error() string {
	if e.Answer.GetMsg() == nil {
		return "unexpected response: empty, or from a newer daemon"
	}
	kind := e.Answer.ProtoReflect()
	return "unexpected response: " + string(kind.WhichOneof(kind.Descriptor().Oneofs().Get(0)).Name())
}

// IsKind reports whether the daemon sent an error of a kind.
func IsKind(err error, kind string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == kind
}
