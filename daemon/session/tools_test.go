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
	"crabmem/fuzz/golden"
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

// run runs a session's agent and notes the result with its events.
func (r *rig) run(ctx context.Context, name string, q Run) {
	q.Each = func(e agent.Event) error {
		var calls []string
		for _, c := range e.Calls {
			calls = append(calls, c.Function.Name)
		}
		r.note("%s: event %d %q %v %v %q %v, %v", name, e.Kind, e.Text, calls, e.Usage, e.Result.Output, e.Questions, e.Refused)
		return nil
	}
	err := r.Run(ctx, &q)
	r.note("%s returns %q %+v, %v", name, q.Answer, q.Usage, err)
}

// TestReportsOfDelegate compares the results of delegate.
func TestReportsOfDelegate(t *testing.T) {
	var out golden.Reports
	many := func(n int, agent, message string) (list []task) {
		for range n {
			list = append(list, task{agent, message})
		}
		return list
	}
	nested := `call delegate {"tasks":[{"agent":"helper","message":"call delegate {\"tasks\":[{\"agent\":\"helper\",\"message\":\"call recall {}\\u007ctell\"}]}\u007ctell"}]}|tell`
	call := func(tasks ...task) string {
		return "call delegate " + strings.ReplaceAll(marshal(t, delegateArgs{tasks}), "|", `\u007c`) + "|tell"
	}
	for _, c := range []struct {
		name, agent, content string
		depth, tasks         int
		timeout              time.Duration
		fault                string
	}{
		{"no tasks", "crab", call(), 2, 3, 0, ""},
		{"most tasks", "crab", call(many(3, "absent", "x")...), 2, 3, 0, ""},
		{"too many tasks", "crab", call(many(4, "absent", "x")...), 2, 3, 0, ""},
		{"most active tasks", "crab", call(many(64, "absent", "x")...), 2, 100, 0, ""},
		{"too many active tasks", "crab", call(many(65, "absent", "x")...), 2, 100, 0, ""},
		{"too many, then few", "crab", call(many(65, "absent", "x")...) + "|" + call(many(64, "absent", "x")...), 2, 100, 0, ""},
		{"few, then few", "crab", strings.TrimSuffix(call(many(64, "absent", "x")...), "|tell") + "|" + call(many(64, "absent", "y")...), 2, 100, 0, ""},
		{"depth 0", "crab", nested, 0, 3, 0, ""},
		{"depth 1", "crab", nested, 1, 3, 0, ""},
		{"depth 2", "crab", nested, 2, 3, 0, ""},
		{"mark-up", "crab", call(task{"helper", "<a & b>\n\u2028\x7f"}), 2, 3, 0, ""},
		{"no message", "crab", call(task{"helper", ""}), 2, 3, 0, ""},
		{"member", "bound", call(task{"helper", "call recall {}|tell"}), 2, 3, 0, ""},
		{"absent member", "bound", call(task{"absent", "hello"}), 2, 3, 0, ""},
		{"no member", "bound", call(task{"helper", "hello"}, task{"crab", "hello"}), 2, 3, 0, ""},
		{"narrow", "bound", call(task{"helper", "call bash {}|tell"}), 2, 3, 0, ""},
		{"remote", "tg:7", call(task{"helper", "call bash {}|tell"}), 2, 3, 0, ""},
		{"ask", "crab", call(task{"helper", "call ask_user {}|tell"}), 2, 3, 0, ""},
		{"fails", "crab", call(task{"helper", "fail badly"}), 2, 3, 0, ""},
		{"slow", "crab", call(task{"helper", "wait 10s"}), 2, 3, 9 * time.Second, ""},
		{"fast", "crab", call(task{"helper", "wait 10s"}), 2, 3, 11 * time.Second, ""},
		{"no time limit", "crab", call(task{"helper", "wait 1000h"}), 2, 3, 0, ""},
		{"no session", "crab", call(task{"helper", "hello"}), 2, 3, 0, "helper"},
	} {
		bubble(t, func(r *rig) {
			r.change(func(s *Setup) {
				s.Config.Delegate.MaxDepth, s.Config.Delegate.MaxTasks, s.Config.Tasks.Timeout = c.depth, c.tasks, c.timeout
			})
			l := r.create(c.agent, "user")
			if c.agent == "tg:7" {
				l = r.create("crab", c.agent)
			}
			if c.fault != "" {
				r.fail("create", c.fault)
			}
			r.run(r.t.Context(), "run", Run{Session: l, Content: c.content, Sender: "user", Interactive: true})
			r.mend()
			out.Add(c.name, r.outcome())
		})
	}
	out.Compare(t, "testdata/reports/delegate.txt.gz")
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

// TestTasksEnd checks that the session of a task is closed, and that a run in
// it cannot outlive the run that delegated.
func TestTasksEnd(t *testing.T) {
	var out golden.Reports
	bubble(t, func(r *rig) {
		l := r.create("crab", "tg:7")
		ctx, cancel := context.WithCancelCause(r.t.Context())
		go r.run(ctx, "run", Run{Session: l, Content: `call delegate {"tasks":[{"agent":"helper","message":"wait 1h"},{"agent":"absent","message":"hello"}]}|tell`})
		out.Add("while a task runs", r.outcome())
		time.Sleep(90 * time.Second) // over the limit of a task
		out.Add("after the time limit", r.outcome())
		go r.run(ctx, "second", Run{Session: l, Content: `call delegate {"tasks":[{"agent":"helper","message":"wait 1h"}]}|tell`})
		out.Add("while another task runs", r.outcome())
		cancel(errors.New("hung up"))
		out.Add("after the end", r.outcome())
	})
	out.Compare(t, "testdata/reports/tasks.txt.gz")
}

// TestReportsOfAsk compares the results of ask_user.
func TestReportsOfAsk(t *testing.T) {
	var out golden.Reports
	askFor := func(n int) string {
		list := make([]agent.Question, n)
		for i := range list {
			list[i] = agent.Question{Question: "which?", Header: fmt.Sprint("h", i)}
		}
		return "call ask_user " + marshal(t, askArgs{list}) + "|tell"
	}
	type world struct {
		*rig
		l      *Session
		cancel context.CancelCauseFunc
	}
	for _, c := range []struct {
		name        string
		questions   int
		interactive bool
		act         func(w *world)
	}{
		{"none", 0, true, nil},
		{"not interactive", 1, false, nil},
		{"most", 32, true, func(w *world) { w.note("Reply returns %v", w.Reply(w.t.Context(), 1, "yes")) }},
		{"too many", 33, true, nil},
		{"two replies", 1, true, func(w *world) {
			w.note("Reply returns %v", w.Reply(w.t.Context(), 1, ""))
			w.note("Reply returns %v", w.Reply(w.t.Context(), 1, "no"))
		}},
		{"other session", 1, true, func(w *world) { w.note("Reply returns %v", w.Reply(w.t.Context(), 2, "yes")) }},
		{"hung up", 1, true, func(w *world) { w.cancel(errors.New("hung up")) }},
		{"cancel", 1, true, func(w *world) { w.note("Cancel returns %v", w.l.Cancel(ErrCancelled)) }},
		{"kill", 1, true, func(w *world) { w.note("Kill returns %v", w.Kill(w.l)) }},
		{"just in time", 2, true, func(w *world) {
			time.Sleep(30*time.Second + 6*time.Microsecond)
			w.note("Reply returns %v", w.Reply(w.t.Context(), 1, "yes"))
		}},
		{"late", 2, true, func(w *world) { time.Sleep(30*time.Second + 8*time.Microsecond) }},
		{"replaced", 1, true, func(w *world) {
			q := w.asks.begin(1)
			w.outcomeTo(&out, "replaced")
			w.asks.end(1, new(ask))
			w.note("Asking returns %v", w.Asking(1))
			w.asks.end(1, q)
			w.note("Asking returns %v", w.Asking(1))
		}},
		{"removed", 1, true, func(w *world) {
			w.asks.cancel(1)
			w.asks.cancel(1)
			w.note("Asking returns %v", w.Asking(1))
		}},
	} {
		bubble(t, func(r *rig) {
			w := &world{rig: r, l: r.create("crab", "user")}
			ctx, cancel := context.WithCancelCause(r.t.Context())
			defer cancel(nil)
			w.cancel = cancel
			go r.run(ctx, "run", Run{Session: w.l, Content: askFor(c.questions), Interactive: c.interactive})
			out.Add(c.name, r.outcome())
			if c.act != nil {
				c.act(w)
				outcome := r.outcome()
				if c.name == "kill" {
					outcome = endOfQuestion.Replace(outcome)
				}
				out.Add(c.name+", then", outcome)
			}
		})
	}
	out.Compare(t, "testdata/reports/ask.txt.gz")
}

func (r *rig) outcomeTo(out *golden.Reports, title string) { out.Add(title, r.outcome()) }

// endOfQuestion replaces the two results of a question whose session was killed.
var endOfQuestion = strings.NewReplacer("ask_user cancelled: the run ended", "ask_user cancelled", "ask_user cancelled: reply channel closed", "ask_user cancelled")

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
