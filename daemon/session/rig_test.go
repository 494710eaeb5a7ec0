package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
	"crabmem/daemon/model"
	"crabmem/daemon/space"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// rig is a Manager in a synctest bubble, with its files in memory. It collects
// the calls, results, and log lines as notes.
type rig struct {
	*Manager
	t     *testing.T
	fs    *faultfs.Mem
	store *crmem.Store
	logs  *sessionlog.Dir
	setup atomic.Pointer[Setup]
	fault atomic.Pointer[func(faultfs.Call) error]

	mu    sync.Mutex
	notes []string
}

const rigHome = "/home/crab"

// bubble calls f with a rig in a synctest bubble.
func bubble(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, fs: faultfs.NewMem()}
		r.fs.Hook = func(c faultfs.Call) error {
			if fault := r.fault.Load(); fault != nil {
				return (*fault)(c)
			}
			return nil
		}
		for _, dir := range []string{rigHome, "/work", "/other"} {
			r.check(vfs.MkdirAll(r.fs, dir, 0o700))
		}
		r.open()
		f(r)
		r.close()
	})
}

func (r *rig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// open opens the files and makes the Manager, as a daemon does.
func (r *rig) open() {
	var err error
	r.store, err = crmem.Open(rigHome+"/memory.db", &crmem.Options{FS: r.fs})
	r.check(err)
	r.logs, err = sessionlog.OpenDir(rigHome+"/sessions", &sessionlog.Options{FS: r.fs})
	r.check(err)
	r.Manager = New(Options{
		FS: r.fs, Home: rigHome, Dir: "/work", Log: slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{ReplaceAttr: withoutTime})), Now: time.Now,
		Logs: r.logs, Space: func(_ string, f func(*crmem.Store) error) error { return f(r.store) }, Own: func(string, string) string { return space.Main },
		Setup:  func() Setup { return *r.setup.Load() },
		Forget: func(id uint64) { r.note("forget %d", id) },
		Ran:    func(d time.Duration) { r.note("ran for %v", d) },
		Allow: func(prefixes []string) error {
			r.change(func(s *Setup) { s.Config.Bash.Allow = slices.Concat(s.Config.Bash.Allow, prefixes) })
			return nil
		},
		Kind: func(err error) string { return errtable.Find(err).Kind },
	})
	models, err := model.NewRegistry(model.Network{}, nil, "")
	r.check(err)
	for _, name := range []string{"script", "other"} {
		r.check(models.AddBackend(name, 10_000, &script{r, name}))
	}
	run := agent.NewRunner(models, agent.Hooks{})
	run.BeforeSummary, run.Archive = r.BeforeSummary, r.Archive
	run.Tools.Add(r.Tools()...)
	run.Tools.Add(
		tool.New(tool.Recall, "", func(_ context.Context, c tool.Call, _ struct{}) (string, error) {
			return fmt.Sprintf("session %d of %s, agent %s, %s, depth %d", c.Session, c.Requester, c.Agent, c.Dir, c.Depth), nil
		}),
		tool.New(tool.Bash, "", func(context.Context, tool.Call, struct{}) (string, error) { return "$", nil }),
	)
	c := &config.Config{
		Ask: config.Ask{Timeout: 30*time.Second + 7*time.Microsecond}, Tasks: config.Tasks{MaxConcurrent: 100, Timeout: time.Minute + 3*time.Microsecond},
		Delegate: config.Delegate{MaxDepth: 2, MaxTasks: 3}, Limits: config.Limits{Sessions: 100}, Bash: config.Bash{Approve: "off"},
		Origins: trust.Rules{{Prefix: "tg:", Level: trust.Trusted, Allow: []string{tool.Delegate}}},
	}
	s := Setup{Config: c, Runner: run, Agents: make(map[string]*agent.Agent)}
	for _, a := range []*agent.Agent{
		{Name: "crab", Memory: true, Scope: tool.Unbounded()},
		{Name: "helper", Scope: tool.Unbounded()},
		{Name: "bound", Memory: true, Scope: tool.For(tool.Grant{Members: []string{"helper", "absent"}})},
	} {
		a.MaxIterations = 4 // without Build, whose prompt depends on the machine
		s.Agents[a.Name] = a
	}
	r.setup.Store(&s)
}

