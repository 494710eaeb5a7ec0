package main

import (
	"context"
	"fmt"
	"time"

	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"

	"github.com/spf13/cobra"
)

func workShow(c *app) *cobra.Command {
	var whole bool
	cmd := &cobra.Command{
		Use:   "show WORK",
		Short: "print the state, task, and outcome of work",
		Long: `Print the state, the task, and the last outcome of work. --whole also prints the
messages with which a branch began, which are those of the channel since its
last compaction before that, and then the session of the work, both as crabmem
sessions show does. With --json, each is an object on a line.`,
		Example: `  crabmem work show crab_user_1/w1
  crabmem work show crab_user_1/w1 --whole`,
		Args:              exactly(1, "WORK"),
		ValidArgsFunction: completeWork(c),
	}
	cmd.Flags().BoolVar(&whole, "whole", false, "also print the messages")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		id, err := workID(args[0])
		if err != nil {
			return err
		}
		v, err := ask(ctx, c, op.ShowWork, id)
		if err != nil {
			return err
		}
		err = c.printResult(v, func() {
			c.Out.WriteString(workLine(&v, time.Now()) + "\n")
			fmt.Fprintf(c.Out, "session  %s\nattempt  %d\n\n%s\n", display.Printable(v.Child), v.Attempt, display.Printable(v.Task))
			if v.Outcome != "" {
				fmt.Fprintf(c.Out, "\n%s\n", display.Printable(v.Outcome))
			}
		})
		if err == nil && whole && v.From != nil {
			err = c.showUpTo(ctx, v.Session, v.From)
		}
		if err == nil && whole {
			err = c.showUpTo(ctx, v.Child, nil)
		}
		return err
	}
	return c.outputs(cmd, of[role.View](), of[shownSession]())
}

// showUpTo prints a session, or what of it precedes work: the messages up to a line since
// the last compaction.
func (c *app) showUpTo(ctx context.Context, id string, last *record.WorkFrom) error {
	return c.readSession(id, func(s *sessionlog.Session) error {
		from := int64(0)
		if last != nil {
			marker, ok, err := s.CutAt(last)
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("%s: line %d changed after the work began: crabmem sessions show prints the session", s.Path, last.Line)
			}
			from = marker
		}
		if !c.JSON {
			c.Out.WriteByte('\n')
		}
		return c.showSession(ctx, s, from)
	})
}
