package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/model"
	"crabmem/daemon/tool"
	"crabmem/fuzz/golden"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// randomRuns runs an agent whose model, tools, and hooks act at random.
type randomRuns struct {
	*Runner
	*rand.Rand
	t     *testing.T
	fs    *faultfs.Mem
	s     *Session
	calls int // numbers the calls of tools
	out   strings.Builder
}

func (r *randomRuns) notef(format string, args ...any) { fmt.Fprintf(&r.out, format+"\n", args...) }

func (r *randomRuns) pick(list ...string) string { return list[r.IntN(len(list))] }

// Send returns a summary.
func (r *randomRuns) Send(_ context.Context, q model.Request) (*model.Response, error) {
	r.notef("summarize %q %v: %s", q.Model, q.Timeout, messages(q.Messages))
	switch r.IntN(6) {
	case 0:
		return nil, errors.New("no summary")
	case 1:
		return nil, model.ErrOverflow
	}
	return &model.Response{Message: sessionlog.Message{Role: record.RoleAssistant, Content: r.pick(" sum\xff ", "summary", " ", strings.Repeat("s", 3000))}, Finish: r.pick("stop", "stop", "stop", "length")}, nil
}

// Stream returns a random response.
func (r *randomRuns) Stream(ctx context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	var tools []string
	for _, t := range q.Tools {
		tools = append(tools, t.Name)
	}
	r.notef("request %q %v %v: %s", q.Model, q.Thinking, tools, messages(q.Messages))
	return func(yield func(model.Chunk, error) bool) {
		for range r.IntN(4) {
			c := model.Chunk{Content: r.pick("", "text ", "b\xff", strings.Repeat("x", 400)), Reasoning: r.pick("", "", "why\xff")}
			for range r.IntN(3) / 2 * (1 + r.IntN(2)) {
				r.calls++
				c.Calls = append(c.Calls, model.CallDelta{Index: r.calls, ID: fmt.Sprint("c", r.calls), Name: r.pick("", "echo", "echo", "wait", "emit", "fails", "narrow", "secret", "absent"), Arguments: fmt.Sprintf(`{"n":%d}`, r.calls)})
			}
			if r.IntN(5) == 0 {
				c.Model = r.pick("spare", "other")
			}
			if !yield(c, nil) {
				return
			}
		}
		switch r.IntN(9) {
		case 0:
			yield(model.Chunk{}, model.ErrOverflow)
		case 1:
			yield(model.Chunk{}, errors.New("broken"))
		case 2:
			yield(model.Chunk{Finish: "length"}, nil)
		case 3, 4:
			yield(model.Chunk{Content: "end", Finish: "stop"}, nil)
		default:
			yield(model.Chunk{Content: "end", Finish: "stop", Usage: &model.Usage{Prompt: r.IntN(1500), Completion: r.IntN(300)}}, nil)
		}
	}
}

// messages writes messages as one line.
func messages(ms []sessionlog.Message) string {
	return strings.ReplaceAll(abridged(fmt.Sprintf("%+v", ms)), "\n", `\n`)
}

