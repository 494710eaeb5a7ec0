package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"crabmem/daemon/agent"
	"crabmem/daemon/cron"
	"crabmem/daemon/session"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
	"crabmem/sessionlog"
)

// cronSender returns the sender of an entry's messages.
func cronSender(c *cron.Cron) string { return cmp.Or(c.Sender, trust.Cron) }

// cronScope returns the scope that bounds an entry's runs.
func cronScope(c *cron.Cron) (tool.Scope, error) { return readScope(c, c.Scope) }

// readScope returns a scope that an entry contains.
func readScope(c *cron.Cron, text string) (tool.Scope, error) {
	if text == "" {
		return tool.Unbounded(), nil
	}
	var scope tool.Scope
	if err := json.Unmarshal([]byte(text), &scope); err != nil {
		return tool.Scope{}, fmt.Errorf("scope of cron entry %d: %w: recreate the entry", c.ID, err)
	}
	return scope, nil
}

// runCron sends the message of an entry to its session. The session's file
// identifies it, also after a restart. A missing file is an error. An entry for
// cron.NewSession gets a new session of its agent. A skill that the session does not
// have is an error, without a model call.
func (d *Daemon) runCron(ctx context.Context, c cron.Cron) error {
	l, err := d.cronSession(ctx, c)
	if err != nil {
		return err
	}
	scope, err := cronScope(&c)
	origin, oerr := readScope(&c, cmp.Or(c.Origin, c.Scope))
	if err := errors.Join(err, oerr); err != nil {
		return err
	}
	run := &session.Run{Session: l, Content: c.Message(), Sender: cronSender(&c), Literal: c.Prompt != "", Timeout: c.Limit(),
		AnyCommand: c.Approve == cron.AnyCommand, Bound: &origin, Adapt: func(a *agent.Agent) { a.Scope = a.Scope.Intersect(scope) }}
	if c.Deliver != "" {
		return d.deliverCron(ctx, &c, run)
	}
	return d.loaded.Run(ctx, run)
}

func (d *Daemon) cronSession(ctx context.Context, c cron.Cron) (*session.Session, error) {
	if c.SessionFile == "" {
		// Another program wrote the entry; its session number is unknown here.
		return nil, fmt.Errorf("no session_file: recreate the entry, or set session_file in crons.toml: %w", sessionlog.ErrNotFound)
	}
	if c.SessionFile == cron.NewSession {
		if err := d.checkCron(nil, &c); err != nil {
			return nil, err
		}
		return d.loaded.Resolve(ctx, &session.Request{Agent: c.Agent, Sender: cronSender(&c), NewChat: true, Workspace: c.Workspace})
	}
	l, err := d.loaded.Open(ctx, c.SessionFile, "")
	if err != nil {
		return nil, err
	}
	if l.ID() != c.Session {
		if err := d.crons.Bind(c.ID, l.ID(), c.SessionFile); err != nil {
			return nil, err
		}
	}
	return l, d.checkCron(l, &c)
}
