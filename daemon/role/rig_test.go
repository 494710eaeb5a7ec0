package role

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
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
	"crabmem/daemon/approval"
	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
	"crabmem/daemon/model"
	"crabmem/daemon/session"
	"crabmem/daemon/skill"
	"crabmem/daemon/space"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
	"crabmem/daemon/work"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

const rigHome = "/home/crab"

// rig is a Roles in a synctest bubble, with its files in memory. It collects events, calls
// of the model, and warnings as notes.
type rig struct {
	skills map[string]*skill.Skill
	*Roles
	t        *testing.T
	fs       *faultfs.Mem
	store    *crmem.Store
	logs     *sessionlog.Dir
	sessions *session.Manager
	config   *config.Config
	// reply is the model: it returns the response to a request.
	reply    func(q *request) answer
	disk     string        // the home, if its files are on the disk
	commands bool          // bash asks for approval
	made     atomic.Int32  // commands that bash ran then
	takes    time.Duration // such a command
	bin      string        // contains the programs of commands that may be approved always
	known    int           // in the result of recall
	// published receives the events of work; nil: none.
	published func(agent.Event)

	turn  sync.Mutex // held by reply and fault; orders what the test does with what runs do
	steps int
	fault func(faultfs.Call) error

	mu    sync.Mutex
	notes []string
}

// order orders what the caller did with what runs do next.
func (r *rig) order() {
	r.turn.Lock()
	defer r.turn.Unlock()
	r.steps++
}

// hook has a function called before each call of the file system.
func (r *rig) hook(f func(faultfs.Call) error) {
	r.turn.Lock()
	defer r.turn.Unlock()
	r.fault = f
}

// request is a request to the model.
// Channel is the role of a request with a channel's tools.
const Channel = config.Channel

type request struct {
	model.Request
	ctx context.Context
	// of is the role: channel, branch, worker, or end without tools.
	of string
}

func (q *request) last() string { return q.Messages[len(q.Messages)-1].Content }

// has reports whether a message contains a text.
func (q *request) has(text string) bool {
	return slices.ContainsFunc(q.Messages, func(m sessionlog.Message) bool { return strings.Contains(m.Content, text) })
}

// answer is a response of the model.
type answer struct {
	text  string
	calls []string // TOOL ARGUMENTS
	err   error
	after time.Duration
}

func say(text string) answer                 { return answer{text: text} }
func call(name, args string) answer          { return answer{calls: []string{name + " " + args}} }
func later(d time.Duration, a answer) answer { a.after = d; return a }

func (r *rig) Send(context.Context, model.Request) (*model.Response, error) {
	return nil, errors.New("no summaries here")
}

func (r *rig) Stream(ctx context.Context, m model.Request) iter.Seq2[model.Chunk, error] {
	q := &request{Request: m, ctx: ctx, of: "end"}
	for _, t := range m.Tools {
		switch t.Name {
		case Outcome:
			q.of = record.Worker
		case Reply:
			q.of = Channel
		case SpawnWorker:
			if q.of == "end" {
				q.of = record.Branch
			}
		}
	}
	return func(yield func(model.Chunk, error) bool) {
		r.turn.Lock()
		a := r.reply(q)
		r.turn.Unlock()
		if a.after > 0 {
			select {
			case <-time.After(a.after):
			case <-ctx.Done():
				yield(model.Chunk{}, ctx.Err())
				return
			}
		}
		r.note("%s: %s%s", q.of, a.text, strings.Join(a.calls, "; "))
		c := model.Chunk{Content: a.text, Finish: "stop", Usage: &model.Usage{Prompt: 3, Completion: 1}}
		for n, call := range a.calls {
			name, args, _ := strings.Cut(call, " ")
			c.Calls = append(c.Calls, model.CallDelta{Index: n, ID: fmt.Sprint(n), Name: name, Arguments: args})
			c.Finish = "tool_calls"
		}
		yield(c, a.err)
	}
}

func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// took returns the notes since the last call.
func (r *rig) took() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := strings.Join(r.notes, "\n")
	r.notes = nil
	return text
}

