package client

import (
	"errors"
	"fmt"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/sessionlog"
)

// TestErrorIs checks that an error of the daemon matches only the sentinel of its
// kind for the subject of the request.
func TestErrorIs(t *testing.T) {
	serve(t, script(fail(404, "nothing of that name")))
	c := newClient(t)
	_, session := op.RestoreSession.Do(t.Context(), c, op.SessionID{Session: "n"})
	_, store := op.ReadEntry(t.Context(), c, op.EntryName{Name: "n"})
	_, other := op.CancelRun.Do(t.Context(), c, op.SessionNumber{Number: 1})
	for _, tc := range []struct {
		err            error
		store, session bool
		text           string
	}{
		{store, true, false, "nothing of that name"},
		{session, false, true, "nothing of that name"},
		{other, false, false, "server error (404): nothing of that name"},
	} {
		if errors.Is(tc.err, crmem.ErrNotFound) != tc.store || errors.Is(tc.err, sessionlog.ErrNotFound) != tc.session || tc.err.Error() != tc.text {
			t.Errorf("%v: want %+v", tc.err, tc)
		}
	}
}

// TestErrorRow checks that errtable finds the row of an error of the daemon, with
// what the daemon sent in place of what the table has.
func TestErrorRow(t *testing.T) {
	for _, tc := range []struct {
		err  Error
		want errtable.Row // kind, exit code and fix
	}{
		{Error{Family: errtable.Store, Kind: "exists", Code: 409}, errtable.Find(crmem.ErrExists)},
		{Error{Family: errtable.Store, Kind: "exists", Code: 409, Remedy: "wait"}, errtable.Row{Kind: "exists", Exit: errtable.ExitConflict, Fix: "wait"}},
		{Error{Family: errtable.Other, Kind: "not_found", Code: 404}, errtable.Row{Kind: "not_found", Exit: errtable.ExitNotFound}},
		{Error{Kind: "busy", Code: 409}, errtable.Row{Kind: "busy", Exit: errtable.ExitConflict}},
		{Error{Code: 500}, errtable.Row{Kind: errtable.Failed, Exit: errtable.ExitFailure}},
	} {
		got := errtable.Find(fmt.Errorf("operation: %w", &tc.err))
		if got.Kind != tc.want.Kind || got.Exit != tc.want.Exit || got.Fix != tc.want.Fix {
			t.Errorf("%+v: row %+v, want %+v", tc.err, got, tc.want)
		}
	}
}
