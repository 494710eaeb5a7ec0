package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon"
	"crabmem/sessionlog"
)

// classes maps errors to codes; the first that fits is taken.
var classes = []struct {
	err  error
	code int
	kind string
	// remedy is what helps; where it is empty, what helps against the kind.
	remedy string
}{
	{crmem.ErrUnknown, cli.ExitUnknown, "outcome_unknown", ""},
	{crmem.ErrStopped, cli.ExitUnknown, "stopped", ""},
	{sessionlog.ErrUnknown, cli.ExitUnknown, "outcome_unknown", "crabmem sessions show tells whether it happened; check the disk before you write again"},
	{sessionlog.ErrStopped, cli.ExitUnknown, "stopped", ""},
	{sessionlog.ErrDisplaced, cli.ExitCorrupt, "foreign", ""},
	{daemon.ErrRunning, cli.ExitConflict, "running", "crabmem daemon stop ends it, crabmem daemon status says how it is"},
	{vfs.ErrLocked, cli.ExitConflict, "locked", ""},
	{crmem.ErrAmbiguous, cli.ExitConflict, "ambiguous", ""},
	{crmem.ErrExists, cli.ExitConflict, "exists", ""},
	{crmem.ErrKind, cli.ExitConflict, "kind", ""},
	{crmem.ErrStale, cli.ExitConflict, "changed", "somebody else was faster: look at it and do it again"},
	{crmem.ErrNotFound, cli.ExitNotFound, "not_found", ""},
	{crmem.ErrNoStore, cli.ExitNotFound, "no_store", ""},
	{sessionlog.ErrAmbiguous, cli.ExitConflict, "ambiguous", "use the name of one of the files"},
	{sessionlog.ErrExists, cli.ExitConflict, "exists", "delete the other one, or leave this one where it is"},
	{sessionlog.ErrReadOnly, cli.ExitConflict, "read_only", "change it where it came from, and import it again"},
	{sessionlog.ErrNotFound, cli.ExitNotFound, "not_found", "crabmem sessions list shows the ids"},
	{fs.ErrPermission, cli.ExitPermission, "permission", ""},
	{syscall.EROFS, cli.ExitPermission, "permission", ""},
	{crmem.ErrForeign, cli.ExitCorrupt, "foreign", ""},
	{crmem.ErrFormat, cli.ExitCorrupt, "format", ""},
	{sessionlog.ErrFormat, cli.ExitCorrupt, "format", "crabmem sessions verify says what is wrong, crabmem sessions repair keeps what is whole"},
	{vfs.ErrNotRegular, cli.ExitCorrupt, "format", ""},
	{crmem.ErrInvalid, cli.ExitUsage, "invalid", ""},
	{sessionlog.ErrInvalid, cli.ExitUsage, "invalid", ""},
	{crmem.ErrNotApplied, cli.ExitFailure, "not_applied", ""},
	{sessionlog.ErrNotApplied, cli.ExitFailure, "not_applied", "nothing was changed: free some space or check the disk, and do it again"},
	{syscall.ENOSPC, cli.ExitFailure, "no_space", ""},
	{context.Canceled, cli.ExitFailure, "cancelled", ""},
}

