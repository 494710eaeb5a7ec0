package session

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"crabmem/daemon/agent"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
)

// create returns a new session.
func (r *rig) create(agent, by string) *Session {
	r.t.Helper()
	l, err := r.Create(sessionlog.Meta{Agent: agent, CreatedBy: by}, "", tool.Unbounded())
	r.check(err)
	return l
}

func (r *rig) wantClosed(l *Session) {
	r.t.Helper()
	select {
	case <-l.Done():
	default:
		r.t.Errorf("session %d is not closed", l.ID())
	}
}

// TestStopClosesKilledSession kills a session while Stop waits for its run slot.
func TestStopClosesKilledSession(t *testing.T) {
	bubble(t, func(r *rig) {
		l := r.create("crab", "user")
		if !l.slot.TryAcquire(1) {
			r.t.Fatal("a run is active")
		}
		go r.Stop(r.t.Context(), errors.New("stopping"))
		synctest.Wait()
		r.Kill(l)
		r.release(l)
		synctest.Wait()
		r.wantClosed(l)
	})
}

// TestEndedWaiterClosesKilledSession ends the context of a run that receives the
// run slot of a killed session.
func TestEndedWaiterClosesKilledSession(t *testing.T) {
	bubble(t, func(r *rig) {
		for range 100 {
			l := r.create("crab", "user")
			if !l.slot.TryAcquire(1) {
				r.t.Fatal("a run is active")
			}
			ctx, cancel := context.WithCancel(r.t.Context())
			go func() {
				if err := r.Run(ctx, &Run{Session: l, Content: "hello"}); err == nil {
					r.t.Error("the run did not end")
				}
			}()
			synctest.Wait()
			r.Kill(l)
			l.slot.Release(1)
			cancel()
			r.closeKilled(l)
			synctest.Wait()
			r.wantClosed(l)
		}
	})
}

// TestWithEndsContext checks that the context of With ends with it.
func TestWithEndsContext(t *testing.T) {
	bubble(t, func(r *rig) {
		l := r.create("crab", "user")
		var ctx context.Context
		r.check(r.With(r.t.Context(), l.ID(), func(c context.Context, _ Setup, _ *agent.Agent, _ *agent.Session) error {
			ctx = c
			return c.Err()
		}))
		if ctx.Err() == nil {
			r.t.Error("the context did not end")
		}
	})
}
