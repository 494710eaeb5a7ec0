package main

import (
	"context"
	"errors"
	"reflect"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/agent"
	"crabmem/daemon/client"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

// eventLine is a line of events --json.
type eventLine struct {
	Time     string     `json:"timestamp"`
	Kind     agent.Kind `json:"kind"`
	Agent    string     `json:"agent"`
	Session  uint64     `json:"session"`   // number in the daemon; 0 = no session
	StoredID string     `json:"stored_id"` // of its file
	Content  string     `json:"content"`
	CallID   string     `json:"call_id,omitempty"`
	*agent.Event
}

func newEventLine(e agent.Event) eventLine {
	l := eventLine{Time: e.Time, Kind: e.Kind, Agent: e.Agent, Session: e.Number, StoredID: e.Session, Content: e.Content, CallID: e.ID, Event: &e}
	e.Time, e.ID = "", ""
	return l
}

// errEnough ends a feed without an error.
var errEnough = errors.New("that was all")

func eventsCommand(c *app) *cobra.Command {
	var during time.Duration
	var count int
	var of eventFilter
	cmd := &cobra.Command{
		Use:     "events",
		GroupID: groupAgents,
		Short:   "print events of the sessions",
		Long: `Print the events of the daemon's sessions until Ctrl+C: messages, tool calls,
and the ends of runs. Each line contains the local time, the session, and the
agent. events joins the parts of a streamed text in one line. --session and
--agent select events. --for stops after a time and --count after a number of
lines; the exit code is then 0.

--json prints each event as one object per line. An event of kind lag counts the
events that this command missed because it read too slowly. If no daemon runs,
or if it stops, the exit code is 8.`,
		Example: `  crabmem events --for 1s
  crabmem events --session crab_user_1 --for 500ms
  crabmem events --json --for 500ms --count 10`,
	}
	cmd.Flags().DurationVar(&during, "for", 0, "stop after this time, 0 = never")
	cmd.Flags().IntVar(&count, "count", 0, "stop after `N` lines, 0 = never")
	cmd.Flags().StringVar(&of.session, "session", "", "print only events of the session with this `ID`")
	cmd.Flags().StringVar(&of.agent, "agent", "", "print only events of this `agent`")
	_ = cmd.RegisterFlagCompletionFunc("session", c.completeSessions(-1, false))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if during < 0 {
			return cli.Usagef("--for %v: want 0 or more", during)
		}
		if count < 0 {
			return cli.Usagef("--count %d: want 0 or more", count)
		}
		ctx, cancel := context.WithCancelCause(cmd.Context())
		defer cancel(nil)
		if during > 0 {
			late := time.AfterFunc(during, func() { cancel(errEnough) })
			defer late.Stop()
		}
		err := c.withDaemon(ctx, func(d *client.Client) error {
			p := eventPrinter{c: c}
			for m, err := range op.FollowEvents.All(ctx, d, op.EventFilter{}) {
				if err != nil {
					p.flush()
					return gone(err)
				}
				if !of.matches(m) {
					continue
				}
				if err := p.print(m); err != nil {
					return err
				}
				if count > 0 && p.lines >= count {
					return nil
				}
			}
			p.flush()
			return c.Out.Flush()
		})
		if errors.Is(err, errEnough) {
			return c.stopped(c.daemonPID(c.client().Addr.Address))
		}
		return err
	}
	return c.outputs(cmd, reflect.TypeFor[eventLine]())
}

// gone returns the error for a feed that the daemon ended.
func gone(err error) error {
	var said *client.Error
	if errors.As(err, &said) || isUnresponsive(err) || errors.As(err, new(*client.NoDaemonError)) || errors.As(err, new(*client.SkewError)) ||
		errors.Is(err, errEnough) || errors.As(err, new(*interrupted)) {
		return err
	}
	return &cli.Failure{Code: cli.ExitUnreachable, Kind: "no_daemon", Message: "read events: connection to the daemon lost: " + err.Error(), Remedy: "crabmem daemon start", Err: err}
}
