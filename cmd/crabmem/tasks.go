package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/board"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func tasksCommand(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "tasks",
		GroupID: groupUse,
		Short:   "list, add, show, and change tasks",
		Long: `A task is the note "task: TITLE", and its number is the ID of the entry. The
text has the status and the priority as metadata, the subtasks as check boxes,
and the specification. You may edit it like every note. The branches of agents
add and change tasks, too.

The status goes from pending_approval or backlog to ready, then to in_progress,
then to done or back to ready. Each status may go to backlog.`,
		Example: `  crabmem tasks list`,
	}
	return c.outputs(family(cmd, tasksList(c), tasksAdd(c), tasksShow(c), tasksSet(c)), of[op.TaskList](), of[op.Task]())
}

// taskWords adds the flags for the status and the priority of a task.
func taskWords(cmd *cobra.Command, status, priority *string, use string) {
	cmd.Flags().StringVar(status, "status", "", use+" `status` pending_approval, backlog, ready, in_progress, or done")
	cmd.Flags().StringVar(priority, "priority", "", use+" `priority` critical, high, medium, or low")
	completeWords(cmd, "status", board.Statuses...)
	completeWords(cmd, "priority", board.Priorities...)
}

func tasksList(c *app) *cobra.Command {
	var in op.TaskQuery
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list the tasks of the board",
		Long: `List the tasks: those in progress first, those that are done last. Tasks of one
status are in the order of their priority. A task whose status crabmem does not
know precedes the others.`,
		Example: `  crabmem tasks list
  crabmem tasks list --status ready -n 5 --json`,
		Args: exactly(0, "no argument"),
	}
	taskWords(cmd, &in.Status, &in.Priority, "list only tasks with")
	cmd.Flags().IntVarP(&in.Limit, "limit", "n", 0, "list at most `N` tasks, 1 to 500; 0 = 50")
	return resultCommand(c, cmd, func(ctx context.Context, _ []string) (op.TaskList, error) {
		return readStore(ctx, c, crmem.Options{}, op.ListTasks, in)
	}, func(l op.TaskList) {
		rows := [][]string{{"NUMBER", "STATUS", "PRIORITY", "SUBTASKS", "TITLE"}}
		for _, t := range l.Tasks {
			rows = append(rows, []string{strconv.FormatUint(t.Number, 10), display.Label(t.Status), display.Label(t.Priority),
				fmt.Sprintf("%d of %d", t.Checked, t.Subtasks), display.Label(t.Title)})
		}
		c.fitTable(rows, "0", "no tasks")
		if more := l.Total - len(l.Tasks); more > 0 {
			c.Say("%d more; --limit lists more", more)
		}
	})
}

// taskText returns a text of an argument: "-" is standard input.
func (c *app) taskText(ctx context.Context, text string) (string, error) {
	if text == "-" {
		return c.ReadInput(ctx, crmem.MaxContent)
	}
	return text, nil
}

// changeTask carries out a change of the board.
func changeTask[I any](ctx context.Context, c *app, create, allow bool, row *op.Action[I, op.Task], in I) (op.Task, error) {
	g := c.guard()
	g.AllowSecrets = allow
	with := func(f func(op.Memory) error) error { return c.writeGuarded(ctx, "tasks", create, g, f) }
	return resultOf(with, func(s op.Memory) (op.Task, error) { return row.Do(ctx, s, in) })
}

func (c *app) sayTask(t op.Task) {
	line := t.Line()
	c.Say("%s", display.Printable(line.String()))
}

func tasksAdd(c *app) *cobra.Command {
	var in op.NewTask
	allow := false
	cmd := &cobra.Command{
		Use:   "add TITLE [TEXT|-]",
		Short: "add a task",
		Long: `Add the task TITLE with the specification TEXT. TEXT "-" reads standard input.
If another task has the title, add exits with 4.`,
		Example: `  crabmem tasks add "write the release notes"
  crabmem tasks add "ship 1.0" "tag, push, watch" --priority high --subtask tag --subtask push`,
		Args: between(1, 2, "TITLE and TEXT (or -)"),
	}
	taskWords(cmd, &in.Status, &in.Priority, "begin with")
	cmd.Flags().StringArrayVar(&in.Subtasks, "subtask", nil, "add this subtask `text`; may be repeated")
	allowSecretsFlag(cmd, &allow)
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (t op.Task, err error) {
		in.Title = args[0]
		if in.Description, err = c.taskText(ctx, strings.Join(args[1:], "")); err != nil {
			return t, err
		}
		return changeTask(ctx, c, true, allow, op.CreateTask, in)
	}, c.sayTask)
}

