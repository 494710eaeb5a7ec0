package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
)

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestActiveTasks delegates while other tasks of the run are active.
func TestActiveTasks(t *testing.T) {
	bubble(t, func(r *rig) {
		r.change(func(s *Setup) { s.Config.Delegate.MaxTasks = 100 })
		delegate := r.delegateTool()
		for _, c := range []struct {
			before, tasks int
			want          string
		}{
			{0, 64, ""}, {63, 1, ""}, {64, 1, "64 tasks are active, at most 64 at once: delegate fewer tasks, or do the work yourself"}, {1, 63, ""}, {2, 63, "2 tasks are active, at most 64 at once: delegate fewer tasks, or do the work yourself"},
		} {
			active := new(atomic.Int32)
			active.Store(int32(c.before))
			args := marshal(r.t, delegateArgs{make([]task, c.tasks)})
			_, err := delegate.Run(context.WithValue(r.t.Context(), tasksKey{}, active), tool.Call{Arguments: []byte(args), Scope: tool.Unbounded()})
			if got := fmt.Sprint(err); got != c.want && (err != nil || c.want != "") {
				r.t.Errorf("%d tasks while %d are active: %v, want %q", c.tasks, c.before, err, c.want)
			}
			if n := int(active.Load()); n != c.before {
				r.t.Errorf("%d tasks are active afterwards, want %d", n, c.before)
			}
		}
		_, err := delegate.Run(r.t.Context(), tool.Call{Arguments: []byte(`{"tasks":[{"agent":"helper","message":"hello"}]}`), Scope: tool.Unbounded()})
		if err == nil || err.Error() != "delegate is only available in a run" {
			r.t.Errorf("delegate outside a run: %v", err)
		}
	})
}

// TestConcurrentTasks checks that the tasks of one delegation wait for each other
// beyond the configured number, and that waiting tasks do not start after the end
// of the run.
func TestConcurrentTasks(t *testing.T) {
	for _, c := range []struct {
		concurrent int
		want       time.Duration
	}{{1, 30 * time.Second}, {2, 20 * time.Second}, {3, 10 * time.Second}, {100, 10 * time.Second}} {
		bubble(t, func(r *rig) {
			r.change(func(s *Setup) { s.Config.Tasks.MaxConcurrent = c.concurrent })
			args := marshal(t, delegateArgs{slices.Repeat([]task{{"helper", "wait 10s"}}, 3)})
			begin := time.Now()
			q := Run{Session: r.create("crab", "user"), Content: "call delegate " + args + "|tell"}
			r.check(r.Run(r.t.Context(), &q))
			if took := time.Since(begin); took != c.want || strings.Count(q.Answer, `"error":null`) != 3 {
				t.Errorf("3 tasks of 10 s, %d at a time, took %v, want %v: %s", c.concurrent, took, c.want, q.Answer)
			}
		})
	}
	bubble(t, func(r *rig) {
		r.change(func(s *Setup) { s.Config.Tasks.MaxConcurrent = 1 })
		args := marshal(t, delegateArgs{slices.Repeat([]task{{"helper", "wait 10s"}}, 3)})
		ctx, cancel := context.WithCancelCause(r.t.Context())
		time.AfterFunc(15*time.Second, func() { cancel(errors.New("hung up")) })
		if err := r.Run(ctx, &Run{Session: r.create("crab", "user"), Content: "call delegate " + args + "|tell"}); err == nil {
			t.Error("the run did not end with its context")
		}
		list, err := r.logs.List()
		r.check(err)
		if n := len(list); n != 3 {
			t.Errorf("%d sessions, want that of the run and of 2 tasks", n)
		}
	})
}

// TestEarlyReply replies before there is a question.
func TestEarlyReply(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		ended bool
		want  string
	}{
		{99 * time.Millisecond, false, "<nil>"}, {101 * time.Millisecond, false, "no pending ask_user for session 3"}, {time.Millisecond, true, "context canceled"},
	} {
		bubble(t, func(r *rig) {
			got := make(chan error, 1)
			ctx, cancel := context.WithCancelCause(r.t.Context())
			defer cancel(nil)
			go func() { got <- r.Reply(ctx, 3, "yes") }()
			for _, other := range []uint64{4, 5} { // the reply waits for its own session
				synctest.Wait()
				r.asks.begin(other)
			}
			time.Sleep(c.after)
			if c.ended {
				cancel(nil)
			}
			synctest.Wait()
			q := r.asks.begin(3)
			err := <-got
			if fmt.Sprint(err) != c.want {
				r.t.Errorf("a question %v after the reply: %v, want %s", c.after, err, c.want)
			}
			if err == nil {
				if text := <-q.reply; text != "yes" || r.Asking(3) {
					r.t.Errorf("the reply is %q, asking %v", text, r.Asking(3))
				}
			} else if !r.Asking(3) {
				r.t.Error("a failed reply ended the question")
			}
		})
	}
}

// TestCreateFails checks that no session is added without a file.
func TestCreateFails(t *testing.T) {
	bubble(t, func(r *rig) {
		if l, err := r.Create(sessionlog.Meta{Agent: "crab"}, "", "", tool.Unbounded()); l != nil || !errors.Is(err, sessionlog.ErrInvalid) || len(r.List()) != 0 {
			r.t.Errorf("Create returns %v, %v", l, err)
		}
	})
}

// heldContext never ends. It counts the contexts that it has to cancel.
type heldContext struct {
	context.Context
	done chan struct{}
	held atomic.Int32
}

func (c *heldContext) Done() <-chan struct{} { return c.done }

func (c *heldContext) AfterFunc(func()) (stop func() bool) {
	c.held.Add(1)
	return func() bool {
		c.held.Add(-1)
		return true
	}
}

// TestContextReleased checks that the context of a caller, which may live long,
// keeps nothing of a run that has ended.
func TestContextReleased(t *testing.T) {
	bubble(t, func(r *rig) {
		l := r.create("crab", "user")
		delegate := r.delegateTool()
		for name, f := range map[string]func(ctx context.Context) error{
			"run": func(ctx context.Context) error { return r.Run(ctx, &Run{Session: l, Content: "hello"}) },
			"with": func(ctx context.Context) error {
				return r.With(ctx, l.ID(), func(context.Context, Setup, *agent.Agent, *agent.Session) error { return nil })
			},
			"delegate": func(ctx context.Context) error {
				_, err := delegate.Run(ctx, tool.Call{Arguments: []byte(`{"tasks":[{"agent":"helper","message":"hello"}]}`), Scope: tool.Unbounded()})
				return err
			},
		} {
			base := context.WithValue(context.Background(), tasksKey{}, new(atomic.Int32))
			ctx := &heldContext{Context: base, done: make(chan struct{})}
			if err := f(ctx); err != nil {
				r.t.Errorf("%s: %v", name, err)
			}
			if n := ctx.held.Load(); n != 0 {
				r.t.Errorf("%s: the caller's context still refers to %d contexts", name, n)
			}
		}
	})
}