// classify finds the code, the place and the remedy of an error. It is the
// one place that does.
func classify(err error) *cli.Failure {
	if f, ok := errors.AsType[*cli.Failure](err); ok && f == err {
		return f
	}
	f := &cli.Failure{Code: cli.ExitFailure, Kind: "failed", Message: err.Error(), Err: err}
	if in, ok := errors.AsType[*cli.Failure](err); ok {
		f.Code, f.Kind, f.Path, f.Offset, f.Remedy, f.More = in.Code, in.Kind, in.Path, in.Offset, in.Remedy, in.More
		return f
	}
	if in, ok := errors.AsType[*interrupted](err); ok {
		f.Code, f.Kind, f.Message = in.code(), "interrupted", in.Error()
		return f
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			f.Code, f.Kind, f.Remedy = c.code, c.kind, c.remedy
			break
		}
	}
	if _, ok := errors.AsType[*vfs.TooLargeError](err); ok {
		f.Code, f.Kind = cli.ExitCorrupt, "too_large"
	}
	locate(f, err)
	if e, ok := errors.AsType[*remote](err); ok {
		describe(f, e.said)
	}
	if f.Remedy == "" && errors.Is(err, crmem.ErrForeign) {
		f.Remedy = remedies["foreign"]
	}
	if f.Remedy == "" {
		f.Remedy = remedies[f.Kind]
	}
	if errors.Is(err, vfs.ErrNotRegular) {
		f.Remedy = "name the store's file: --db, CRABMEM_DB, --home or CRABTALK_HOME"
	}
	return f
}

// locate fills in the file and the offset that the error carries.
func locate(f *cli.Failure, err error) {
	if e, ok := errors.AsType[*crmem.FormatError](err); ok {
		f.Path, f.Offset = e.Path, &e.Offset
	} else if e, ok := errors.AsType[*sessionlog.FormatError](err); ok {
		f.Path, f.Offset = e.Path, &e.Offset
	} else if e, ok := errors.AsType[*sessionlog.DisplacedError](err); ok {
		f.Path, f.Remedy = e.Path, "crabmem sessions verify lists the kept copies: compare them with the session, then move them back or remove them"
	} else if e, ok := errors.AsType[*vfs.LockedError](err); ok {
		f.Path = e.Path
	} else if e, ok := errors.AsType[*vfs.TooLargeError](err); ok {
		f.Path = e.Name
	} else if e, ok := errors.AsType[*fs.PathError](err); ok {
		f.Path = e.Path
	}
}

// remedies are what helps against the kinds.
var remedies = map[string]string{
	"not_found":       "crabmem list shows the names",
	"no_store":        "crabmem remember NAME TEXT makes one; --db, CRABMEM_DB, --home or CRABTALK_HOME name another",
	"locked":          "wait for it to end, or wait longer with --lock-wait",
	"ambiguous":       "use one of the names",
	"exists":          "choose another name, or forget the entry first",
	"format":          "crabmem verify says what is wrong, crabmem repair keeps what is whole",
	"foreign":         "crabmem verify lists each problem and its fix",
	"outcome_unknown": "crabmem show tells whether it happened; check the disk before you write again",
	"not_applied":     "free some space and do it again; nothing was changed",
	"no_space":        "free some space and do it again; nothing was changed",
	"too_large":       "name the store's file: no store is as large",
	"permission":      "check the owner and the mode of the file and its directory",
}

// report writes err the way the flags ask for and returns the exit code.
func (c *app) report(err error) int {
	if err == nil {
		for _, w := range c.TakeWarnings() {
			io.WriteString(c.Stderr, "warning: "+cli.Printable(w)+"\n")
		}
		return 0
	}
	if code, ok := errors.AsType[cli.SilentError](err); ok {
		return int(code)
	}
	f := classify(err)
	if c.JSON {
		f.Warnings = c.TakeWarnings()
		line, err := cli.EncodeJSON(map[string]*cli.Failure{"error": f})
		if err != nil {
			line = []byte(`{"error":{"code":1,"kind":"failed","message":"the error cannot be encoded","path":"","offset":null,"remedy":""}}` + "\n")
		}
		c.Stderr.Write(line)
		return f.Code
	}
	// A list of problems is one a line; what is indented is taken for nothing else.
	lines := strings.Split(f.Message, "\n  ")
	for i, l := range lines {
		lines[i] = cli.Printable(l)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "error: %s\n", strings.Join(lines, "\n  "))
	if f.Remedy != "" {
		fmt.Fprintf(&b, "try: %s\n", cli.Printable(f.Remedy))
	}
	io.WriteString(c.Stderr, b.String())
	return f.Code
}
