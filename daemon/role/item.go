package role

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"crabmem/bm25/clip"
	"crabmem/daemon/agent"
	"crabmem/daemon/display"
	"crabmem/daemon/session"
	"crabmem/daemon/tool"
	"crabmem/daemon/work"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// Reasons why a run of work is stopped.
var (
	errCancelled = errors.New("canceled")
	errStalled   = errors.New("no progress")
	errTimeout   = errors.New("the time limit is reached")
)

// grant is what the start of work records: who is at its root, and what it may do.
type grant struct {
	Sender   string     `json:"sender"`
	Dir      string     `json:"dir,omitempty"`
	Scope    tool.Scope `json:"scope"`
	TaskType string     `json:"task_type,omitempty"` // of a worker's task
	Model    string     `json:"model,omitempty"`     // of the run that thinks in a branch
}

// grantOf returns the grant that the start of work records. With an error, it permits
// nothing.
func grantOf(i *work.Item) (g grant, err error) {
	err = json.Unmarshal(i.Scope, &g)
	return g, err
}

// running is work with an active run.
type running struct {
	*work.Item
	r     *Roles
	p     *parent
	grant grant
	// invalid is why the grant cannot be read: the work ends with this error.
	invalid error
	fork    []sessionlog.Message // of the parent, before a branch's own
	begun   time.Time            // of the run
	stop    context.CancelCauseFunc
	ended   chan struct{} // closed after the run

	mu       sync.Mutex
	calls    int
	status   string // of set_status
	progress time.Time
	tool     time.Duration // the limit of the active tool calls, or 0
	stream   bool          // the model is called; its provider has limits
	outcome  *outcomeArgs  // of the tool outcome
	nudges   int           // since the last successful call
	asked    bool          // to stop
	why      error         // why it was asked to stop
	quiet    bool          // its outcome does not wake the channel
	last     time.Time     // until when a canceled run may write its text; or zero
	asking   bool          // a question is open
}

// start begins a run of work, whose slot is reserved. The caller's use of p goes to it.
func (r *Roles) start(p *parent, i *work.Item, fork []sessionlog.Message) error {
	w := &running{Item: i, r: r, p: p, fork: fork, begun: r.o.Now(), progress: r.o.Now(), ended: make(chan struct{})}
	var err error
	if w.grant, err = grantOf(i); err != nil {
		w.invalid = fmt.Errorf("recorded scope: %w", err)
	}
	ctx, stop := context.WithCancelCause(r.ctx)
	w.stop = stop
	r.mu.Lock()
	r.items[i.Session] = w
	r.mu.Unlock()
	ok := r.goes(func() {
		defer close(w.ended)
		defer r.done(p)
		defer stop(nil)
		w.supervise(ctx)
	})
	if !ok {
		r.mu.Lock()
		delete(r.items, i.Session)
		r.mu.Unlock()
		return errStopped
	}
	return nil
}

// result is how a run of work ended.
type result struct {
	status work.Status
	text   string
}

// run runs the work's agent once.
func (w *running) run(ctx context.Context) result {
	if w.invalid != nil {
		return w.resultOf(ctx, w.invalid, "")
	}
	if e, ok := w.r.external(w.Agent); ok {
		return w.runExternal(ctx, e)
	}
	l, err := w.r.o.Sessions.OpenWork(ctx, w.Session, w.grant.Dir, w.grant.Scope)
	if err != nil {
		return w.resultOf(ctx, err, "")
	}
	defer w.r.o.Sessions.Kill(l)
	run := session.Run{Session: l, Sender: w.grant.Sender, Begin: w.begin, Adapt: w.adapt, Approver: w.approver()}
	err = w.r.o.Sessions.Run(ctx, &run)
	return w.resultOf(ctx, err, run.Answer)
}

