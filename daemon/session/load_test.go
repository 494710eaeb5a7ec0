package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
)

// TestDamagedSession loads a session with an invalid line: Open and Run fail, and the
// session is not open after it.
func TestDamagedSession(t *testing.T) {
	const file = rigHome + "/sessions/crab_user_1.jsonl"
	bubble(t, func(r *rig) {
		l := r.create("crab", "user")
		r.say(l, "hello")
		r.hold(l, nil)
		r.fail("read", "crab_user_1")
		if got := r.say(l, "hello"); !strings.Contains(got, "sick disk") {
			r.t.Errorf("Run returns %s", got)
		}
		r.mend()
		r.close()
		r.open()
		b, err := vfs.ReadFile(r.fs, file, 1<<20)
		r.check(err)
		r.fs.WriteFile(file, append(b, "bad\n{\"role\":\"user\",\"content\":\"x\"}\n"...), 0o600)
		if _, err := r.Open(r.t.Context(), "crab_user_1", ""); err == nil || len(r.List()) != 0 {
			r.t.Errorf("Open returns %v, %d sessions are open", err, len(r.List()))
		}
	})
}

// TestLoadArchivesPending compacts a session while the store fails, and loads it: the
// summary becomes an entry, unless the agent is absent.
func TestLoadArchivesPending(t *testing.T) {
	for _, absent := range []bool{false, true} {
		bubble(t, func(r *rig) {
			l := r.create("crab", "user")
			r.say(l, "hello")
			r.check(r.store.Close())
			if name, err := r.compact(l); name != "" {
				r.t.Errorf("compacted as %q, %v", name, err)
			}
			r.close()
			r.open()
			if absent {
				r.change(func(s *Setup) { delete(s.Agents, "crab") })
			}
			_, err := r.Open(r.t.Context(), "crab_user_1", "")
			r.check(err)
			if _, err := r.store.Get("crab_user_1-1"); (err != nil) != absent {
				r.t.Errorf("absent %v: %v", absent, err)
			}
		})
	}
}

// TestKinds compares the kinds of run errors.
func TestKinds(t *testing.T) {
	bubble(t, func(r *rig) {
		failed := errors.New("other")
		for _, c := range []struct {
			err       error
			cancelled bool
			want      string
		}{
			{failed, false, errtable.Failed}, {failed, true, errtable.Cancelled}, {ErrCancelled, false, errtable.Cancelled}, {fmt.Errorf("run: %w", ErrKilled), false, errtable.Cancelled}, {notRegistered("x"), true, r.o.Kind(notRegistered("x"))},
		} {
			if got := r.kind(c.err, c.cancelled); got != c.want || got == "" {
				r.t.Errorf("%v, cancelled %v: %q, want %q", c.err, c.cancelled, got, c.want)
			}
		}
	})
}

// TestCloseFails removes a session whose file cannot be closed.
func TestCloseFails(t *testing.T) {
	bubble(t, func(r *rig) {
		l := r.create("crab", "user")
		r.say(l, "hello")
		r.fail("unlock", "")
		if r.Kill(l); len(r.List()) != 0 {
			r.t.Errorf("%d sessions are open", len(r.List()))
		}
		r.mend()
		called := errors.New("called")
		if err := r.With(r.t.Context(), l.ID(), func(context.Context, Setup, *agent.Agent, *agent.Session) error { return called }); err == nil || errors.Is(err, called) {
			r.t.Errorf("With returns %v", err)
		}
	})
}
