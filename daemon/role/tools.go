package role

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crabmem/bm25/clip"
	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
	"crabmem/daemon/work"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// tools returns the tools of all roles.
func (r *Roles) tools() []tool.Tool {
	list := []tool.Tool{
		tool.New(Branch, "Think about a question in a copy of this conversation, with memory. Its conclusion comes to this conversation later. Do not wait for it.", r.branch),
		tool.New(SpawnWorker, "Give a task to a worker, which has files and commands. Its result comes to this conversation later. Do not wait for it.", r.spawnWorker),
		tool.New(Route, "Send a message to work that runs or waits for input.", r.route),
		tool.New(Cancel, "Cancel work.", r.cancel),
		tool.New(Reply, "Tell the user something now, before this run ends.", r.reply),
		tool.New(Skip, "End this run without an answer: the message was not for you. Only if several people speak in this conversation.", r.skip),
		tool.New(SetStatus, "Say in a few words what you do.", r.setStatus),
		tool.New(Outcome, "Report the result of your task, and end.", r.report),
		tool.New(ChannelRecall, "Read earlier lines: of this conversation, of another conversation of yours, or the lines that an archive summarizes.", r.channelRecall).Reader(),
		tool.New(Docs, "List and read the manual of crabmem, the program that runs you.", r.docs).Reader(),
		tool.New(ConfigInspect, "List the settings of crabmem, without secrets: a line each, with the place that sets it.", r.inspect).Reader(),
	}
	for i := range list {
		list[i].Role = true
	}
	return list
}

// origin is where a tool of a role was called: the session that gives out the work, and
// who is at its root.
type origin struct {
	parent string
	grant
}

// originOf returns a call's origin.
func (r *Roles) originOf(ctx context.Context, c tool.Call) (origin, *agent.Turn, error) {
	t := agent.TurnOf(ctx)
	if t == nil || t.Session.Log == nil {
		return origin{}, nil, errors.New("this tool is only available in a session")
	}
	o := origin{t.Session.Log.ID(), grant{Sender: t.Sender, Dir: c.Dir, Scope: c.Scope}}
	if w := r.active(t); w != nil {
		o.parent, o.Sender = w.p.ID(), w.grant.Sender
	}
	return o, t, nil
}

func (r *Roles) branch(ctx context.Context, c tool.Call, args branchArgs) (string, error) {
	o, t, err := r.originOf(ctx, c)
	if err != nil {
		return "", err
	}
	if err := sized("question", args.Question, maxQuestion); err != nil {
		return "", err
	}
	most := r.o.Setup().Config.Roles.Branches
	if levelOf(r.o.Setup().Config.Origins, t.Session.CreatedBy, t.Sender) == trust.Untrusted {
		most = min(most, 1)
	}
	o.Model = t.Agent.Model
	i, err := r.spawn(o, work.Spawn{Kind: record.Branch, Agent: c.Agent, Task: args.Question}, most, t, true)
	if err != nil {
		return "", err
	}
	return i.ID + " thinks; its conclusion comes", nil
}

func (r *Roles) spawnWorker(ctx context.Context, c tool.Call, args workerArgs) (string, error) {
	o, t, err := r.originOf(ctx, c)
	if err != nil {
		return "", err
	}
	if err := sized("task", args.Task, record.MaxTask); err != nil {
		return "", err
	}
	if args.Agent == "" {
		args.Agent = config.Worker
	}
	if o.TaskType, err = r.taskType(args.TaskType); err != nil {
		return "", err
	}
	task, tools, err := r.taskWith(args.Task, args.Skills, c)
	if err != nil {
		return "", err
	}
	setup := r.setupOf(c.Workspace)
	caller := setup.Agents[c.Agent]
	if caller == nil {
		return "", fmt.Errorf("agent '%s' not registered", c.Agent)
	}
	root := setup.Config.Origins.Scope(t.Session.CreatedBy, o.Sender)
	if r.active(t) == nil {
		root = root.Intersect(t.Session.Scope) // a cron entry's maker limits its work
	}
	_, other := r.external(args.Agent)
	if args.Agent != config.Worker && caller.Scope.Member(args.Agent) != nil || root.Member(args.Agent) != nil {
		return "", (tool.Scope{}).Member(args.Agent)
	}
	// The agent acts with its own permissions, not with those of the caller.
	o.Scope = root.Intersect(t.Session.Scope).Intersect(t.Bound())
	o.Scope.Confined = o.Scope.Confined || c.Scope.Confined
	o.Scope = o.Scope.Narrow(tools)
	of, _ := setup.Config.Agent(args.Agent)
	args.Context = cmp.Or(args.Context, of.Context)
	forks := args.Context == "fork"
	switch a := setup.Agents[args.Agent]; {
	case !forks && args.Context != "" && args.Context != "none":
		return "", fmt.Errorf("no such context: %s: want none or fork", display.Short(display.OneLine(args.Context), 20))
	case other && (o.Scope.Confined || args.Interactive || forks):
		return "", fmt.Errorf("%s is another program: it does no work for confined agents and remote senders, and takes no messages and no conversation", args.Agent)
	case other:
		if err := r.o.Leaves(task); err != nil {
			return "", err
		}
	case a == nil:
		return "", fmt.Errorf("agent '%s' not registered", args.Agent)
	default:
		o.Scope = o.Scope.Intersect(a.Scope)
	}
	if o.Dir, err = within(c, args.Dir); err != nil {
		return "", err
	}
	i, err := r.spawn(o, work.Spawn{Kind: record.Worker, Agent: args.Agent, Task: task, Interactive: args.Interactive}, setup.Config.Roles.Workers, t, forks)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s (%s) begins; its result goes to the conversation", i.ID, args.Agent), nil
}