// begin adds the task, or the messages since, to the session.
func (w *running) begin(s *agent.Session) (bool, error) {
	began, err := w.Begin()
	if err != nil {
		return false, err
	}
	fork := w.fork
	if w.Kind == record.Worker && (w.From != nil || fork != nil) && s.Compactions == 0 {
		if fork, err = w.prefix(); err != nil {
			return false, err
		}
	}
	s.Messages = append(fork[:len(fork):len(fork)], s.Messages...)
	if began {
		s.Messages = append(s.Messages, sessionlog.Message{Role: record.RoleUser, Content: w.Task})
	}
	m, err := w.TakeRoutes()
	if m != nil && err == nil {
		s.Messages = append(s.Messages, *m)
	}
	w.mu.Lock()
	w.outcome, w.nudges, w.stream = nil, 0, true
	w.mu.Unlock()
	return true, err
}

// adapt applies the work's role to its agent.
func (w *running) adapt(a *agent.Agent) {
	c := w.r.setupOf(w.p.Meta().Workspace).Config
	of, _ := c.Agent(a.Name)
	a.Model = w.model(a.Model)
	if w.Kind == record.Branch {
		creator, sender := w.p.Meta().CreatedBy, w.grant.Sender
		a.Concludes, a.Offers, a.Repeats = true, listed(permitted(c.Origins, branchTools, creator, sender, c.Origins.Scope(creator, sender).Members)), agent.Repeats{Note: 3, Refuse: 5}
		a.MaxIterations = c.Roles.Steps.Branch
		return
	}
	a.Concludes, a.Repeats = false, agent.Repeats{Note: 4, Refuse: 7}
	a.Offers = func(name string) bool { return workerOffers(name) && (name != TaskUpdate || len(tasksIn(w.Task)) > 0) }
	limitSteps(a, &of, c.Roles.Steps.Worker)
}

// model returns the model of the work, whose agent has its own.
func (w *running) model(own string) string {
	c := w.r.o.Setup().Config.Roles
	if w.Kind == record.Branch {
		return cmp.Or(c.Models.Branch, w.grant.Model, own)
	}
	return cmp.Or(c.TaskModels[w.grant.TaskType], c.Models.Worker, own)
}

// workerOffers reports whether a worker has a tool that its scope permits.
func workerOffers(name string) bool {
	return name == tool.Send || !slices.Contains(allChannelTools, name) && !slices.Contains(branchOnly, name) && name != ConfigInspect
}

// event notes a run's progress.
func (w *running) event(e agent.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.r.o.Now()
	switch e.Kind {
	case agent.ToolStart:
		if e.Early {
			return
		}
		w.calls += len(e.Calls)
		w.stream, w.tool = false, w.r.toolLimit(e.Calls)
	case agent.ToolResult:
		if e.Result != nil && !e.Failed {
			w.nudges = 0
		}
	case agent.ToolsComplete:
		w.stream, w.tool = true, 0
	case agent.Usage:
		w.stream = false
	case agent.TextDelta, agent.ThinkingDelta, agent.Compacted, agent.Progress:
	default:
		return
	}
	if !w.asked {
		w.progress = now
	}
}

// toolLimit returns the limit of calls that run one after the other.
func (r *Roles) toolLimit(calls []agent.Call) (limit time.Duration) {
	c := r.o.Setup().Config
	for _, call := range calls {
		most := c.Bash.Timeout
		var args struct {
			Timeout float64 `json:"timeout_secs"`
		}
		if call.Name == tool.Bash && json.Unmarshal([]byte(call.Arguments), &args) == nil && args.Timeout > 0 {
			most = min(time.Duration(args.Timeout*float64(time.Second)), c.Bash.MaxTimeout)
		} else if call.Name == tool.Delegate {
			most = cmp.Or(c.Tasks.Timeout, never)
		}
		limit += most
	}
	return limit
}

// maxNudges limits the texts without an outcome, one after the other.
const maxNudges = 2

const nudge = "This text does not reach the conversation. Call outcome with the result of the task, or go on with the task."

// again returns the text that follows an answer without an outcome, or "".
func (w *running) again() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Kind == record.Branch || w.outcome != nil || w.asked || w.nudges == maxNudges {
		return ""
	}
	w.nudges++
	w.stream = true
	return nudge
}

