package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"syscall"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/model"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog"
)

// failure is an error as a client is told of it. Codes are those of HTTP (RFC
// 0018). Operations of the RFC keep the reference's codes, also 500 for a missing
// session, because existing clients compare them.
type failure struct {
	code   uint32
	kind   string // a word for programs
	text   string
	path   string // the file that it is about
	remedy string
	err    error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

func refuse(code uint32, kind, format string, args ...any) *failure {
	return &failure{code: code, kind: kind, text: fmt.Sprintf(format, args...)}
}

// invalid is an error in a request.
func invalid(format string, args ...any) *failure {
	return refuse(http.StatusBadRequest, "invalid", format, args...)
}

// classes maps errors to codes and kinds; the first that fits is taken. The
// kinds are those of the command line.
var classes = []struct {
	err  error
	code uint32
	kind string
}{
	{crmem.ErrUnknown, http.StatusInternalServerError, "outcome_unknown"},
	{sessionlog.ErrUnknown, http.StatusInternalServerError, "outcome_unknown"},
	{crmem.ErrStopped, http.StatusInternalServerError, "stopped"},
	{sessionlog.ErrStopped, http.StatusInternalServerError, "stopped"},
	{vfs.ErrLocked, http.StatusConflict, "locked"},
	{crmem.ErrAmbiguous, http.StatusConflict, "ambiguous"},
	{crmem.ErrExists, http.StatusConflict, "exists"},
	{crmem.ErrKind, http.StatusConflict, "kind"},
	{crmem.ErrStale, http.StatusConflict, "changed"},
	{crmem.ErrChanged, http.StatusConflict, "changed"},
	{crmem.ErrEdited, http.StatusConflict, "edited"},
	{crmem.ErrFull, http.StatusInsufficientStorage, "full"},
	{crmem.ErrTree, http.StatusBadRequest, "tree"},
	{crmem.ErrNotFound, http.StatusNotFound, "not_found"},
	{crmem.ErrNoStore, http.StatusNotFound, "no_store"},
	{sessionlog.ErrAmbiguous, http.StatusConflict, "ambiguous"},
	{sessionlog.ErrExists, http.StatusConflict, "exists"},
	{sessionlog.ErrReadOnly, http.StatusConflict, "read_only"},
	{sessionlog.ErrNotFound, http.StatusNotFound, "not_found"},
	{fs.ErrPermission, http.StatusForbidden, "permission"},
	{syscall.EROFS, http.StatusForbidden, "permission"},
	{crmem.ErrForeign, http.StatusInternalServerError, "foreign"},
	{sessionlog.ErrDisplaced, http.StatusInternalServerError, "foreign"},
	{crmem.ErrFormat, http.StatusInternalServerError, "format"},
	{sessionlog.ErrFormat, http.StatusInternalServerError, "format"},
	{vfs.ErrNotRegular, http.StatusInternalServerError, "format"},
	{crmem.ErrInvalid, http.StatusBadRequest, "invalid"},
	{sessionlog.ErrInvalid, http.StatusBadRequest, "invalid"},
	{crmem.ErrNotApplied, http.StatusInternalServerError, "not_applied"},
	{sessionlog.ErrNotApplied, http.StatusInternalServerError, "not_applied"},
	{syscall.ENOSPC, http.StatusInsufficientStorage, "no_space"},
	{agent.ErrExhausted, http.StatusInternalServerError, "exhausted"},
	{model.ErrUnknownModel, http.StatusNotFound, "unknown_model"},
	{context.Canceled, http.StatusInternalServerError, "cancelled"},
	{context.DeadlineExceeded, http.StatusInternalServerError, "timeout"},
}

// message is an error as it goes over the wire.
func message(err error) *pb.ErrorMsg {
	if f, ok := errors.AsType[*failure](err); ok {
		text := f.text
		if f.err != nil && !strings.Contains(text, f.err.Error()) {
			text += ": " + f.err.Error() // every error carries its cause
		}
		return &pb.ErrorMsg{Code: f.code, Message: text, Kind: f.kind, Path: f.path, Remedy: f.remedy}
	}
	m := &pb.ErrorMsg{Code: http.StatusInternalServerError, Message: err.Error(), Kind: "failed"}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			m.Code, m.Kind = c.code, c.kind
			break
		}
	}
	switch {
	case errors.Is(err, sessionlog.ErrDisplaced):
		m.Remedy = "crabmem sessions verify lists the kept copies: compare them with the session"
	case errors.Is(err, sessionlog.ErrUnknown), errors.Is(err, sessionlog.ErrStopped):
		m.Remedy = "check the disk, and begin again: the session is read from its file"
	case errors.Is(err, crmem.ErrUnknown), errors.Is(err, crmem.ErrStopped):
		m.Remedy = "check the disk, then crabmem daemon stop and crabmem daemon start"
		if errors.Is(err, crmem.ErrForeign) {
			m.Remedy = "crabmem daemon stop, then crabmem verify lists each problem and its fix"
		}
	case m.Kind == "no_space", vfs.OutOfSpace(err):
		m.Remedy = "free some space on the disk, and do it again"
	}
	if ps, ok := errors.AsType[config.Problems](err); ok {
		m.Code, m.Kind = http.StatusBadRequest, "config"
		m.Details, _ = encode(ps)
	}
	if e, ok := errors.AsType[*model.Error](err); ok && m.Kind == "failed" {
		m.Kind = "model"
		if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
			m.Remedy = "check the provider's key: crabmem config"
		}
	}
	if e, ok := errors.AsType[*crmem.FormatError](err); ok {
		m.Path, m.Offset = e.Path, &e.Offset
	}
	if e, ok := errors.AsType[*sessionlog.FormatError](err); ok {
		m.Path, m.Offset = e.Path, &e.Offset
	}
	if e, ok := errors.AsType[*sessionlog.DisplacedError](err); ok {
		m.Path, m.Remedy = e.Path, "crabmem sessions verify lists the kept copies: compare them with the session, then move them back or remove them"
	}
	if e, ok := errors.AsType[*crmem.TreeError](err); ok {
		m.Path, m.Remedy = e.Path, e.Remedy
		m.Details, _ = encode(TreeDetails{Path: e.Path, Line: e.Line, Message: e.Msg})
	}
	if e, ok := errors.AsType[*crmem.ChangedError](err); ok {
		m.Path, m.Remedy = e.Dir, "merge, which keeps both sides, or replace, which takes the tree"
		m.Details, _ = encode(TreeDetails{Names: e.Names})
	}
	if e, ok := errors.AsType[*vfs.LockedError](err); ok {
		m.Path = e.Path
	}
	if e, ok := errors.AsType[*vfs.TooLargeError](err); ok {
		m.Kind, m.Path = "too_large", e.Name
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok && m.Path == "" {
		m.Path = e.Path
	}
	return m
}

// TreeDetails are the details of errors that are about a tree of pages.
type TreeDetails struct {
	Path    string   `json:"path"` // in the tree, or the tree's own
	Line    int      `json:"line"` // from 1; 0 = the whole file
	Message string   `json:"message"`
	Names   []string `json:"names,omitempty"` // entries that a load would have lost
}
