package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/cron"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func cronCommand(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cron",
		GroupID: groupAgents,
		Short:   "schedule skills and messages",
		Long: `Send /SKILL or a text to a session on a schedule, as if a user typed it.
Entries are in crons.toml in the home directory. If the machine slept or the
daemon was off, an entry that missed runs runs once, up to cron.catch_up late
(12h), but not in its quiet hours. The daemon stops an entry after three
failures in a row, also over restarts. The entry runs again after a change of
its schedule or a configuration reload. crabmem cron list shows stopped entries.

An entry runs only commands on the allowlist, tools.bash.allow. To let an entry
run all commands, set approve = "off" in crons.toml.`,
		Example: `  crabmem cron list`,
	}
	return c.outputs(family(cmd, cronAdd(c), cronList(c), cronRemove(c)), of[op.Cron]())
}

// cronLine describes an entry for people, with its next run in a time zone.
func cronLine(e *op.Cron, zone *time.Location) string {
	what := (&cron.Cron{Skill: e.Skill, Args: e.Args}).Message()
	if e.Prompt != "" {
		what = strconv.Quote(display.Short(display.OneLine(e.Prompt), 60))
	}
	var notes []string
	if e.Workspace != "" {
		notes = append(notes, e.Name+" of "+e.Workspace)
	}
	if e.Timeout != "" {
		notes = append(notes, "timeout "+e.Timeout)
	}
	if e.Sender != "" {
		notes = append(notes, "made by "+e.Agent+" for "+e.Sender)
	}
	if e.Deliver != "" {
		notes = append(notes, deliverNote(e))
	}
	if e.Timezone != "" {
		notes = append(notes, e.Timezone)
	}
	if e.QuietStart != "" {
		notes = append(notes, "quiet "+e.QuietStart+" to "+e.QuietEnd)
	}
	if e.Once {
		notes = append(notes, "once")
	}
	if e.Approve == cron.AnyCommand {
		notes = append(notes, "runs all commands")
	}
	if e.Stopped {
		notes = append(notes, fmt.Sprintf("stopped after %d failures", e.Failures))
	} else if e.NextAt != "" {
		notes = append(notes, "next "+display.TimeIn(e.NextAt, zone))
	} else {
		notes = append(notes, "never runs: every scheduled time is in the quiet hours")
	}
	in := e.Session
	if in == cron.NewSession {
		in = strings.TrimSuffix("a new session of "+e.Agent, " of ")
	}
	return fmt.Sprintf("%3d  %-15s %s in %s (%s)", e.ID, e.Schedule, what, in, strings.Join(notes, ", "))
}

// deliverNote describes an entry's target and its newest delivery.
func deliverNote(e *op.Cron) string {
	note := "delivers to " + e.Deliver
	if d := e.Delivery; d != nil {
		note += strings.TrimSuffix(": "+d.State+", "+d.Reason, ", ")
	}
	return note
}