// taskNumber returns the number that an argument names.
func taskNumber(arg string) (op.TaskNumber, error) {
	n, err := strconv.ParseUint(arg, 10, 64)
	if err != nil {
		return op.TaskNumber{}, cli.Usagef("NUMBER %q: want a number, as crabmem tasks list prints it", arg)
	}
	return op.TaskNumber{Number: n}, nil
}

func completeTasks(c *app) cobra.CompletionFunc {
	return completeWith(1, func(ctx context.Context, found *candidates) {
		l, _ := readStore(ctx, c, crmem.Options{}, op.ListTasks, op.TaskQuery{}) // without a store, no tasks
		for _, t := range l.Tasks {
			found.describe(strconv.FormatUint(t.Number, 10), display.Label(t.Title))
		}
	})
}

func tasksShow(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NUMBER",
		Short: "show a task",
		Long: `Print the title, status, and priority of a task, its subtasks with their
numbers, and its specification. If there is no such task, show exits with 3.`,
		Example: `  crabmem tasks show 334 || crabmem tasks list
  crabmem tasks show 334 --json || crabmem tasks list`,
		Args: exactly(1, "NUMBER"), ValidArgsFunction: completeTasks(c),
	}
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (t op.Task, err error) {
		number, err := taskNumber(args[0])
		if err != nil {
			return t, err
		}
		return readStore(ctx, c, crmem.Options{}, op.ShowTask, number)
	}, func(t op.Task) {
		line := t.Line()
		c.Out.WriteString(display.Printable(line.String()) + "\n")
		for i, s := range t.Subtasks {
			mark := map[bool]string{false: " ", true: "x"}[s.Done]
			fmt.Fprintf(c.Out, "%3d [%s] %s\n", i+1, mark, display.Printable(s.Text))
		}
		if t.Description != "" {
			c.Out.WriteString("\n" + c.Text(t.Description) + "\n")
		}
	})
}

func tasksSet(c *app) *cobra.Command {
	var in op.TaskChange
	text, allow := "", false
	cmd := &cobra.Command{
		Use:   "set NUMBER",
		Short: "change a task",
		Long: `Change the task NUMBER. What no flag names stays the same, byte for byte. --text
replaces the specification; "-" reads standard input. --subtask replaces the
subtasks; one with the same text stays done. A new title leaves the old one as
an alias.

If there is no such task, set exits with 3. If the status does not go to the new
one, or if another task has the new title, it exits with 4. crabmem tasks --help
lists the steps.`,
		Example: `  crabmem tasks set 334 --status ready || crabmem tasks list
  crabmem tasks set 334 --complete 2 --json || crabmem tasks list`,
		Args: exactly(1, "NUMBER"), ValidArgsFunction: completeTasks(c),
	}
	f := cmd.Flags()
	taskWords(cmd, &in.Status, &in.Priority, "set")
	f.StringVar(&in.Title, "title", "", "set the `title`")
	f.StringVar(&text, "text", "", "set the specification `text`")
	f.StringArrayVar(&in.Subtasks, "subtask", nil, "set this subtask `text`; may be repeated")
	f.IntVar(&in.Complete, "complete", 0, "check subtask `N`, as crabmem tasks show numbers them")
	allowSecretsFlag(cmd, &allow)
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (t op.Task, err error) {
		if in.TaskNumber, err = taskNumber(args[0]); err != nil {
			return t, err
		}
		given := false
		f.VisitAll(func(f *pflag.Flag) {
			given = given || f.Changed && f.Name != "allow-secrets" && cmd.LocalNonPersistentFlags().Lookup(f.Name) != nil
		})
		switch {
		case !given:
			return t, wrongArgs(cmd, "want a flag, such as --status")
		case f.Changed("title") && in.Title == "", f.Changed("complete") && in.Complete < 1:
			return t, wrongArgs(cmd, "want a title, or the number of a subtask")
		case f.Changed("subtask"):
			in.Subtasks = slices.DeleteFunc(in.Subtasks, func(s string) bool { return s == "" }) // --subtask "" removes all
		}
		if f.Changed("text") {
			if text, err = c.taskText(ctx, text); err != nil {
				return t, err
			}
			in.Description = &text
		}
		return changeTask(ctx, c, false, allow, op.UpdateTask, in)
	}, c.sayTask)
}
