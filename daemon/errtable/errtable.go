// Package errtable maps errors of the store, of sessions, of files, and of models
// to a kind, an HTTP status code, an exit code, and a fix. The daemon, its clients,
// and the commands use the same rows, so that they report an error alike.
package errtable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"

	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/daemon/model/chat"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// The exit codes of a command.
const (
	ExitFailure     = 1 // anything else
	ExitUsage       = 2 // flags, arguments, invalid UTF-8 in them
	ExitNotFound    = 3 // the named entry, session or skill, or the store, is absent
	ExitConflict    = 4 // name exists, kind mismatch, lock time-out, store changed
	ExitCorrupt     = 5 // not a valid store, session or skill
	ExitUnknown     = 6 // outcome unknown
	ExitPermission  = 7 // not allowed
	ExitUnreachable = 8 // no daemon answers
)

// Kinds that programs compare.
const (
	Failed    = "failed"    // an error that matches no row
	Cancelled = "cancelled" // of a run that a client ended: no failure
)

// Family is the subject of an error. The same kind has a different sentinel in
// each family.
type Family int

const (
	Other   Family = iota // daemon, models, contexts: no sentinel for a kind
	Store                 // crmem
	Session               // sessionlog
	File                  // files and locks, of a store or a session
	Tree                  // Markdown trees
)

// Row describes the errors for which errors.Is(err, Err) holds.
type Row struct {
	Err    error
	Family Family
	Kind   string // a word for programs
	HTTP   uint32
	Exit   int
	// Fix tells the user of a command what to do. It may be empty.
	Fix string
	// DaemonFix is the fix if the daemon, which keeps files open, reports the
	// error. If it is empty, a client uses Fix.
	DaemonFix string
}

const (
	fixDisplaced  = "run crabmem sessions verify to list the kept copies; compare them with the session, then move them back or remove them"
	fixForeign    = "run crabmem verify to list each problem and its fix"
	fixNoSpace    = "free disk space, then retry"
	fixNotApplied = "nothing was changed: free disk space or check the disk, then retry"
	fixNotRegular = "set the store's file with --db, CRABMEM_DB, --home, or CRABTALK_HOME"
	fixPermission = "check the owner and the mode of the file and its directory"

	fixOtherModel = "use another model with --model"

	daemonFixForeign = "run crabmem daemon stop, then crabmem verify to list each problem and its fix"
	daemonFixSession = "check the disk, then retry: the daemon reloads the session from its file"
	daemonFixStore   = "check the disk, then run crabmem daemon stop and crabmem daemon start"
)