func cronAdd(c *app) *cobra.Command {
	var quiet, zone, prompt, agent, deliver string
	var timeout time.Duration
	var once, wake bool
	cmd := &cobra.Command{
		Use:   "add SESSION SCHEDULE (SKILL [ARGS] | --prompt TEXT)",
		Short: "schedule a skill or a message",
		Long: `Send /SKILL ARGS, or the text of --prompt, to a session, by its ID, on a
schedule. If SESSION is "new", each run gets a new session of --agent. The agent
must have the skill. SCHEDULE has five fields: minute, hour, day of month,
month, and day of week. With six fields, the first one is seconds. "@every 90m"
is each multiple of 90 minutes since 1970-01-01 UTC. The entry does not run
during --quiet-hours.

--deliver sends what the agent says to a conversation: tg:ID of a user that
config/telegram.toml allows, tg:ID/TOPIC, or hook:KEY/ID of a gateway key. In a
new session, it waits for the work that the agent gave out. It sends each text
once, and never elsewhere. crabmem cron list shows the newest delivery.`,
		Example: `  crabmem cron add crab_user_1 "0 9 * * 1-5" check-feeds
  crabmem cron add crab_user_1 "*/30 * * * *" check-feeds news --quiet-hours 23:00-07:00 --timezone Europe/Berlin
  crabmem cron add new "0 18 * * 5" review
  crabmem cron add new "@every 90m" --prompt "Summarize the news." --timeout 30m
  crabmem cron add new "0 7 * * *" --prompt "Summarize the news." --deliver tg:7
  crabmem cron add crab_user_1 "30 18 24 12 *" greet --once`,
		Args: func(cmd *cobra.Command, args []string) error {
			if prompt != "" {
				return exactly(2, "SESSION and SCHEDULE, because of --prompt")(cmd, args)
			}
			return atLeast(3, "SESSION, SCHEDULE, and SKILL")(cmd, args)
		},
		ValidArgsFunction: completeCron(c),
	}
	cmd.Flags().StringVar(&quiet, "quiet-hours", "", "do not run during these `hours`, such as 23:00-07:00")
	cmd.Flags().StringVar(&zone, "timezone", "", "use the time `zone`, such as Europe/Berlin (default: the daemon's)")
	cmd.Flags().StringVar(&prompt, "prompt", "", "send this `text` in place of a skill")
	cmd.Flags().StringVar(&agent, "agent", "", "use this `agent` in new sessions (default crab)")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "stop a run after this `time` (default 10m)")
	cmd.Flags().StringVar(&deliver, "deliver", "", "send the text to this `conversation` of a channel, such as tg:7")
	cmd.Flags().BoolVar(&wake, "wake", false, "add the text to the conversation's session, too")
	cmd.Flags().BoolVar(&once, "once", false, "run at most once: remove the entry, then run it")
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (op.Cron, error) {
		m := op.NewCron{Session: args[0], Schedule: args[1], Prompt: prompt, Agent: agent, Once: once, Timezone: zone, Deliver: deliver, Wake: wake}
		if prompt == "" {
			m.Skill, m.Args = strings.TrimPrefix(args[2], "/"), strings.Join(args[3:], " ")
		}
		if timeout != 0 {
			m.Timeout = timeout.String()
		}
		if quiet != "" {
			from, to, ok := strings.Cut(quiet, "-")
			if !ok {
				return op.Cron{}, cli.Usagef("--quiet-hours %q: want two times, such as 23:00-07:00", quiet)
			}
			m.QuietStart, m.QuietEnd = from, to
		}
		return ask(ctx, c, op.AddCron, m)
	}, func(e op.Cron) { c.Say("added %s", display.Printable(strings.TrimSpace(cronLine(&e, c.zone())))) })
}

func cronList(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list the entries and their next runs",
		Long: `List the entries in order of their numbers, each with the time of its next run.
--json prints one object per line.`,
		Example: `  crabmem cron list
  crabmem cron list --json`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list, err := ask(cmd.Context(), c, op.ListCrons, op.None{})
		if err != nil {
			return err
		}
		for _, e := range list {
			if c.JSON {
				if err := c.PrintJSON(e); err != nil {
					return err
				}
				continue
			}
			c.Out.WriteString(display.Printable(cronLine(&e, c.zone())) + "\n")
		}
		if len(list) == 0 {
			c.Say("no entries; run crabmem cron add to create one")
		}
		return nil
	}
	return cmd
}

func cronRemove(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:               "remove ID",
		Short:             "remove an entry",
		Long:              `Remove an entry by its number. If the entry is running, the run continues.`,
		Example:           "  crabmem cron add crab_user_1 \"0 9 * * *\" check-feeds && crabmem cron remove 1",
		Args:              exactly(1, "ID"),
		ValidArgsFunction: completeCronIDs(c),
	}, func(ctx context.Context, args []string) (r removedCron, err error) {
		if r.Removed, err = strconv.ParseUint(args[0], 10, 64); err != nil {
			return r, cli.Usagef("ID %q: want a number that crabmem cron list prints", args[0])
		}
		_, err = ask(ctx, c, op.RemoveCron, op.CronID{ID: r.Removed})
		return r, err
	}, func(r removedCron) { c.Say("removed %d", r.Removed) })
}

// removedCron is cron remove --json.
type removedCron struct {
	Removed uint64 `json:"removed"`
}
