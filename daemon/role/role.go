// Package role runs agents in roles: a channel talks with its user and gives work to
// branches and workers, which run in sessions of their own. The package starts and ends
// runs, and hands their outcomes to the channel; package work keeps what is on the disk.
package role

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/session"
	"crabmem/daemon/skill"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
	"crabmem/daemon/work"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// Names of role tools.
const (
	Branch      = "branch"
	SpawnWorker = "spawn_worker"
	Route       = "route"
	Cancel      = "cancel"
	Reply       = "reply"
	Skip        = "skip"
	Cron        = "cron"
	SetStatus   = "set_status"
	Outcome     = "outcome"

	ChannelRecall = "channel_recall"
	Docs          = "docs"
	TaskCreate    = "task_create"
	TaskList      = "task_list"
	TaskUpdate    = "task_update"
	ConfigInspect = "config_inspect"
)

var (
	allChannelTools = []string{Branch, SpawnWorker, Route, Cancel, Reply, Skip, Cron, tool.AskUser, tool.Send}
	branchTools     = append(branchOnly, SpawnWorker, tool.Recall, tool.Remember, tool.Forget, tool.SessionSearch, tool.Send, TaskUpdate)
	cortexTools     = append(branchOnly, SpawnWorker, Route, Cancel, tool.AskUser, tool.Recall, tool.Remember, tool.Forget, tool.SessionSearch, TaskUpdate, ConfigInspect)
	branchOnly      = []string{ChannelRecall, Docs, TaskCreate, TaskList} // a branch has them, and a worker has not
)

// The prompts are messages before the task or the question of a run.
var (
	//go:embed prompts/branch.md
	branchPrompt string
	//go:embed prompts/worker.md
	workerPrompt string
	//go:embed prompts/wake.md
	wakePrompt string
)

// Options configure Roles. All fields are required.
type Options struct {
	Work     *work.Home
	Sessions *session.Manager
	Setup    func() session.Setup
	SetupOf  func(workspace string) (session.Setup, error) // as in package session
	Log      *slog.Logger
	Now      func() time.Time
	Version  string // of crabmem
	// Docs returns the pages of the manual, in order.
	Docs func() []Page
	// Config returns the configuration, or a section of it, without secrets.
	Config func(section string) (string, error)
	// Skill returns a skill that the scope of a call allows.
	Skill func(c tool.Call, name string) (*skill.Skill, error)
	// Leaves returns an error for a task with a secret, which no other program receives.
	Leaves func(text string) error
	// Record returns a text of a model or a program without secrets.
	Record func(text string) string
	// Owe is called before a wake, with a key of the message that it answers: the creator of
	// the session is to receive the texts. Settle is called after it.
	Owe    func(session, creator, key string) error
	Settle func(session, creator string) error
	// Publish sends an event of a session to its subscribers.
	Publish func(session, agent, createdBy string, e agent.Event)
}

// Roles runs the work of a daemon. It is safe for concurrent use.
type Roles struct {
	o    Options
	ctx  context.Context // of all work; ends with Stop
	stop context.CancelCauseFunc
	runs sync.WaitGroup // goroutines; added to under mu while ctx is alive

	opening sync.Mutex // locked before mu; guards parents, and their files while they are opened or closed
	parents map[string]*parent

	spawning sync.Mutex // held while work starts

	mu       sync.Mutex
	stopped  bool
	answered chan struct{}       // closed and replaced by an answer to a question
	items    map[string]*running // active work, by the stored ID of its session
	wakes    map[string]bool     // sessions with an active wake
}

// New returns Roles without work.
func New(o Options) *Roles {
	r := &Roles{o: o, parents: make(map[string]*parent), items: make(map[string]*running), wakes: make(map[string]bool), answered: make(chan struct{})}
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	return r
}

// errStopped ends work when the daemon stops. Its file states that it is running, and the
// next start resumes it.
var errStopped = errors.New("the daemon stopped")

