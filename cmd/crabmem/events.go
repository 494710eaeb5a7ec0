package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/client"
	"crabmem/daemon/display"

	"github.com/spf13/cobra"
)

// event is a line of events --json.
type event struct {
	Time     string       `json:"timestamp"`
	Kind     string       `json:"kind"` // text_delta, tool_start, done …
	Agent    string       `json:"agent"`
	Session  uint64       `json:"session"`   // number in the daemon; 0 = no session
	StoredID string       `json:"stored_id"` // of its file
	Content  string       `json:"content"`
	CallID   string       `json:"call_id,omitempty"`
	Calls    []eventCall  `json:"calls,omitempty"`
	Usage    *eventUsage  `json:"usage,omitempty"`
	Summary  string       `json:"summary,omitempty"`
	Archive  string       `json:"archive,omitempty"`
	Error    *eventFailed `json:"error,omitempty"`
	Lost     uint64       `json:"lost,omitempty"` // events that were missed
}

type eventCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type eventUsage struct {
	Prompt     uint64 `json:"prompt"`
	Completion uint64 `json:"completion"`
	Total      uint64 `json:"total"`
	Limit      uint64 `json:"context_limit"`
	Estimated  bool   `json:"estimated"`
}

type eventFailed struct {
	Code    uint32 `json:"code"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

func newEvent(m *client.Event) event {
	e := event{
		Time: m.Time, Kind: m.Kind, Agent: m.Agent, Session: m.Session, StoredID: m.StoredID,
		Content: m.Text, CallID: m.CallID, Summary: m.Summary, Archive: m.Archive, Lost: m.Lost,
	}
	for _, call := range m.Calls {
		e.Calls = append(e.Calls, eventCall{call.ID, call.Function.Name, call.Function.Arguments})
	}
	if u := m.Usage; u != nil {
		e.Usage = &eventUsage{u.Prompt, u.Completion, u.Total, u.ContextLimit, u.Estimated}
	}
	if err := m.Err; err != nil {
		e.Error = &eventFailed{err.Code, err.Kind, err.Message}
	}
	return e
}

// errEnough ends a feed without an error.
var errEnough = errors.New("that was all")

func (c *app) eventsCommand() *cobra.Command {
	var during time.Duration
	var count int
	cmd := &cobra.Command{
		Use:     "events",
		GroupID: groupAgents,
		Short:   "print events of all sessions",
		Long: `Print the events of all sessions of the daemon until Ctrl+C, one per line: time,
agent, session, kind, and details. --for stops after a time and --count after a
number of events; the exit code is then 0.

--json prints one object per line. An event of kind lag counts the events that
this command missed because it read too slowly. If no daemon runs, or if it
stops, the exit code is 8.`,
		Example: `  crabmem events --for 1s
  crabmem events --json --for 500ms --count 10`,
	}
	cmd.Flags().DurationVar(&during, "for", 0, "stop after this time, 0 = never")
	cmd.Flags().IntVar(&count, "count", 0, "stop after `N` events, 0 = never")
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
			seen := 0
			for m, err := range d.Events(ctx) {
				if err != nil {
					return gone(err)
				}
				if err := c.showEvent(newEvent(m)); err != nil {
					return err
				}
				if seen++; seen == count {
					return nil
				}
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			return c.stoppedDaemon()
		}
		return err
	}
	return cmd
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

func (c *app) showEvent(e event) error {
	if c.JSON {
		if err := c.PrintJSON(e); err != nil {
			return err
		}
		return c.Out.Flush()
	}
	text := e.Content
	if e.Usage != nil {
		text = fmt.Sprintf("%d tokens of %d", e.Usage.Total, e.Usage.Limit)
		if e.Usage.Limit == 0 {
			text = display.Plural(e.Usage.Total, "token", "tokens")
		}
	}
	at := e.Time
	if t, err := time.Parse(time.RFC3339Nano, e.Time); err == nil {
		at = t.Local().Format("15:04:05.000")
	}
	line := fmt.Sprintf("%s  %s %d  %-15s  %s", at, display.Label(e.Agent), e.Session, e.Kind, display.Printable(text))
	c.Out.WriteString(strings.TrimRight(cli.Fit(line, c.Width()), " ") + "\n")
	return c.Out.Flush()
}