// close ends all runs and closes the files.
func (r *rig) close() {
	r.fault.Store(nil)
	r.Stop(r.t.Context(), errors.New("the end"))
	synctest.Wait()
	// After a fault they return the error again.
	r.logs.Close()
	r.store.Close()
}

// change replaces the setup.
func (r *rig) change(f func(s *Setup)) {
	s := *r.setup.Load()
	c := *s.Config
	s.Config, s.Agents = &c, maps.Clone(s.Agents)
	f(&s)
	r.setup.Store(&s)
}

// fail makes calls fail until mend: those of an operation on names with a part.
func (r *rig) fail(op, part string) {
	f := func(c faultfs.Call) error {
		if c.Op == op && strings.Contains(c.Name, part) {
			return errors.New("sick disk")
		}
		return nil
	}
	r.fault.Store(&f)
}

// explain returns the text of an error with its kind, status, and fix.
func explain(err error) string {
	text := fmt.Sprint(err)
	if e, ok := errors.AsType[*errtable.Error](err); ok {
		text += fmt.Sprintf(" (%s %d, %q)", e.Kind, e.HTTP, e.Fix)
	}
	return text
}

func (r *rig) mend() { r.fault.Store(nil) }

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// Write writes a log line.
func (r *rig) Write(line []byte) (int, error) {
	r.note("log %s", strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// script is a model that follows the newest message of a user, whose steps are
// separated by |. Each response does one step:
//
//	call TOOL ARGUMENTS   calls a tool
//	tell                  repeats the last message
//	wait DURATION         responds after a time
//	used TOKENS TOKENS    responds with a count of tokens, else 3 and 1
//	uncounted             responds without one
//	fail TEXT             fails
//
// Any other step is the response.
type script struct {
	r    *rig
	name string
}

func (s *script) Send(ctx context.Context, q model.Request) (*model.Response, error) {
	s.r.note("summary by %s", s.name)
	return &model.Response{Message: sessionlog.Message{Role: record.RoleAssistant, Content: fmt.Sprintf("summary of %d messages", len(q.Messages))}, Finish: "stop"}, nil
}

func (s *script) Stream(ctx context.Context, q model.Request) iter.Seq2[model.Chunk, error] {
	text, n, last := "", 0, ""
	for _, m := range q.Messages {
		switch m.Role {
		case record.RoleUser:
			text, n = m.Content, 0
		case record.RoleAssistant:
			n++
		}
		last = m.Content
	}
	steps := strings.Split(text, "|")
	step := steps[min(n, len(steps)-1)]
	verb, rest, _ := strings.Cut(step, " ")
	var tools []string
	for _, t := range q.Tools {
		tools = append(tools, t.Name)
	}
	s.r.note("%s with %v: %s", s.name, tools, step)
	c, err := s.step(ctx, verb, rest, last)
	if c.Usage == nil && verb != "uncounted" {
		c.Usage = &model.Usage{Prompt: 3, Completion: 1}
	}
	return func(yield func(model.Chunk, error) bool) { yield(c, err) }
}

func (s *script) step(ctx context.Context, verb, rest, last string) (c model.Chunk, err error) {
	c = model.Chunk{Content: strings.TrimSpace(verb + " " + rest), Finish: "stop"}
	switch verb {
	case "call":
		name, arguments, _ := strings.Cut(rest, " ")
		c = model.Chunk{Calls: []model.CallDelta{{ID: "1", Name: name, Arguments: arguments}}, Finish: "tool_calls"}
	case "tell":
		c.Content = last
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			return c, err
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return c, ctx.Err()
		}
	case "used":
		c.Usage = new(model.Usage)
		_, err = fmt.Sscan(rest, &c.Usage.Prompt, &c.Usage.Completion)
	case "fail":
		err = errors.New(rest)
	}
	return c, err
}