// Stop ends all work and waits until its runs have ended. The files remain as they are.
func (r *Roles) Stop() {
	r.mu.Lock()
	r.stopped = true
	r.stop(errStopped)
	r.mu.Unlock()
	r.runs.Wait()
	r.opening.Lock()
	defer r.opening.Unlock()
	for id, p := range r.parents {
		p.quit()
		if err := p.Close(); err != nil {
			r.o.Log.Warn("close work", "session", id, "error", err)
		}
		delete(r.parents, id)
	}
}

// goes runs f in a goroutine that Stop waits for. It returns false after Stop.
func (r *Roles) goes(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return false
	}
	r.runs.Go(f)
	return true
}

// Start recovers the work that an earlier daemon left, and runs it on. It is called before
// the daemon listens.
func (r *Roles) Start() error {
	parents, did, err := r.o.Work.Recover()
	r.opening.Lock()
	for _, p := range parents {
		r.parents[p.ID()] = newParent(r, p)
	}
	r.opening.Unlock()
	for _, d := range did {
		r.o.Log.Info("recovered work", "session", d.Parent, "work", d.ID, "action", string(d.Action))
	}
	for _, p := range parents {
		r.resume(p.ID())
	}
	r.goes(r.sweepDaily)
	return err
}

// setupOf returns the configuration of the sessions in a workspace. Without one that has an
// effect, it is the home's, and package session starts no run.
func (r *Roles) setupOf(workspace string) session.Setup {
	if workspace != "" && r.o.SetupOf != nil {
		if s, err := r.o.SetupOf(workspace); err == nil {
			return s
		}
	}
	return r.o.Setup()
}

// For applies an agent's role to the agent, for a run in a session with a sender. It selects the
// model of the role, and returns the run's time limit, or 0.
func (r *Roles) For(a *agent.Agent, s *agent.Session, sender string) (limit time.Duration) {
	c, creator := r.setupOf(s.Workspace).Config, s.CreatedBy
	of, _ := c.Agent(a.Name)
	if of.Role == "" || trust.Delegated(creator) {
		return 0
	}
	a.Concludes, a.Repeats = true, agent.Repeats{Note: 2, Refuse: 4}
	limitSteps(a, &of, c.Roles.Steps.Channel)
	list, own := allChannelTools, c.Roles.Models.Channel
	if of.Role == config.Cortex {
		list, own = cortexTools, c.Roles.Models.Cortex
	} else if trust.IsCron(sender) {
		list = append(list[:len(list):len(list)], branchTools...)
	}
	a.Model = cmp.Or(own, a.Model)
	a.Offers = listed(permitted(c.Origins, list, creator, sender, s.Scope.Members))
	return c.Roles.ChannelTimeout
}

// limitSteps limits a run's steps, unless the agent's configuration does.
func limitSteps(a *agent.Agent, of *config.Agent, n int) {
	if of.Origins["max_iterations"].Path == "" {
		a.MaxIterations = n
	}
}

// permitted returns the role tools that a creator and a sender may use. Untrusted
// identities need a rule for branches. Only who may give an agent work may change work.
func permitted(rules trust.Rules, list []string, creator, sender string, members tool.List) []string {
	level := levelOf(rules, creator, sender)
	untrusted := level == trust.Untrusted
	works := members.All() || len(members.Names()) > 0
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool {
		switch name {
		case Branch:
			return untrusted && !rules.Allows(creator, sender, Branch)
		case Cron, ChannelRecall, Docs, TaskCreate, TaskList, TaskUpdate:
			return untrusted
		case ConfigInspect:
			return level != trust.Admin
		case SpawnWorker, Route, Cancel:
			return !works
		}
		return false
	})
}

// listed returns the offer of some tools.
func listed(names []string) tool.Offers {
	return func(name string) bool { return slices.Contains(names, name) }
}

