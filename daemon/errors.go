package daemon

import (
	"errors"
	"net/http"

	"crabmem/crmem/tree"
	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/model"
	"crabmem/daemon/once"
	"crabmem/daemon/op"
	"crabmem/daemon/usage"
)

// ownRows are the rows of errors that only a daemon reports. The errors of
// stores, sessions and files have precedence.
var ownRows = []errtable.Row{
	{Err: agent.ErrExhausted, Kind: "exhausted", HTTP: http.StatusInternalServerError, Exit: errtable.ExitFailure},
	{Err: agent.ErrRequest, Kind: "request", HTTP: http.StatusConflict, Exit: errtable.ExitConflict, DaemonFix: "send the message with another request ID"},
	{Err: once.ErrReused, Kind: "request", HTTP: http.StatusConflict, Exit: errtable.ExitConflict, DaemonFix: "use another key"},
	{Err: once.ErrSpent, Kind: "spent", HTTP: http.StatusConflict, Exit: errtable.ExitConflict, DaemonFix: "read the entries, then use another key"},
	{Err: agent.ErrContinued, Kind: "continued", HTTP: http.StatusConflict, Exit: errtable.ExitConflict, DaemonFix: "read the session, then send the message again"},
	{Err: model.ErrUnknownModel, Kind: "unknown_model", HTTP: http.StatusNotFound, Exit: errtable.ExitNotFound},
}

// reported is an error as clients receive it. Codes are those of HTTP (RFC
// 0018). Operations of the RFC keep the reference's codes, also 500 for a missing
// session, because existing clients compare them.
func reported(err error) *op.Error {
	row := errtable.Find(err)
	if row.Family == errtable.Other {
		row = errtable.Find(err, ownRows...)
	}
	m := &op.Error{Code: row.HTTP, Message: err.Error(), Kind: row.Kind, Remedy: row.DaemonFix}
	m.Path, m.Offset = errtable.Locate(err)
	if ps, ok := errors.AsType[config.Problems](err); ok {
		m.Code, m.Kind = http.StatusBadRequest, "config"
		m.Details, _ = display.JSON(ps)
	}
	if e, ok := errors.AsType[*tree.Error](err); ok {
		m.Path, m.Remedy = e.Path, e.Remedy
		m.Details, _ = display.JSON(op.TreeDetails{Path: e.Path, Line: e.Line, Message: e.Msg})
	}
	if e, ok := errors.AsType[*tree.ChangedError](err); ok {
		m.Path, m.Remedy = e.Dir, "run crabmem load --merge to keep both changes, or crabmem load --replace to replace the store"
		m.Details, _ = display.JSON(op.TreeDetails{Names: e.Names})
	}
	if limit := usage.Refused(err); limit != nil {
		m.Details, _ = display.JSON(limit)
	}
	return m
}
