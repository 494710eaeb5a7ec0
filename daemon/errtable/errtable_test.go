package errtable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// TestSentinelReversesFind checks that the kind of an error leads back to a
// sentinel of the same kind, and to the same one if the kind has one sentinel.
func TestSentinelReversesFind(t *testing.T) {
	shared := map[error]error{ // kinds with several sentinels
		syscall.EROFS: fs.ErrPermission,
	}
	for _, r := range rows {
		found := Find(fmt.Errorf("operation: %w", r.Err))
		if found.Kind != r.Kind || found.HTTP != r.HTTP || found.Exit != r.Exit {
			t.Errorf("%v: got %+v, want %+v", r.Err, found, r)
		}
		want := r.Err
		if s := shared[want]; s != nil {
			want = s
		}
		if r.Family == Other {
			want = nil
		}
		if got := Sentinel(r.Family, r.Kind); got != want {
			t.Errorf("Sentinel(%d, %q) = %v, want %v", r.Family, r.Kind, got, want)
		}
	}
}

// TestSentinelOfFamily checks that a kind has the sentinel of its family.
func TestSentinelOfFamily(t *testing.T) {
	for _, tc := range []struct {
		family Family
		kind   string
		want   error
	}{
		{Store, "not_found", crmem.ErrNotFound},
		{Session, "not_found", sessionlog.ErrNotFound},
		{Store, "foreign", crmem.ErrForeign},
		{Session, "foreign", sessionlog.ErrDisplaced},
		{Store, "changed", crmem.ErrStale},
		{Tree, "changed", tree.ErrChanged},
		{Store, "format", crmem.ErrFormat},
		{Session, "locked", vfs.ErrLocked},
		{Store, "permission", fs.ErrPermission},
		{Store, "read_only", nil},
		{Session, "full", nil},
		{Store, "cancelled", nil},
		{Other, "not_found", nil},
		{Store, Failed, nil},
	} {
		if got := Sentinel(tc.family, tc.kind); got != tc.want {
			t.Errorf("Sentinel(%d, %q) = %v, want %v", tc.family, tc.kind, got, tc.want)
		}
	}
}

func TestFind(t *testing.T) {
	large := &vfs.TooLargeError{Name: "/big"}
	own := Row{Err: errors.New("own"), Kind: "own", HTTP: http.StatusTeapot, Exit: 9}
	for name, tc := range map[string]struct {
		err                  error
		kind, fix, daemonFix string
		exit                 int
	}{
		"error with a row":  {fmt.Errorf("x: %w", &Error{Kind: "k", Exit: 8, Fix: "f", Err: vfs.ErrLocked}), "k", "f", "f", 8},
		"no row":            {errors.New("x"), Failed, "", "", ExitFailure},
		"own row first":     {errors.Join(own.Err, vfs.ErrLocked), "own", "", "", 9},
		"cause after class": {fmt.Errorf("%w: %w", crmem.ErrNotApplied, syscall.ENOSPC), "not_applied", fixNotApplied, fixNoSpace, ExitFailure},
		"stopped":           {crmem.ErrStopped, "stopped", "", daemonFixStore, ExitUnknown},
		"stopped, foreign":  {errors.Join(crmem.ErrStopped, crmem.ErrForeign), "stopped", fixForeign, daemonFixForeign, ExitUnknown},
		"foreign":           {crmem.ErrForeign, "foreign", fixForeign, "", ExitCorrupt},
		"displaced":         {errors.Join(sessionlog.ErrStopped, &sessionlog.DisplacedError{}), "stopped", fixDisplaced, fixDisplaced, ExitUnknown},
		"not regular":       {fmt.Errorf("%w: %w", crmem.ErrFormat, vfs.ErrNotRegular), "format", fixNotRegular, "", ExitCorrupt},
		"too large":         {large, "too_large", tooLarge.Fix, "", ExitCorrupt},
		"too large store":   {fmt.Errorf("%w: %w", crmem.ErrFormat, large), "too_large", tooLarge.Fix, "", ExitCorrupt},
		"file too big":      {syscall.EFBIG, Failed, "", fixNoSpace, ExitFailure},
		"timeout":           {context.DeadlineExceeded, "timeout", "", "", ExitFailure},
	} {
		r := Find(tc.err, own)
		if r.Kind != tc.kind || r.Fix != tc.fix || r.DaemonFix != tc.daemonFix || r.Exit != tc.exit || r.HTTP == 0 {
			t.Errorf("%s: got %+v, want %+v", name, r, tc)
		}
	}
}

func TestLocate(t *testing.T) {
	for want, err := range map[string]error{
		"/f": &crmem.FormatError{Path: "/f", Offset: 7},
		"/s": &record.FormatError{Path: "/s", Offset: 7},
		"/d": &sessionlog.DisplacedError{Path: "/d"},
		"/l": &vfs.LockedError{Path: "/l"},
		"/t": &vfs.TooLargeError{Name: "/t"},
		"/e": &Error{Path: "/e", Err: &vfs.LockedError{Path: "/l"}},
		"/p": &fs.PathError{Op: "open", Path: "/p", Err: fs.ErrNotExist},
		"":   errors.New("x"),
	} {
		path, offset := Locate(fmt.Errorf("operation: %w", err))
		if path != want || (offset != nil) != errors.Is(err, crmem.ErrFormat) && (offset != nil) != errors.Is(err, sessionlog.ErrFormat) {
			t.Errorf("%v: %q, %v; want %q", err, path, offset, want)
		}
	}
}

func TestFixFor(t *testing.T) {
	for kind, want := range map[string]string{
		"not_found": "run crabmem list to see the names",
		"foreign":   fixForeign,
		"too_large": tooLarge.Fix,
		"locked":    "wait until the lock holder exits, or wait longer with --lock-wait",
		"read_only": "",
		"busy":      "",
	} {
		if got := FixFor(kind); got != want {
			t.Errorf("FixFor(%q) = %q, want %q", kind, got, want)
		}
	}
	if ExitFor("scope", http.StatusForbidden) != ExitPermission || ExitFor("", http.StatusBadGateway) != ExitFailure ||
		ExitFor("unknown_agent", http.StatusInternalServerError) != ExitNotFound || ExitFor("busy", http.StatusServiceUnavailable) != ExitConflict {
		t.Error("ExitFor: wrong code")
	}
}