// levelOf returns the lower trust of two identities.
func levelOf(rules trust.Rules, creator, sender string) trust.Level {
	levels := []trust.Level{rules.Level(creator), rules.Level(sender)}
	for _, l := range []trust.Level{trust.Untrusted, trust.Trusted} {
		if slices.Contains(levels, l) {
			return l
		}
	}
	return trust.Admin
}

// active returns a session's work, or nil.
func (r *Roles) active(t *agent.Turn) *running {
	if t == nil || t.Session.Log == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.items[t.Session.Log.ID()]
}

// IsWorker reports whether a run is that of a worker, which has no instructions.
func (r *Roles) IsWorker(t *agent.Turn) bool {
	w := r.active(t)
	return w != nil && w.Kind == record.Worker
}

// A Giver is who is at the root of a run: the creator of the session that it is in or that gave
// out its work, the sender of the message, and the session's agent.
type Giver struct {
	Creator, Sender, Agent string
	Worker                 bool
	Tasks                  []uint64 // numbers that a worker's own task names, as in "do task 42"
}

// Giver returns who is at the root of a run.
func (r *Roles) Giver(t *agent.Turn) Giver {
	w := r.active(t)
	switch {
	case w != nil:
		return Giver{w.p.Meta().CreatedBy, w.grant.Sender, w.p.Meta().Agent, w.Kind == record.Worker, tasksIn(w.Task)}
	case t == nil:
		return Giver{}
	}
	return Giver{Creator: t.Session.CreatedBy, Sender: t.Sender, Agent: t.Agent.Name}
}

// tasksIn returns the numbers after the word task in a text.
func tasksIn(text string) (list []uint64) {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, word := range words {
		if n, err := strconv.ParseUint(word, 10, 64); err == nil && i > 0 && words[i-1] == "task" {
			list = append(list, n)
		}
	}
	return list
}

// Hooks returns the hooks of roles.
func (r *Roles) Hooks() agent.Hooks {
	return agent.Hooks{
		RegisterTools: func(s *tool.Set) { s.Add(r.tools()...) },
		BeforeRun:     r.beforeRun,
		Between:       r.between,
		Again: func(t *agent.Turn, _ string) string {
			if w := r.active(t); w != nil {
				return w.again()
			}
			return ""
		},
		Event: func(t *agent.Turn, e agent.Event) {
			if w := r.active(t); w != nil {
				w.event(e)
			}
		},
	}
}

// beforeRun returns a role's prompt, and the state of a channel's work.
func (r *Roles) beforeRun(_ context.Context, t *agent.Turn) []sessionlog.Message {
	var texts []string
	if w := r.active(t); w != nil && w.Kind == record.Branch {
		texts = append(texts, branchPrompt)
	} else if w != nil {
		texts = append(texts, workerPrompt)
	} else if t.Session.Log != nil {
		texts = append(texts, r.status(t.Session.Log))
		r.mu.Lock()
		woken := r.wakes[t.Session.Log.ID()]
		r.mu.Unlock()
		if woken {
			texts = append(texts, wakePrompt)
		}
	}
	var ms []sessionlog.Message
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			ms = append(ms, sessionlog.Message{Role: record.RoleUser, Content: text})
		}
	}
	return ms
}

// between writes the messages to work, or the outcomes for a channel, to the session.
func (r *Roles) between(_ context.Context, t *agent.Turn) ([]sessionlog.Message, error) {
	if w := r.active(t); w != nil {
		if w.ending() {
			t.Conclude()
			return nil, nil // a message would not be acted upon: it waits for the next run
		}
		m, err := w.TakeRoutes()
		if m == nil {
			return nil, err
		}
		return []sessionlog.Message{*m}, err
	}
	if t.Session.Log == nil {
		return nil, nil
	}
	p := r.open(t.Session.Log.ID())
	if p == nil {
		return nil, nil
	}
	defer r.done(p)
	return p.deliver()
}