// taskType returns the type of a task if the configuration has models by type, or else "".
// The error lists the types.
func (r *Roles) taskType(name string) (string, error) {
	models := r.o.Setup().Config.Roles.TaskModels
	if name == "" || len(models) == 0 {
		return "", nil
	}
	if _, ok := models[name]; !ok {
		types := strings.Join(slices.Sorted(maps.Keys(models)), ", ")
		return "", fmt.Errorf("no such task_type: %s: want %s, or omit it", display.Short(display.OneLine(name), 20), clip.Marked(types, maxStatus))
	}
	return name, nil
}

// taskWith returns a task with the texts of the caller's skills, and the tools that all these
// skills permit.
func (r *Roles) taskWith(task string, skills []string, c tool.Call) (string, tool.List, error) {
	tools := tool.Everything()
	for _, name := range skills {
		s, err := r.o.Skill(c, name)
		if err != nil {
			return "", tools, err
		}
		task, tools = task+"\n\n"+s.Block(), tools.Intersect(s.Tools())
		if err := sized("task with its skills", task, record.MaxTask); err != nil {
			return "", tools, err
		}
	}
	return task, tools, nil
}

// Errors of requests for work.
var (
	ErrNoWork = errors.New("no such work")
	ErrState  = errors.New("work is not in the state for this")
)

// A stateErr is an ErrState that names the state.
type stateErr string

func (e stateErr) Error() string        { return string(e) }
func (e stateErr) Is(target error) bool { return target == ErrState }

func stateError(i *work.Item) error {
	s, _ := i.Status()
	return stateErr(i.ID + " is " + s.State)
}

// item returns work by its ID.
func (r *Roles) item(p *parent, id string) (*work.Item, error) {
	i, err := p.Item(id)
	if errors.Is(err, sessionlog.ErrNotFound) {
		return nil, fmt.Errorf("%w: %s", ErrNoWork, clip.Bytes(id, maxStatus))
	}
	return i, err
}

// on calls f with a session's work.
func (r *Roles) on(session, id string, f func(*parent, *work.Item) error) error {
	p, err := r.use(session)
	if err != nil {
		return err
	}
	defer r.done(p)
	i, err := r.item(p, id)
	if err != nil {
		return err
	}
	return f(p, i)
}

func (r *Roles) route(ctx context.Context, c tool.Call, args routeArgs) (string, error) {
	o, t, err := r.originOf(ctx, c)
	if err == nil {
		err = r.mayChange(o, t, args.ID)
	}
	if err != nil {
		return "", err
	}
	return r.RouteTo(o.parent, args.ID, args.Message)
}