// rows are in order of precedence: an error may match several.
var rows = []Row{
	{crmem.ErrUnknown, Store, "outcome_unknown", http.StatusInternalServerError, ExitUnknown,
		"run crabmem show to see whether the write took effect; check the disk before you retry", daemonFixStore},
	{crmem.ErrStopped, Store, "stopped", http.StatusInternalServerError, ExitUnknown, "", daemonFixStore},
	{sessionlog.ErrUnknown, Session, "outcome_unknown", http.StatusInternalServerError, ExitUnknown,
		"run crabmem sessions show to see whether the write took effect; check the disk before you retry", daemonFixSession},
	{sessionlog.ErrStopped, Session, "stopped", http.StatusInternalServerError, ExitUnknown, "", daemonFixSession},
	{sessionlog.ErrDisplaced, Session, "foreign", http.StatusInternalServerError, ExitCorrupt, fixDisplaced, fixDisplaced},
	{vfs.ErrLocked, File, "locked", http.StatusConflict, ExitConflict, "wait until the lock holder exits, or wait longer with --lock-wait", ""},
	{crmem.ErrAmbiguous, Store, "ambiguous", http.StatusConflict, ExitConflict, "use one of the names", ""},
	{crmem.ErrExists, Store, "exists", http.StatusConflict, ExitConflict, "choose another name, or forget the entry first", ""},
	{crmem.ErrKind, Store, "kind", http.StatusConflict, ExitConflict, "", ""},
	{crmem.ErrStale, Store, "changed", http.StatusConflict, ExitConflict, "read the entry again, then retry", ""},
	{crmem.ErrCurrent, Store, "current", http.StatusConflict, ExitConflict, "change the entry first, then retry", ""},
	{tree.ErrChanged, Tree, "changed", http.StatusConflict, ExitConflict, "", ""},
	{tree.ErrEdited, Tree, "edited", http.StatusConflict, ExitConflict, "", ""},
	{crmem.ErrFull, Store, "full", http.StatusInsufficientStorage, ExitFailure, "", ""},
	{tree.ErrVersion, Tree, "format", http.StatusBadRequest, ExitCorrupt, "", ""},
	{tree.ErrTree, Tree, "tree", http.StatusBadRequest, ExitFailure, "", ""},
	{crmem.ErrNotFound, Store, "not_found", http.StatusNotFound, ExitNotFound, "run crabmem list to see the names", ""},
	{crmem.ErrNoStore, Store, "no_store", http.StatusNotFound, ExitNotFound,
		"run crabmem remember NAME TEXT to create a store, or set another with --db, CRABMEM_DB, --home, or CRABTALK_HOME", ""},
	{sessionlog.ErrAmbiguous, Session, "ambiguous", http.StatusConflict, ExitConflict, "use one of the file names", ""},
	{sessionlog.ErrExists, Session, "exists", http.StatusConflict, ExitConflict, "move or delete the session that the message names, then retry", ""},
	{sessionlog.ErrReadOnly, Session, "read_only", http.StatusConflict, ExitConflict, "imported sessions are read-only: create a session, or import a newer transcript", ""},
	{sessionlog.ErrNotFound, Session, "not_found", http.StatusNotFound, ExitNotFound, "run crabmem sessions list to see the IDs", ""},
	modelRow(chat.ErrKey, "model_key", http.StatusBadGateway, "correct api_key of the provider in config.toml; if it names a variable, set that in the daemon's environment and restart the daemon; if it names a secret, run crabmem secret set; crabmem doctor checks keys"),
	modelRow(chat.ErrForbidden, "model_forbidden", http.StatusBadGateway, "use a key that permits this model, or "+fixOtherModel+"; crabmem doctor checks keys"),
	modelRow(chat.ErrMissing, "model_missing", http.StatusBadGateway, "correct models or base_url of the provider in config.toml, or "+fixOtherModel),
	modelRow(chat.ErrTools, "model_tools", http.StatusBadGateway, "set tools = [] of the agent in config.toml, or tools: [] in its file in agents/, or use a model that supports tools with --model"),
	modelRow(chat.ErrQuota, "model_quota", http.StatusBadGateway, "add credit or raise the limit at the provider, or "+fixOtherModel),
	modelRow(chat.ErrRateLimit, "model_rate_limit", http.StatusTooManyRequests, "wait, then resend the message, or "+fixOtherModel),
	modelRow(chat.ErrServer, "model_server", http.StatusBadGateway, "resend the message later, or "+fixOtherModel),
	modelRow(chat.ErrOverflow, "model_overflow", http.StatusRequestEntityTooLarge, "run crabmem compact to shorten the session, or use a model with a larger context window"),
	modelRow(chat.ErrCut, "model_cut", http.StatusBadGateway, "resend the message; the session contains the text so far"),
	modelRow(chat.ErrInvalid, "model_invalid", http.StatusBadGateway, "check that base_url of the provider is an OpenAI-compatible address; if it is, resend the message, or "+fixOtherModel),
	modelRow(chat.ErrConnect, "model_connect", http.StatusBadGateway, "start the model server, or correct base_url of the provider in config.toml; check the network and the proxy"),
	modelRow(chat.ErrResolve, "model_dns", http.StatusBadGateway, "correct the host in base_url of the provider in config.toml, or check the network"),
	modelRow(chat.ErrTLS, "model_tls", http.StatusBadGateway, "correct the scheme and the host in base_url of the provider in config.toml; for a private certificate authority, set SSL_CERT_FILE in the daemon's environment"),
	modelRow(chat.ErrTimeout, "model_timeout", http.StatusBadGateway, "resend the message, or raise timeout or idle_timeout of the provider in config.toml"),
	modelRow(chat.ErrCall, "model", http.StatusBadGateway, "check the provider in config.toml, or "+fixOtherModel),
	{fs.ErrPermission, File, "permission", http.StatusForbidden, ExitPermission, fixPermission, ""},
	{syscall.EROFS, File, "permission", http.StatusForbidden, ExitPermission, fixPermission, ""},
	{crmem.ErrForeign, Store, "foreign", http.StatusInternalServerError, ExitCorrupt, fixForeign, ""},
	{crmem.ErrFormat, Store, "format", http.StatusInternalServerError, ExitCorrupt,
		"run crabmem verify for details, or crabmem repair to recover the valid entries", ""},
	{sessionlog.ErrFormat, Session, "format", http.StatusInternalServerError, ExitCorrupt,
		"run crabmem sessions verify for details, or crabmem sessions repair to keep the valid lines", ""},
	{vfs.ErrNotRegular, File, "format", http.StatusInternalServerError, ExitCorrupt, fixNotRegular, ""},
	{crmem.ErrInvalid, Store, "invalid", http.StatusBadRequest, ExitUsage, "", ""},
	{sessionlog.ErrInvalid, Session, "invalid", http.StatusBadRequest, ExitUsage, "", ""},
	{crmem.ErrNotApplied, Store, "not_applied", http.StatusInternalServerError, ExitFailure,
		fixNotApplied, ""},
	{sessionlog.ErrNotApplied, Session, "not_applied", http.StatusInternalServerError, ExitFailure,
		fixNotApplied, ""},
	{syscall.ENOSPC, File, "no_space", http.StatusInsufficientStorage, ExitFailure, fixNoSpace, fixNoSpace},
	{context.Canceled, Other, Cancelled, http.StatusInternalServerError, ExitFailure, "", ""},
	{context.DeadlineExceeded, Other, "timeout", http.StatusInternalServerError, ExitFailure, "", ""},
}