// Write writes a log line.
func (r *rig) Write(line []byte) (int, error) {
	r.note("log %s", strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

func (r *rig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// bubble calls f with a rig in a synctest bubble.
func bubble(t *testing.T, f func(r *rig)) {
	t.Helper()
	bubbleOn(t, "", f)
}

// bubbleOn calls f with a rig in a synctest bubble, whose files are in a folder on disk.
func bubbleOn(t *testing.T, disk string, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, disk: disk, fs: faultfs.NewMem(), config: &config.Config{}, bin: t.TempDir()}
		c := r.config
		c.Roles = config.Roles{Branches: 5, Workers: 5, Waiting: 20, Running: 32, Wakes: 3, WakeSteps: 3, WakeDelay: 500 * time.Millisecond, WakeMaxDelay: 5 * time.Second,
			Stall: 450 * time.Second, Grace: 2 * time.Minute, BranchTimeout: 2 * time.Minute, ChannelTimeout: 5 * time.Minute, WaitingTimeout: 24 * time.Hour, Keep: 30 * 24 * time.Hour}
		c.Roles.Steps.Channel, c.Roles.Steps.Branch, c.Roles.Steps.Worker = 5, 10, 50
		c.Limits.Sessions, c.Bash.Approve, c.Bash.Timeout, c.Bash.MaxTimeout = 100, "off", 2*time.Minute, 30*time.Minute
		c.Sessions.Titles = "off"
		c.Agents = []config.Agent{{Name: "coder"}, {Name: "crab", Role: Channel, Members: []string{"coder"}}, {Name: "plain"}, {Name: "worker"}}
		c.Origins = trust.Rules{{Prefix: "tg:", Level: trust.Trusted, Allow: []string{tool.Delegate + ":worker"}}, {Prefix: "tg:9", Level: trust.Untrusted}}
		for _, dir := range []string{rigHome, "/work"} {
			r.check(vfs.MkdirAll(r.fs, dir, 0o700))
		}
		r.open(r.fs)
		f(r)
		r.close()
	})
}