// RouteTo sends a message to a session's work, and starts the work again if it waits.
func (r *Roles) RouteTo(session, id, message string) (string, error) {
	if err := sized("message", message, record.MaxRoute); err != nil {
		return "", err
	}
	err := r.on(session, id, func(p *parent, i *work.Item) error {
		if _, other := r.external(i.Agent); other {
			return stateErr(id + " is work of another program, which takes no messages")
		}
		r.spawning.Lock()
		defer r.spawning.Unlock()
		before, _ := i.Status()
		runs := before.State == record.Running
		if !runs && i.Kind == record.Branch {
			return stateError(i)
		}
		if !runs {
			if err := r.room(p, "", 1); err != nil {
				return err
			}
		}
		if err := i.Route(message); errors.Is(err, work.ErrTransition) {
			return stateError(i)
		} else if err != nil || runs {
			return err
		}
		return r.begin(p, i, nil)
	})
	if err != nil {
		return "", err
	}
	return id + " has it", nil
}

func (r *Roles) cancel(ctx context.Context, c tool.Call, args cancelArgs) (string, error) {
	o, t, err := r.originOf(ctx, c)
	if err == nil {
		err = r.mayChange(o, t, args.ID)
	}
	if err != nil {
		return "", err
	}
	return r.CancelWork(o.parent, args.ID, args.Reason)
}

// CancelWork cancels a session's work. The session's agent is not woken for it.
func (r *Roles) CancelWork(session, id, reason string) (did string, err error) {
	err = r.on(session, id, func(_ *parent, i *work.Item) error {
		r.mu.Lock()
		w := r.items[i.Session]
		r.mu.Unlock()
		if w != nil {
			r.o.Log.Info("cancel work", "session", session, "work", id, "reason", clip.Bytes(display.OneLine(reason), maxStatus))
			if did = id + " is cancelled"; w.cancel() {
				did = id + " finishes already"
			}
			return nil
		}
		did = id + " is closed"
		if err := i.End(closed, ""); errors.Is(err, work.ErrTransition) {
			return stateError(i)
		} else if err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return did, nil
}

func (r *Roles) reply(ctx context.Context, _ tool.Call, args replyArgs) (string, error) {
	if err := sized("content", args.Content, maxReply); err != nil {
		return "", err
	}
	args.Content = r.o.Record(args.Content)
	if t := agent.TurnOf(ctx); t != nil {
		t.Replied(args.Content)
	}
	agent.Emit(ctx, agent.Event{Kind: agent.Reply, Content: args.Content})
	return "said", nil
}

func (r *Roles) skip(ctx context.Context, c tool.Call, args skipArgs) (string, error) {
	o, t, err := r.originOf(ctx, c)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	woken := r.wakes[o.parent]
	r.mu.Unlock()
	other := func(sender string) bool {
		return sender != "" && !trust.IsCron(sender) && sender != t.Session.CreatedBy
	}
	switch {
	case woken:
		return "", errors.New("results need an answer: tell the user what matters of them")
	case !other(t.Sender) && !slices.ContainsFunc(t.Session.Messages, func(m sessionlog.Message) bool { return other(m.Sender) }):
		return "", errors.New("only one person speaks in this conversation: answer")
	}
	r.o.Log.Info("skip an answer", "session", o.parent, "reason", clip.Bytes(display.OneLine(args.Reason), maxStatus))
	t.Skip()
	return "no answer will be sent", nil
}

func (r *Roles) setStatus(ctx context.Context, _ tool.Call, args statusArgs) (string, error) {
	w := r.active(agent.TurnOf(ctx))
	if w == nil {
		return "", errors.New("set_status is only available in work")
	}
	if strings.TrimSpace(args.Status) == "" {
		return "", errors.New("empty")
	}
	text := clip.Bytes(display.OneLine(r.o.Record(args.Status)), maxStatus)
	w.mu.Lock()
	w.status = text
	w.mu.Unlock()
	w.p.publish(agent.WorkStatus, w.ID, text, w.ID+" "+text)
	return "noted", nil
}

func (r *Roles) report(ctx context.Context, _ tool.Call, args outcomeArgs) (string, error) {
	w := r.active(agent.TurnOf(ctx))
	if w == nil {
		return "", errors.New("outcome is only available in work")
	}
	if err := sized("text", args.Text, record.MaxResult); err != nil {
		return "", err
	}
	args.Text = r.o.Record(args.Text)
	w.mu.Lock()
	w.outcome = &args
	w.mu.Unlock()
	return "noted; end now", nil
}

// textGrace is how long canceled work with an outcome may write its last text.
const textGrace = time.Minute

// cancel cancels the run. It returns true if the work has given its outcome, which then
// counts.
func (w *running) cancel() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet = true
	if w.outcome != nil {
		w.last = w.r.o.Now().Add(textGrace)
		return true
	}
	w.stop(errCancelled)
	return false
}