// resultOf returns how a run ended that returned an error and a last text.
func (w *running) resultOf(ctx context.Context, err error, said string) result {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := work.Status{State: record.Done, Reason: work.Signaled}
	failed := func(reason string) work.Status { return work.Status{State: record.Failed, Reason: reason} }
	why := context.Cause(ctx)
	if why == nil && w.asked {
		why = w.why
	}
	switch {
	case w.outcome != nil && w.outcome.fine():
		return result{done, w.outcome.Text}
	case w.outcome != nil:
		return result{failed(work.Reported), w.outcome.Text}
	case errors.Is(why, errCancelled):
		return result{failed(work.Cancelled), said}
	case errors.Is(why, errStalled):
		return result{failed(work.Stalled), said}
	case errors.Is(why, errTimeout):
		return result{failed(work.Timeout), said}
	case errors.Is(err, agent.ErrExhausted):
		return result{failed(work.Exhausted), said}
	case err != nil:
		text := err.Error()
		if said != "" {
			text += "\n" + said
		}
		return result{failed(work.Errored), text}
	case w.Kind == record.Branch:
		return result{done, said}
	}
	return result{failed(work.NoOutcome), said}
}

// finish writes a run's outcome, and frees its slot. After the daemon stopped it
// leaves the work as it is, for the next start. The error is work.ErrPending if a message
// must be taken in first.
func (w *running) finish(ctx context.Context, res result) error {
	stopping := errors.Is(context.Cause(ctx), errStopped) && res.status.State == record.Failed
	var err error
	if !stopping {
		err = w.end(res)
	}
	if errors.Is(err, work.ErrPending) {
		w.mu.Lock()
		w.outcome = nil // neither a run that cannot begin nor a canceled one ends with it again
		w.mu.Unlock()
		if ctx.Err() == nil {
			return err
		}
		return w.finish(ctx, w.resultOf(ctx, context.Cause(ctx), ""))
	}
	w.r.mu.Lock()
	delete(w.r.items, w.Session)
	w.r.mu.Unlock()
	if err != nil {
		w.r.o.Log.Error("write the outcome of work", "session", w.Session, "work", w.ID, "error", err)
	}
	if stopping || err != nil {
		return err
	}
	status, _ := w.Status()
	kind, verb := agent.WorkEnded, "done"
	if status.State == record.Waiting {
		w.r.closeLater(w.p, w.Item)
		kind, verb = agent.WorkWaiting, "waits for input"
	} else if status.State == record.Failed {
		verb = "failed (" + status.Reason + ")"
	}
	w.p.publish(kind, w.ID, clip.Marked(res.text, maxResult), fmt.Sprintf("%s %s, %s", w.ID, verb, age(w.r.o.Now().Sub(w.begun))))
	w.mu.Lock()
	quiet := w.quiet
	w.mu.Unlock()
	if !quiet {
		w.p.ended()
	}
	return nil
}

// endRetry is the pause before an outcome that was not written is written again.
const endRetry = 10 * time.Second

// end writes a run's outcome, and tries again until it is written or the daemon stops: a
// full disk must not lose it.
func (w *running) end(res result) error {
	for {
		err := w.End(res.status, res.text)
		if err == nil || errors.Is(err, work.ErrPending) || errors.Is(err, work.ErrTransition) {
			return err
		}
		w.r.o.Log.Error("write the outcome of work", "session", w.Session, "work", w.ID, "error", err)
		select {
		case <-time.After(endRetry):
		case <-w.r.ctx.Done():
			return err
		}
	}
}

// line describes active work, for the channel's status and for people.
func (w *running) line(now time.Time) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf("%s %s, %s, %s, %s", w.ID, w.Agent, age(now.Sub(w.begun)), display.Plural(w.calls, "call", "calls"), quoted(w.Task))
	if w.status != "" {
		text += ": " + display.OneLine(w.status)
	}
	if w.asking {
		text += ", waits for an answer"
	}
	return text
}

// quoted returns the beginning of a model's text, as one escaped line.
func quoted(text string) string { return fmt.Sprintf("%q", display.Short(display.OneLine(text), 60)) }
