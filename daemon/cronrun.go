package daemon

import (
	"context"
	"fmt"

	"crabmem/daemon/config"
	"crabmem/daemon/cron"
	"crabmem/daemon/session"
	"crabmem/sessionlog"
)

// cronSender is the sender of the messages of crons.
const cronSender = "cron"

// runCron sends /SKILL ARGS to the session of an entry. The session's file
// identifies it, also after a restart. A missing file is an error. An entry for
// cron.NewSession gets a new session of the agent crab. A skill that the session does not
// have is an error, without a call of the model.
func (d *Daemon) runCron(ctx context.Context, c cron.Cron) error {
	l, err := d.cronSession(ctx, c)
	if err != nil {
		return err
	}
	text := "/" + c.Skill
	if c.Args != "" {
		text += " " + c.Args
	}
	return d.loaded.Run(ctx, &session.Run{Session: l, Content: text, Sender: cronSender, AnyCommand: c.Approve == cron.AnyCommand})
}

func (d *Daemon) cronSession(ctx context.Context, c cron.Cron) (*session.Session, error) {
	if c.SessionFile == "" {
		// Another program wrote the entry; its session number is unknown here.
		return nil, fmt.Errorf("no session_file: recreate the entry, or set session_file in crons.toml: %w", sessionlog.ErrNotFound)
	}
	if c.SessionFile == cron.NewSession {
		if err := d.checkCronSkill(nil, c.Skill); err != nil {
			return nil, err
		}
		return d.loaded.Resolve(ctx, &session.Request{Agent: config.Crab, Sender: cronSender, NewChat: true})
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
	return l, d.checkCronSkill(l, c.Skill)
}
