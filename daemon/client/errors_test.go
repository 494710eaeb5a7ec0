package client

import (
	"errors"
	"testing"

	"crabmem/crmem"
	"crabmem/sessionlog"
)

// TestErrorIs checks that an error of the daemon is the error that its kind
// stands for in a request of that subject, and no other.
func TestErrorIs(t *testing.T) {
	serve(t, script(fail(404, "nothing of that name")))
	c := newClient(t)
	_, store := c.Get(t.Context(), "n")
	_, session := c.RestoreSession(t.Context(), "n")
	other := c.Kill(t.Context(), 1)
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