// modelRow returns the row of a cause of a failed call to a model.
func modelRow(cause error, kind string, status uint32, fix string) Row {
	return Row{cause, Other, kind, status, ExitFailure, fix, fix}
}

// tooLarge is the row of a *vfs.TooLargeError, which has no sentinel.
var tooLarge = Row{
	Family: File, Kind: "too_large", HTTP: http.StatusInternalServerError, Exit: ExitCorrupt,
	Fix: "check the file name: this file is too large to be a store",
}

// Error is an error with its own kind and fix: a refusal without a sentinel, or
// one whose fix depends on the request.
type Error struct {
	Kind    string
	HTTP    uint32 // 0: 500
	Exit    int    // 0: ExitFailure
	Message string
	Path    string // the file it is about; may be empty
	Fix     string // may be empty
	Err     error  // the cause; may be nil
}

// Errorf returns an Error without a fix. An empty kind or a status of 0 has the
// default.
func Errorf(status uint32, kind, format string, args ...any) *Error {
	return &Error{HTTP: status, Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Invalidf returns the error of an invalid request.
func Invalidf(format string, args ...any) *Error {
	return Errorf(http.StatusBadRequest, "invalid", format, args...)
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.Err }

// Row returns the row that the error describes.
func (e *Error) Row() Row {
	r := Row{Kind: e.Kind, HTTP: e.HTTP, Exit: e.Exit, Fix: e.Fix, DaemonFix: e.Fix}
	if r.HTTP == 0 {
		r.HTTP = http.StatusInternalServerError
	}
	if r.Exit == 0 {
		r.Exit = ExitFailure
	}
	return r
}

// rowError is an error with its own row, such as [Error].
type rowError interface {
	error
	Row() Row
}

// Find returns the row of an error, with the fixes for this error: that of its
// method Row, if it has one. first are rows of the caller that have precedence over
// the table. Without a match Kind is [Failed].
func Find(err error, first ...Row) Row {
	if e, ok := errors.AsType[rowError](err); ok {
		return e.Row()
	}
	r := find(err, first)
	if _, ok := errors.AsType[*vfs.TooLargeError](err); ok {
		r.Kind, r.Exit = tooLarge.Kind, tooLarge.Exit
		if r.Family != Session {
			r.Fix = tooLarge.Fix
		}
	}
	switch {
	case errors.Is(err, sessionlog.ErrDisplaced):
		r.Fix, r.DaemonFix = fixDisplaced, fixDisplaced
	case errors.Is(err, crmem.ErrForeign):
		r.Fix = fixForeign
		if r.DaemonFix != "" {
			r.DaemonFix = daemonFixForeign
		}
	case errors.Is(err, crmem.ErrNewer):
		r.Fix = crmem.FixNewer
	case errors.Is(err, crmem.ErrOlder):
		r.Fix = crmem.FixOlder
	case errors.Is(err, vfs.ErrNotRegular):
		r.Fix = fixNotRegular
	}
	if e, ok := errors.AsType[*chat.Error](err); ok && (e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable) {
		r.HTTP = uint32(e.Status) // others would be about the request to the daemon
	}
	if r.DaemonFix == "" && vfs.OutOfSpace(err) {
		r.DaemonFix = fixNoSpace
	}
	return r
}

func find(err error, first []Row) Row {
	for _, list := range [][]Row{first, rows} {
		for _, r := range list {
			if errors.Is(err, r.Err) {
				return r
			}
		}
	}
	return Row{Kind: Failed, HTTP: http.StatusInternalServerError, Exit: ExitFailure}
}

// Locate returns the file that an error is about, or "", and the offset in it,
// or nil.
func Locate(err error) (path string, offset *int64) {
	if e, ok := errors.AsType[*Error](err); ok && e.Path != "" {
		return e.Path, nil
	}
	if e, ok := errors.AsType[*crmem.FormatError](err); ok {
		return e.Path, &e.Offset
	}
	if e, ok := errors.AsType[*record.FormatError](err); ok {
		return e.Path, &e.Offset
	}
	if e, ok := errors.AsType[*sessionlog.DisplacedError](err); ok {
		return e.Path, nil
	}
	if e, ok := errors.AsType[*vfs.LockedError](err); ok {
		return e.Path, nil
	}
	if e, ok := errors.AsType[*vfs.TooLargeError](err); ok {
		return e.Name, nil
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Path, nil
	}
	return "", nil
}

// Sentinel returns the error of a kind in a family, or nil. It is the reverse of
// [Find], for errors from the wire.
func Sentinel(f Family, kind string) error {
	if f == Other {
		return nil
	}
	for _, family := range []Family{f, File} {
		for _, r := range rows {
			if r.Family == family && r.Kind == kind {
				return r.Err
			}
		}
	}
	return nil
}

// FixFor returns the fix for a kind without an error of this program: the one
// for a store or a file, or "".
func FixFor(kind string) string {
	if kind == tooLarge.Kind {
		return tooLarge.Fix
	}
	for _, r := range rows {
		if r.Kind == kind && (r.Family == Store || r.Family == File) {
			return r.Fix
		}
	}
	return ""
}

// ExitFor returns the exit code for an error that the daemon reports and no row
// describes: by its kind where operations of RFC 0018 have another status, else
// by its HTTP status code.
func ExitFor(kind string, status uint32) int {
	switch kind {
	case "unknown_agent":
		return ExitNotFound
	case "busy":
		return ExitConflict
	}
	switch status {
	case http.StatusBadRequest:
		return ExitUsage
	case http.StatusUnauthorized, http.StatusForbidden:
		return ExitPermission
	case http.StatusNotFound:
		return ExitNotFound
	case http.StatusConflict:
		return ExitConflict
	}
	return ExitFailure
}
