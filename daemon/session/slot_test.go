package session

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/space"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
)

// create returns a new session.
func (r *rig) create(agent, by string) *Session {
	r.t.Helper()
	l, err := r.Create(sessionlog.Meta{Agent: agent, CreatedBy: by}, "", "", tool.Unbounded())
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

// TestEndAfterErrors checks what each error of a run does to its session: the
// history may differ from the file after a failed write, and a stopped log
// accepts no more writes.
func TestEndAfterErrors(t *testing.T) {
	other := errors.New("other")
	for err, want := range map[error]string{
		nil: "true <nil>", other: "true <nil>", sessionlog.ErrNotFound: "true <nil>",
		sessionlog.ErrNotApplied: "false <nil>", sessionlog.ErrClosed: "false <nil>", sessionlog.ErrInvalid: "false <nil>",
		sessionlog.ErrUnknown: "false write session: an earlier write failed", sessionlog.ErrStopped: "false write session: an earlier write failed",
	} {
		bubble(t, func(r *rig) {
			l := r.create("crab", "user")
			got := r.With(r.t.Context(), l.ID(), func(context.Context, Setup, *agent.Agent, *agent.Session) error {
				time.Sleep(2999 * time.Millisecond)
				if err == nil {
					return nil
				}
				return fmt.Errorf("wrapped: %w", err)
			})
			if !errors.Is(got, err) {
				r.t.Errorf("With returns %v, want %v", got, err)
			}
			if state := fmt.Sprint(l.session != nil, l.killed); state != want {
				r.t.Errorf("after %v: loaded and killed are %s, want %s", err, state, want)
			}
			if l.Alive() != 2 || l.Active() || l.closed != (l.killed != nil) {
				r.t.Errorf("after %v: alive %d, active %v, closed %v", err, l.Alive(), l.Active(), l.closed)
			}
		})
	}
}

// TestBeforeSummary checks the number and the spaces that BeforeSummary records.
func TestBeforeSummary(t *testing.T) {
	bubble(t, func(r *rig) {
		s := &agent.Session{Log: r.create("crab", "user").log, Compactions: 5, Unarchived: []agent.Summary{{Number: 4}, {Number: 5}}}
		r.check(r.BeforeSummary(s))
		for _, c := range []struct {
			creator, sender string
			want            archiveState
		}{
			{"user", "user", archiveState{done: 3, spaces: []string{"main", "main", "main"}}}, // two by an earlier version
			{"user", "tg:7", archiveState{done: 3, spaces: []string{"main", "main", space.OfSender("tg:7")}}},
			{"user", "slack:7", archiveState{done: 3, spaces: []string{"main", "main", "-"}}},
		} {
			s.Scope = r.setup.Load().Config.Origins.Scope(c.creator, c.sender)
			r.check(r.BeforeSummary(s))
			if got, known := r.archived("crab_user_1"); !reflect.DeepEqual(got, c.want) || !known {
				r.t.Errorf("%s: recorded %v, want %v", c.sender, got, c.want)
			}
		}
		r.fail("rename", "archived")
		s.Compactions++
		if r.BeforeSummary(s) == nil {
			r.t.Error("BeforeSummary returns no error")
		}
		r.mend()
	})
}

// TestOpenEvicts checks that opening sessions evicts others, and that WithIdle
// ends a question.
func TestOpenEvicts(t *testing.T) {
	bubble(t, func(r *rig) {
		var ids []string
		for range 80 {
			ids = append(ids, r.create("crab", "user").StoredID())
		}
		r.close()
		r.open()
		r.change(func(s *Setup) { s.Config.Limits.Sessions = 1 })
		for _, id := range ids {
			_, err := r.Open(r.t.Context(), id, "")
			r.check(err)
		}
		if n := len(r.List()); n != justFound+1 {
			r.t.Errorf("%d sessions are loaded, want %d", n, justFound+1)
		}
		r.asks.begin(80)
		r.check(r.WithIdle(r.t.Context(), ids[79], func() error { return nil }))
		if r.Asking(80) {
			r.t.Error("a closed session still asks")
		}
	})
}

// TestKilledSessionEndsItsQuestion kills sessions while a question awaits a reply.
func TestKilledSessionEndsItsQuestion(t *testing.T) {
	bubble(t, func(r *rig) {
		for i, kill := range []func(l *Session){
			func(l *Session) { r.Kill(l) },
			func(l *Session) { r.check(r.WithIdle(r.t.Context(), l.StoredID(), func() error { return nil })) },
		} {
			l, other := r.create("crab", "user"), r.create("crab", "user")
			q, kept := r.asks.begin(l.ID()), r.asks.begin(other.ID())
			kill(l)
			if r.Asking(l.ID()) || !r.Asking(other.ID()) {
				t.Errorf("kill %d: asking %t, the other one %t", i, r.Asking(l.ID()), r.Asking(other.ID()))
			}
			select {
			case _, ok := <-q.reply:
				if ok {
					t.Errorf("kill %d: a reply", i)
				}
			default:
				t.Errorf("kill %d: the question is open", i)
			}
			r.asks.end(other.ID(), kept)
			r.wantClosed(l)
		}
	})
}

func TestWithSetsTheScopeOfTheCreator(t *testing.T) {
	for creator, confined := range map[string]bool{"user": false, "tg:7": true} {
		bubble(t, func(r *rig) {
			l := r.create("crab", creator)
			r.check(r.With(r.t.Context(), l.ID(), func(_ context.Context, _ Setup, _ *agent.Agent, h *agent.Session) error {
				if h.Scope.Confined != confined || h.Scope.Tools.Allows(tool.Bash) == confined {
					r.t.Errorf("%s: %+v", creator, h.Scope)
				}
				return nil
			}))
		})
	}
}