// open opens the files of a machine, as a daemon does at its start.
func (r *rig) open(mem *faultfs.Mem) {
	r.t.Helper()
	var err error
	fs, home, dir := vfs.FS(mem), rigHome, "/work"
	if r.disk != "" {
		fs, home, dir = vfs.OS{}, r.disk, r.disk
	}
	r.fs, r.fault = mem, nil
	mem.Hook = func(c faultfs.Call) error {
		r.turn.Lock()
		defer r.turn.Unlock()
		if r.fault == nil {
			return nil
		}
		return r.fault(c)
	}
	r.store, err = crmem.Open(home+"/memory.db", &crmem.Options{FS: fs})
	r.check(err)
	r.logs, err = sessionlog.OpenDir(home+"/sessions", &sessionlog.Options{FS: fs})
	r.check(err)
	log := slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	var setup session.Setup
	current := func() session.Setup {
		r.order()
		return setup
	}
	r.sessions = session.New(session.Options{
		FS: fs, Home: home, Dir: dir, Log: log, Now: time.Now, Logs: r.logs,
		Space: func(_ string, f func(*crmem.Store) error) error { return f(r.store) }, Own: func(string, string) string { return space.Main },
		Setup: current, Forget: func(uint64) {}, Ran: func(time.Duration) {},
		Rules: approval.Rules{Home: rigHome, Profile: func() bool { return true }, Path: []string{r.bin}},
		Allow: func(prefixes []string) error {
			r.turn.Lock()
			defer r.turn.Unlock()
			r.config.Bash.Allow = append(r.config.Bash.Allow, prefixes...)
			return nil
		},
		Kind:  func(err error) string { return errtable.Find(err).Kind },
		InUse: func(id string) error { return r.InUse(id) },
		AskUser: func(ctx context.Context, t *agent.Turn, q []agent.Question) (string, bool, error) {
			return r.AskUser(ctx, t, q)
		},
		Role: func(a *agent.Agent, s *agent.Session, sender string) time.Duration {
			return r.For(a, s, sender)
		},
	})
	r.Roles = New(Options{
		Work:     &work.Home{FS: fs, Path: home, Sessions: r.logs, Now: time.Now, Warn: func(line string) { r.note("work %s", line) }},
		Sessions: r.sessions, Setup: current, Log: log, Now: time.Now, Leaves: func(string) error { return nil },
		Skill: func(_ tool.Call, name string) (*skill.Skill, error) {
			if s := r.skills[name]; s != nil {
				return s, nil
			}
			return nil, skill.ErrNotFound
		},
		Docs: func() []Page {
			return []Page{{"recall", "search the store\n\nSearch names and texts.\n"}, {"remember", "write a note\n" + strings.Repeat("line\n", 500)}}
		},
		Config: func(section string) (string, error) { return section + ".keep = 1 (default)", nil },
		Record: func(text string) string { return strings.ReplaceAll(text, "hunter22", "[secret]") },
		Owe:    func(string, string, string) error { return nil },
		Settle: func(string, string) error { return nil },
		Publish: func(_, _, _ string, e agent.Event) {
			r.note("%s %s %s", e.Kind, e.ID, e.Note)
			if r.published != nil {
				r.published(e)
			}
		},
	})
	models, err := model.NewRegistry(model.Network{}, nil, "")
	r.check(err)
	for _, name := range []string{"script", "small", "big", "code"} {
		r.check(models.AddBackend(name, 100_000, r))
	}
	r.check(models.Switch("script"))
	run := agent.NewRunner(models, r.Hooks())
	run.KeepResult = r.sessions.KeepResult
	run.Tools.Add(r.sessions.Tools()...)
	run.Tools.Add(
		tool.New(tool.Bash, "", func(ctx context.Context, c tool.Call, args struct{ Command string }) (string, error) {
			if r.commands {
				if _, err := r.sessions.Approve(ctx, c, args.Command, nil); err != nil {
					return "", err
				}
				r.made.Add(1)
				select {
				case <-time.After(r.takes):
				case <-ctx.Done():
				}
				return "made", ctx.Err()
			}
			if d, err := time.ParseDuration(strings.TrimPrefix(args.Command, "deaf ")); err == nil && strings.HasPrefix(args.Command, "deaf ") {
				time.Sleep(d)
			} else if err == nil {
				select {
				case <-time.After(d):
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}
			return "ran " + args.Command, nil
		}),
		tool.New(tool.Recall, "", func(context.Context, tool.Call, struct{}) (string, error) { return fmt.Sprint("known ", r.known), nil }),
	)
	setup = session.Setup{Config: r.config, Runner: run, Agents: make(map[string]*agent.Agent)}
	for _, a := range r.config.Agents {
		setup.Agents[a.Name] = &agent.Agent{Name: a.Name, MaxIterations: 16, Scope: tool.For(tool.Grant{Members: a.Members, Tools: a.Tools, Default: a.Name == "crab"})}
	}
}

// close ends all runs and closes the files.
func (r *rig) close() {
	r.Roles.Stop()
	r.sessions.Stop(r.t.Context(), errors.New("the end"))
	synctest.Wait()
	r.logs.Close()
	r.store.Close()
}

// restart opens the files again, as they are.
func (r *rig) restart() {
	r.t.Helper()
	r.close()
	r.open(r.fs)
	r.order()
	r.check(r.Start())
	synctest.Wait()
}

// crash kills the daemon, and starts it again.
func (r *rig) crash() {
	r.t.Helper()
	killed := r.fs.Kill()
	r.close()
	r.open(killed)
	r.order()
	r.check(r.Start())
	synctest.Wait()
}

// send sends a message of an identity, and returns the answer.
func (r *rig) send(sender, text string) string {
	r.t.Helper()
	l, err := r.sessions.Resolve(r.t.Context(), &session.Request{Agent: "crab", Sender: sender, Content: text})
	r.check(err)
	run := session.Run{Session: l, Content: text, Sender: sender, Each: func(e agent.Event) error {
		if e.Kind == agent.Reply {
			r.note("reply %s", e.Content)
		}
		return nil
	}}
	r.order()
	err = r.sessions.Run(r.t.Context(), &run)
	synctest.Wait() // what the test does next is concurrent with no run
	r.order()
	if err != nil {
		return "error: " + err.Error()
	}
	return run.Answer
}

// lines returns the messages and work records of a session, a line each.
func (r *rig) lines(id string) string {
	r.t.Helper()
	s, err := r.logs.Read(id)
	r.check(err)
	defer s.Close()
	var b strings.Builder
	for l, err := range s.Lines(0) {
		r.check(err)
		switch w, ok := record.ParseWork(l.Raw); {
		case l.Kind == record.KindMessage:
			fmt.Fprintf(&b, "%s: %s", l.Message.Role, l.Message.Content)
			for _, c := range l.Message.ToolCalls {
				fmt.Fprintf(&b, "+%s", c.Function.Name)
			}
			if keys := record.WorkKeys(l.Raw); keys != nil {
				fmt.Fprint(&b, " ", keys)
			}
			b.WriteString("\n")
		case ok:
			fmt.Fprintf(&b, "%s %s%s%s %s\n", w.Op, w.ID, w.State, w.Reason, w.Text)
		}
	}
	return b.String()
}
