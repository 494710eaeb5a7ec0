package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"crabmem/crmem"
	"crabmem/daemon/agent"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
	"crabmem/daemon/space"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
)

// taskTools returns the tools for the board. They carry out the rows of tasks in the space that
// the run writes.
func (d *Daemon) taskTools() []tool.Tool {
	list := []tool.Tool{
		tool.New(role.TaskCreate, "Put a task on the board. It is the note task: TITLE, and waits in the backlog until its status is ready.", d.createTask),
		tool.New(role.TaskList, "List the tasks of the board, those in progress first. recall with names returns the text of the note task: TITLE.", d.listTasks).Reader(),
		tool.New(role.TaskUpdate, "Change a task. The status goes from pending_approval or backlog to ready, then to in_progress, then to done or back to ready; each may go to backlog. "+
			"A worker only completes subtasks of the task that its own task names.", d.updateTask),
	}
	for i := range list {
		list[i].Role = true
	}
	return list
}

// onBoard calls f with the store of a run's board, unless f only reads and the sender's space is
// still empty. needs is the memory tool that the scope must permit.
func (d *Daemon) onBoard(ctx context.Context, c tool.Call, needs string, f func(op.Store) error) error {
	t := agent.TurnOf(ctx)
	if t == nil || t.Session.Log == nil {
		return errors.New("tasks are only available in a session")
	}
	g, rules, scope := d.roles.Giver(t), d.setup().config.Origins, c.Scope
	if g.Worker { // it has no memory: it checks subtasks of the board of who gave out the work
		scope = rules.Scope(g.Creator, g.Sender)
		if a := d.setupIn(c.Workspace).agents[g.Agent]; a != nil {
			scope = scope.Intersect(a.Scope)
		}
	}
	if err := scope.Tool(needs); err != nil {
		return err
	}
	if rules.Level(g.Creator) == trust.Untrusted || rules.Level(g.Sender) == trust.Untrusted {
		return &tool.Violation{Kind: "tool", Name: c.Name}
	}
	name, err := scope.WriteSpace(d.spacesOf(c.Workspace, g.Agent)[0])
	if err != nil {
		return err
	}
	use := d.writeSpace
	if needs == tool.Recall {
		use = d.inSpace
	}
	err = use(name, func(s *crmem.Store) error { return f(op.Store{Store: s, By: d.actor(c), Guard: d.guard()}) })
	if space.IsUnwritten(name, err) && needs == tool.Recall {
		return nil
	}
	return err
}

func (d *Daemon) createTask(ctx context.Context, c tool.Call, args op.NewTask) (out string, err error) {
	err = d.onBoard(ctx, c, tool.Remember, func(s op.Store) error {
		t, err := op.CreateTask.Do(ctx, s, args)
		out = fmt.Sprintf("task %d", t.Number)
		return err
	})
	return out, err
}

func (d *Daemon) listTasks(ctx context.Context, c tool.Call, args op.TaskQuery) (string, error) {
	b := quotation{head: "0 of 0 tasks"}
	err := d.onBoard(ctx, c, tool.Recall, func(s op.Store) error {
		l, err := op.ListTasks.Do(ctx, s, args)
		for _, t := range l.Tasks {
			b.WriteString(display.OneLine(t.String()) + "\n")
		}
		b.head = fmt.Sprintf("%d of %s", len(l.Tasks), display.Plural(l.Total, "task", "tasks"))
		return err
	})
	if err != nil || b.Len() == 0 {
		return b.head, err
	}
	return b.end(), nil
}

func (d *Daemon) updateTask(ctx context.Context, c tool.Call, args op.TaskChange) (out string, err error) {
	if g := d.roles.Giver(agent.TurnOf(ctx)); g.Worker {
		switch {
		case !slices.Contains(g.Tasks, args.Number):
			return "", fmt.Errorf("task %d is not yours: your own task does not name it", args.Number)
		case args.Complete == 0 || args.Title+args.Status+args.Priority != "" || args.Description != nil || args.Subtasks != nil:
			return "", errors.New("a worker only completes subtasks: pass number and complete")
		}
	}
	err = d.onBoard(ctx, c, tool.Remember, func(s op.Store) error {
		t, err := op.UpdateTask.Do(ctx, s, args)
		line := t.Line()
		out = display.OneLine(line.String())
		return err
	})
	return out, err
}
