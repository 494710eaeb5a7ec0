package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"crabmem/daemon/display"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
	"crabmem/sessionlog"
)

type task struct {
	Agent   string `json:"agent" jsonschema:"the agent that does the task"`
	Message string `json:"message" jsonschema:"a self-contained description of the task: the agent receives no other context"`
}

type delegateArgs struct {
	Tasks []task `json:"tasks" jsonschema:"the tasks; they run concurrently"`
}

// outcome is the result of a task. Its keys are sorted.
type outcome struct {
	Agent  string  `json:"agent"`
	Error  *string `json:"error"`
	Result *string `json:"result"`
}

// maxTasks limits the active tasks of one run at all depths. Without it their
// number would be exponential in the depth.
const maxTasks = 64

// tasksKey is the context key of the number of active tasks, an *atomic.Int32.
type tasksKey struct{}

// senderKey is the context key of the sender of a run, a string.
type senderKey struct{}

func senderOf(ctx context.Context) string {
	sender, _ := ctx.Value(senderKey{}).(string)
	return sender
}

// delegateTool returns delegate. Each task is a run of another agent in a new
// session, which ends with the run. Its scope is the intersection of the agent's
// and the caller's, so no chain of tasks adds a permission.
func (m *Manager) delegateTool() tool.Tool {
	return tool.New(tool.Delegate, "Delegate tasks to other agents, and wait for their results.",
		func(ctx context.Context, c tool.Call, args delegateArgs) (string, error) {
			limits := m.o.Setup().Config.Delegate
			switch {
			case len(args.Tasks) == 0:
				return "", errors.New("no tasks provided")
			case len(args.Tasks) > limits.MaxTasks:
				return "", fmt.Errorf("%d tasks, at most %d at once", len(args.Tasks), limits.MaxTasks)
			case c.Depth >= limits.MaxDepth:
				return "", fmt.Errorf("delegation depth is %d, at most %d: do the work yourself", c.Depth, limits.MaxDepth)
			}
			for _, t := range args.Tasks {
				if err := c.Scope.Member(t.Agent); err != nil {
					return "", err
				}
			}
			tasks, ok := ctx.Value(tasksKey{}).(*atomic.Int32)
			if !ok {
				return "", errors.New("delegate is only available in a run")
			}
			n := int32(len(args.Tasks))
			defer tasks.Add(-n)
			if all := tasks.Add(n); all > maxTasks {
				return "", fmt.Errorf("%d tasks are active, at most %d at once: delegate fewer tasks, or do the work yourself", all-n, maxTasks)
			}
			if p := personOf(ctx, c.Session); p != nil {
				ctx = context.WithValue(ctx, personKey{}, p)
			}
			outcomes := make([]outcome, len(args.Tasks))
			slots := make(chan struct{}, max(m.o.Setup().Config.Tasks.MaxConcurrent, 1))
			var wg sync.WaitGroup
			for i, t := range args.Tasks {
				slots <- struct{}{} // a task ends with the run, so a slot becomes free
				wg.Go(func() {
					defer func() { <-slots }()
					o := outcome{Agent: t.Agent}
					text, err := m.delegate(ctx, c, t)
					if err != nil {
						text = err.Error()
						o.Error = &text
					} else {
						o.Result = &text
					}
					outcomes[i] = o
				})
			}
			wg.Wait()
			text, err := display.JSON(outcomes)
			return string(text), err
		})
}

func (m *Manager) delegate(ctx context.Context, c tool.Call, t task) (string, error) {
	s, err := m.setup(c.Workspace)
	if err != nil {
		return "", err
	}
	if _, ok := s.Agents[t.Agent]; !ok {
		return "", notRegistered(t.Agent)
	}
	if t.Message == "" {
		return "", errors.New("the task has no message")
	}
	if timeout := s.Config.Tasks.Timeout; timeout > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the task took longer than %s", timeout))
		defer cancel()
	}
	if ctx.Err() != nil { // while the task waited for others
		return "", context.Cause(ctx)
	}
	l, err := m.Create(sessionlog.Meta{Agent: t.Agent, CreatedBy: trust.Delegate(c.Agent, c.Requester, senderOf(ctx)), Workspace: c.Workspace}, t.Message, c.Dir, c.Scope)
	if err != nil {
		return "", err
	}
	defer m.Kill(l)
	r := Run{Session: l, Content: t.Message, Sender: l.createdBy, depth: c.Depth + 1}
	err = m.Run(ctx, &r)
	return r.Answer, err
}
