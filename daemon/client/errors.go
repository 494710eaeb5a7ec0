package client

import (
	"errors"
	"fmt"

	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// Error is an error that the daemon reports.
type Error = op.Error

// reported returns the error in a response to m, or nil.
func reported(m *pb.ClientMessage, r *pb.ServerMessage) error {
	family := errtable.Other
	if m.GetCall() != nil {
		family = op.Find(m.GetCall().GetOp()).Family
	}
	if e := r.GetError(); e != nil {
		return &Error{Code: e.GetCode(), Message: e.GetMessage(), Kind: e.GetKind(), Family: family}
	}
	if len(r.GetResult().GetError()) == 0 {
		return nil
	}
	e := &Error{Family: family}
	if err := op.Decode(r.GetResult().GetError(), e); err != nil {
		return err
	}
	return e
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
