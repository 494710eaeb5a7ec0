package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/role"

	"github.com/spf13/cobra"
)

func workCommand(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "work",
		GroupID: groupAgents,
		Short:   "show and steer the work of channels",
		Long: `An agent with role = "channel" gives work to branches and workers, each in a
session of its own. WORK is the ID of the channel's session, /, and the ID of
the work, as crabmem work list prints it.`,
		Example: `  crabmem work list`,
	}
	return c.outputs(family(cmd, workList(c), workShow(c), workTail(c), workRoute(c), workAnswer(c), workCancel(c)), of[role.View]())
}

// workLine describes work for people.
func workLine(v *role.View, now time.Time) string {
	state := v.State
	if v.State == "failed" {
		state += " (" + v.Reason + ")"
	}
	if from, err := time.Parse(time.RFC3339, v.Started); err == nil {
		to := now
		if end, err := time.Parse(time.RFC3339, v.Ended); err == nil {
			to = end
		}
		state += ", " + max(to.Sub(from), 0).Round(time.Second).String()
	}
	text := fmt.Sprintf("%s/%s  %s  %s: %s", v.Session, v.ID, display.Label(v.Agent), state, display.Short(display.OneLine(v.Task), 60))
	if v.Question != "" {
		text += " (asks: " + display.OneLine(v.Question) + ")"
	} else if v.Status != "" {
		text += " (" + display.OneLine(v.Status) + ")"
	}
	return display.Printable(text)
}

func (c *app) printWorkLine(v *role.View) error {
	return c.printResult(v, func() { c.Out.WriteString(cli.Fit(workLine(v, time.Now()), c.Width()) + "\n") })
}

func workList(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [SESSION]",
		Short: "list open work, or all work of a session",
		Long: `List the work that runs or waits for input. With SESSION, list all work of that
session, also what has ended. --json prints one object per line.`,
		Example: `  crabmem work list
  crabmem work list --json`,
		Args:              atMost(1, "SESSION"),
		ValidArgsFunction: c.completeSessions(1, false),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list, err := ask(cmd.Context(), c, op.ListWork, op.WorkQuery{Session: strings.Join(args, "")})
		if err != nil {
			return err
		}
		for i := range list {
			if err := c.printWorkLine(&list[i]); err != nil {
				return err
			}
		}
		if len(list) == 0 {
			c.Say("no work; an agent with role = \"channel\" gives out work")
		}
		return nil
	}
	return cmd
}

// workID returns the work that an argument names.
func workID(arg string) (id op.WorkID, err error) {
	i := strings.LastIndexByte(arg, '/')
	if i < 1 || i == len(arg)-1 {
		return id, cli.Usagef("WORK %q: want SESSION/ID, as crabmem work list prints it", arg)
	}
	return op.WorkID{Session: arg[:i], Work: arg[i+1:]}, nil
}

func completeWork(c *app) cobra.CompletionFunc {
	return completeWith(1, func(ctx context.Context, found *candidates) {
		ctx, cancel := context.WithTimeout(ctx, client.ReadWait)
		defer cancel()
		list, _ := ask(ctx, c, op.ListWork, op.WorkQuery{})
		for i := range list {
			found.describe(list[i].Session+"/"+list[i].ID, display.Printable(display.OneLine(list[i].Task)))
		}
	})
}

// changeWork returns a command on the work that its first argument names. do receives the
// arguments after that.
func changeWork(c *app, cmd *cobra.Command, do func(ctx context.Context, id op.WorkID, rest []string) (op.WorkChange, error)) *cobra.Command {
	cmd.ValidArgsFunction = completeWork(c)
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (r op.WorkChange, err error) {
		id, err := workID(args[0])
		if err != nil {
			return r, err
		}
		return do(ctx, id, args[1:])
	}, func(r op.WorkChange) { c.Say("%s", display.Printable(r.Result)) })
}

func workRoute(c *app) *cobra.Command {
	return changeWork(c, &cobra.Command{
		Use:   "route WORK MESSAGE",
		Short: "send a message to work",
		Long: `Send a message to work. Work that runs reads it after its step; work that waits
for input, or that failed and can go on, continues with it.`,
		Example: `  crabmem work route crab_user_1/w1 "use the branch main"`,
		Args:    exactly(2, "WORK and MESSAGE"),
	}, func(ctx context.Context, id op.WorkID, rest []string) (op.WorkChange, error) {
		return ask(ctx, c, op.RouteWork, op.WorkMessage{WorkID: id, Message: rest[0]})
	})
}

func workAnswer(c *app) *cobra.Command {
	return changeWork(c, &cobra.Command{
		Use:   "answer WORK ANSWER",
		Short: "answer the question of work",
		Long: `Answer the question of work, such as whether it may run a command: y, n, or a
label of the question. crabmem work list shows the questions.`,
		Example: `  crabmem work answer crab_user_1/w1 y || crabmem work list`,
		Args:    exactly(2, "WORK and ANSWER"),
	}, func(ctx context.Context, id op.WorkID, rest []string) (op.WorkChange, error) {
		return ask(ctx, c, op.AnswerWork, op.WorkAnswer{WorkID: id, Answer: rest[0]})
	})
}

func workCancel(c *app) *cobra.Command {
	return changeWork(c, &cobra.Command{
		Use:   "cancel WORK",
		Short: "cancel work",
		Long: `Cancel work. The channel reads of it with its next message. Work that waits for
input is closed.`,
		Example: `  crabmem work cancel crab_user_1/w1`,
		Args:    exactly(1, "WORK"),
	}, func(ctx context.Context, id op.WorkID, _ []string) (op.WorkChange, error) {
		return ask(ctx, c, op.CancelWork, id)
	})
}