func (r *randomRuns) tools() []tool.Tool {
	type args struct {
		N int `json:"n"`
	}
	return []tool.Tool{
		tool.New("echo", "Echoes.", func(_ context.Context, c tool.Call, a args) (string, error) {
			return fmt.Sprintf("%d %s %s %s %d %s %d %s", a.N, c.ID, c.Name, c.Agent, c.Session, c.Requester, c.Depth, c.Dir), nil
		}),
		tool.New("wait", "Waits.", func(ctx context.Context, _ tool.Call, a args) (string, error) {
			select {
			case <-time.After(time.Duration(a.N%10)*time.Second + time.Duration(a.N)*time.Microsecond):
				return "waited", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}),
		tool.New("emit", "Emits.", func(ctx context.Context, _ tool.Call, a args) (string, error) {
			time.Sleep(time.Duration(a.N) * time.Microsecond)
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			Emit(ctx, Event{Kind: AskUser, Questions: []Question{{Question: fmt.Sprint(a.N)}}})
			return "emitted", nil
		}),
		tool.New("fails", "Fails.", func(context.Context, tool.Call, args) (string, error) { return "part", errors.New("failed") }),
		tool.New("narrow", "Narrows.", func(_ context.Context, c tool.Call, a args) (string, error) {
			time.Sleep(time.Hour + time.Duration(a.N)*time.Microsecond) // after the other calls
			c.Narrow(tool.Scope{Tools: tool.Only("echo", "wait", "emit", "secret", "narrow", "absent")})
			return "narrowed", nil
		}),
		tool.New("secret", "Is not allowed.", func(context.Context, tool.Call, args) (string, error) { return "secret", nil }),
	}
}

func (r *randomRuns) hooks() Hooks {
	note := func(t *Turn) string {
		return fmt.Sprintf("agent %s, sender %s, depth %d, %q", t.Agent.Name, t.Sender, t.Depth, t.Content)
	}
	h := Hooks{Event: func(t *Turn, e Event) { r.notef("hook: event %d, %s", e.Kind, note(t)) }}
	if r.IntN(2) == 0 {
		h.Preprocess = func(t *Turn) string {
			r.notef("preprocess: %s", note(t))
			return t.Content + "!\xff"
		}
	}
	if r.IntN(2) == 0 {
		h.BeforeRun = func(t *Turn) []sessionlog.Message {
			r.notef("before: %s", note(t))
			return []sessionlog.Message{{Role: record.RoleUser, Content: "injected"}, {Role: record.RoleUser, Content: strings.Repeat("i", 50)}}
		}
	}
	return h
}

// newRandomRuns returns a runner with a session. It runs in a bubble.
func newRandomRuns(t *testing.T, seed uint64) (*randomRuns, *Agent) {
	r := &randomRuns{Rand: rand.New(rand.NewPCG(9, seed)), t: t, fs: faultfs.NewMem()}
	models, err := model.NewRegistry(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		name  string
		limit int
	}{{"script", 2000}, {"large", 100_000}, {"unlimited", -1}} {
		if err := models.AddBackend(m.name, m.limit, r); err != nil {
			t.Fatal(err)
		}
	}
	r.Runner = NewRunner(models, r.hooks())
	r.Tools.Add(r.tools()...)
	if r.IntN(5) > 0 {
		r.BeforeSummary = func(s *Session) error {
			if r.IntN(6) == 0 {
				return errors.New("no note")
			}
			r.notef("before summary %d, %v", s.Compactions, s.Unarchived)
			return nil
		}
	}
	if r.IntN(5) > 0 {
		r.Archive = func(a *Agent, s *Session, sum Summary) (string, error) {
			if r.IntN(3) == 0 {
				return "", errors.New("store is full")
			}
			r.notef("archive %s %d %q", a.Name, sum.Number, abridged(sum.Text))
			return fmt.Sprint("entry-", sum.Number), nil
		}
	}
	r.s = &Session{ID: seed, CreatedBy: "user", Dir: "/work", Scope: tool.Unbounded()}
	if r.IntN(4) > 0 {
		dir, err := sessionlog.OpenDir("/sessions", &sessionlog.Options{FS: r.fs})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dir.Close() })
		if r.s.Log, err = dir.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"}); err != nil {
			t.Fatal(err)
		}
	}
	a := &Agent{Name: "crab", Model: r.pick("", "script", "large", "unlimited"), Thinking: r.IntN(2) == 0, MaxIterations: 1 + r.IntN(4), CompactThreshold: []int{0, 100, 1000, 1600, 5000}[r.IntN(5)],
		CompactTokens: r.IntN(2) * 50, Scope: tool.Scope{Tools: tool.Only("echo", "wait", "emit", "fails", "narrow", "absent")}, system: r.pick("", "You are a crab.", strings.Repeat("p", 900))}
	return r, a
}

// run runs the agent once. It may stop, cancel, or fail the disk after an event.
func (r *randomRuns) run(a *Agent, n int) {
	ctx, cancel := context.WithCancelCause(r.t.Context())
	defer cancel(nil)
	if r.IntN(3) == 0 {
		r.s.Messages = append(r.s.Messages, sessionlog.Message{Role: record.RoleUser, Content: "old", Injected: true})
	}
	act, after := r.IntN(12), r.IntN(8)
	for e, err := range r.Run(ctx, a, r.s, Input{Content: fmt.Sprint("question ", n), Sender: "me", Depth: n}) {
		r.notef("event %d %q %+v %v %v %+v %+v %q %v %d %v, %v", e.Kind, abridged(e.Text), e.Calls, e.Early, e.Questions, e.Result, e.Usage, e.Archive, e.Refused, e.Stop, e.Err, err)
		if after--; after >= 0 || e.Kind == ToolStart || e.Kind == Usage {
			continue // calls follow, which may or may not begin in an ended context
		}
		synctest.Wait()
		switch act {
		case 0:
			cancel(errors.New("enough"))
		case 1:
			r.fs.Hook = func(c faultfs.Call) error {
				if c.Op == "write" || c.Op == "datasync" {
					return errors.New("sick disk")
				}
				return nil
			}
		case 2:
			act = -1
		}
		if act < 0 {
			break
		}
	}
	r.fs.Hook = nil
	r.notef("session %d %v: %s", r.s.Compactions, r.s.Unarchived, messages(r.s.Messages))
	if l := r.s.Log; l != nil {
		c, err := l.Context()
		if err != nil {
			r.notef("context: %v", err)
			return
		}
		r.notef("file, %d s: %s", l.Meta().UptimeSecs, messages(c.Messages))
	}
}

// TestReportsOfRuns compares the events, requests, and messages of random runs.
func TestReportsOfRuns(t *testing.T) {
	var out golden.Reports
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			r, a := newRandomRuns(t, seed)
			for n := range 3 {
				r.run(a, n)
				out.Add(fmt.Sprintf("session %d, run %d of %q, limits %d and %d", seed, n, a.Model, a.MaxIterations, a.CompactThreshold), r.out.String())
				r.out.Reset()
			}
			time.Sleep(2 * time.Hour) // canceled calls of narrow end
		})
	}
	out.Compare(t, "testdata/reports/runs.txt.gz")
}
