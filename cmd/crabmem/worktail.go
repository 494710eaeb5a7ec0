package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/agent"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
	"crabmem/sessionlog/record"

	"github.com/spf13/cobra"
)

func workTail(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail [ID]",
		Short: "follow work",
		Long: `Print the state of work, and then its calls, status, and outcome as they occur.
ID is WORK, or a session for all of its work. Without ID, follow all work. With
WORK, tail ends with the work, and the exit code is 1 if it failed; otherwise it
runs until Ctrl+C. --json prints one object per line: work, as crabmem work show
does, or an event, as crabmem events does.`,
		Example: `  crabmem work tail crab_user_1/w2
  crabmem work tail crab_user_1/w2 --json`,
		Args:              atMost(1, "ID"),
		ValidArgsFunction: completeWork(c),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		t := workTailer{eventPrinter: eventPrinter{c: c}, children: map[string]string{}}
		if t.Session = strings.Join(args, ""); strings.Contains(t.Session, "/") {
			if t.WorkID, err = workID(t.Session); err != nil {
				return err
			}
		}
		return c.withDaemon(cmd.Context(), func(d *client.Client) error { return t.follow(cmd.Context(), d) })
	}
	return c.outputs(cmd, of[role.View](), of[eventLine]())
}

// workTailer prints a session's work, or all sessions' work if Session is empty.
type workTailer struct {
	eventPrinter
	op.WorkID
	children map[string]string // by the session that does the work
	progress *cli.Progress
}

func (t *workTailer) follow(ctx context.Context, d *client.Client) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	events, lost := make(chan *agent.Event), error(nil)
	go func() { // ends with ctx
		defer close(events)
		for e, err := range op.FollowEvents.All(ctx, d, op.EventFilter{}) {
			if lost = err; err != nil {
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	if t.Work == "" && t.Session != "" { // it exists
		if _, err := op.ListWork.Do(ctx, d, op.WorkQuery{Session: t.Session}); err != nil {
			return err
		}
	}
	t.progress = t.c.Progress("following work")
	defer t.progress.End()
	tick := time.NewTicker(time.Second) // an event may be lost
	defer tick.Stop()
	ended, err := t.look(ctx, d)
	for !ended && err == nil {
		select {
		case e, ok := <-events:
			if !ok {
				return cmp.Or(context.Cause(ctx), gone(lost))
			}
			ended, err = t.show(ctx, d, e)
		case <-tick.C:
			ended, err = t.look(ctx, d)
		}
	}
	return err
}

func (t *workTailer) follows(session, work string) bool {
	return (t.Session == "" || t.Session == session) && (t.Work == "" || t.Work == work)
}

// look prints work that was not printed before, and how the only work ended.
func (t *workTailer) look(ctx context.Context, d *client.Client) (ended bool, err error) {
	list := make([]role.View, 1)
	if t.Work != "" {
		list[0], err = op.ShowWork.Do(ctx, d, t.WorkID)
	} else {
		list, err = op.ListWork.Do(ctx, d, op.WorkQuery{})
	}
	for i := range list {
		v := &list[i]
		if err != nil || !t.follows(v.Session, v.ID) {
			continue
		}
		if t.children[v.Child] == "" || t.Work != "" && hasEnded(v) {
			ended, err = t.state(v)
		}
		t.progress.Says(cli.Fit(workLine(v, time.Now()), t.c.Width()))
	}
	return ended, err
}

func hasEnded(v *role.View) bool { return v.State == record.Done || v.State == record.Failed }

// state prints the state of work, and its outcome. It returns true if the only work has
// ended, and an error if it has failed.
func (t *workTailer) state(v *role.View) (ended bool, err error) {
	t.progress.Clear()
	t.children[v.Child] = v.Session + "/" + v.ID
	err = t.c.printWorkLine(v)
	if !t.c.JSON && v.Outcome != "" {
		t.c.Out.WriteString(display.Printable(v.Outcome) + "\n")
	}
	if err = cmp.Or(err, t.c.Out.Flush()); err == nil && t.Work != "" && v.State == record.Failed {
		err = cli.SilentError(cli.ExitFailure)
	}
	return t.Work != "" && hasEnded(v), err
}

// show prints an event of the work: its own in the session, or one of the session that
// does it.
func (t *workTailer) show(ctx context.Context, d *client.Client, e *agent.Event) (ended bool, err error) {
	follows := t.follows(e.Session, e.ID)
	switch e.Kind {
	case agent.WorkStarted, agent.WorkWaiting, agent.WorkEnded:
		if !follows {
			return false, nil
		}
		v, err := op.ShowWork.Do(ctx, d, op.WorkID{Session: e.Session, Work: e.ID})
		t.children[v.Child] = v.Session + "/" + v.ID
		if err != nil || hasEnded(&v) && e.Kind == agent.WorkStarted { // its end event follows
			return false, err
		}
		return t.state(&v)
	case agent.ToolStart, agent.ToolResult, agent.Refused:
		work := t.children[e.Session]
		if follows = work != ""; !t.c.JSON {
			e.Session = work
		}
	case agent.WorkStatus:
	default:
		follows = e.Kind == agent.Lag
	}
	if !follows {
		return false, nil
	}
	t.progress.Clear()
	return false, t.print(e)
}
