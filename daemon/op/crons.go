package op

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"crabmem/daemon/cron"
	"crabmem/daemon/errtable"
	"crabmem/daemon/session"
	"crabmem/daemon/tool"
)

// Cron is a cron table entry.
type Cron struct {
	ID         uint64 `json:"id"`
	Workspace  string `json:"workspace,omitempty" jsonschema:"path of the workspace that has the entry"`
	Name       string `json:"name,omitempty" jsonschema:"of the entry in its workspace"`
	Schedule   string `json:"schedule"`
	Skill      string `json:"skill,omitempty"`
	Args       string `json:"args,omitempty"`
	Prompt     string `json:"prompt,omitempty"`
	Agent      string `json:"agent,omitempty" jsonschema:"of new sessions; absent: the default agent"`
	Timeout    string `json:"timeout,omitempty" jsonschema:"of a run; absent: 10m"`
	Sender     string `json:"sender,omitempty" jsonschema:"identity of the runs, if an agent made the entry"`
	Session    string `json:"session" jsonschema:"ID of the session, or new: each run begins one"`
	QuietStart string `json:"quiet_start,omitempty"`
	QuietEnd   string `json:"quiet_end,omitempty"`
	Timezone   string `json:"timezone,omitempty"`
	Once       bool   `json:"once"`
	NextAt     string `json:"next_at,omitempty" op:"time" jsonschema:"RFC 3339; absent: never"`
	Failures   int    `json:"failures" jsonschema:"in a row"`
	Stopped    bool   `json:"stopped" jsonschema:"after too many failures"`
	Deliver    string `json:"deliver,omitempty" jsonschema:"conversation that receives the texts, as tg:7"`
	Wake       bool   `json:"wake,omitempty" jsonschema:"its session contains the texts, too"`
	Approve    string `json:"approve" op:"words=allowlist|off" jsonschema:"allowlist, or off: all commands run"`

	Delivery *Delivery `json:"delivery,omitempty" jsonschema:"of the newest text, apart from the state of the run"`

	Number uint64 `json:"-"` // session number in the table, for RFC 0018
}

// Delivery is the delivery state of a text.
type Delivery struct {
	State   string `json:"state" op:"words=owed|pending|sent|failed|unknown|empty" jsonschema:"owed: the run has not ended; empty: it had no text; unknown: the platform did not confirm it"`
	Reason  string `json:"reason,omitempty" jsonschema:"of a failure"`
	Session string `json:"session" jsonschema:"contains the text"`
}

// NewCron is a new cron table entry.
type NewCron struct {
	Schedule   string `json:"schedule" jsonschema:"five fields, as in 0 9 * * 1-5, or @every 90m"`
	Skill      string `json:"skill,omitempty" jsonschema:"a skill, or prompt"`
	Args       string `json:"args,omitempty" jsonschema:"of the skill"`
	Prompt     string `json:"prompt,omitempty" jsonschema:"the message to send in place of a skill"`
	Agent      string `json:"agent,omitempty" jsonschema:"of new sessions; absent: the default agent"`
	Timeout    string `json:"timeout,omitempty" jsonschema:"of a run, such as 30m; absent: 10m"`
	Session    string `json:"session,omitempty" jsonschema:"ID of the session; absent: each run begins one"`
	Timezone   string `json:"timezone,omitempty" jsonschema:"such as Europe/Berlin; absent: the daemon's"`
	QuietStart string `json:"quiet_start,omitempty" jsonschema:"HH:MM: no runs from then on"`
	QuietEnd   string `json:"quiet_end,omitempty" jsonschema:"HH:MM: runs again"`
	Deliver    string `json:"deliver,omitempty" jsonschema:"send the texts to this conversation of a channel: tg:ID, tg:ID/TOPIC, or hook:KEY/ID"`
	Wake       bool   `json:"wake,omitempty" jsonschema:"add the texts to the conversation's session, too"`
	Once       bool   `json:"once,omitempty" jsonschema:"remove the entry after its first run"`

	Maker *CronMaker `json:"-"` // nil: a person
}

// CronMaker is the run that made an entry: the entry's runs never exceed it.
type CronMaker struct {
	Agent, Sender string
	Scope         tool.Scope // the run's
	Origin        tool.Scope // its identities'
}

// CronID names a cron table entry.
type CronID struct {
	ID uint64 `json:"id"`
}

var ListCrons = Add(errtable.Other, Op[Daemon, None, []Cron]{
	Name: "crons.list", Does: "List the cron entries.", Effect: Reads, Path: "GET /v1/crons",
	Run: func(_ context.Context, d Daemon, _ *None) ([]Cron, error) {
		list := []Cron{}
		for _, c := range append(d.Crons.List(), d.WorkspaceCrons()...) {
			list = append(list, d.cron(c))
		}
		return list, nil
	},
})

// AddCron adds an entry, and loads its session if necessary. The table also contains the
// session number, which changes when the daemon restarts.
var AddCron = Add(errtable.Session, Op[Daemon, NewCron, Cron]{
	Name: "crons.add", Does: "Add a cron entry.", Effect: Manages, Path: "POST /v1/crons", Status: http.StatusCreated,
	Run: func(ctx context.Context, d Daemon, in *NewCron) (Cron, error) {
		c := cron.Cron{
			Schedule: in.Schedule, Skill: in.Skill, Args: in.Args, SessionFile: cmp.Or(in.Session, cron.NewSession),
			QuietStart: in.QuietStart, QuietEnd: in.QuietEnd, Once: in.Once, Timezone: in.Timezone, Approve: cron.AllowedOnly,
			Prompt: in.Prompt, Agent: in.Agent, Timeout: in.Timeout, Deliver: in.Deliver, Wake: in.Wake,
		}
		if in.Maker != nil {
			scope, err := json.Marshal(in.Maker.Scope)
			origin, oerr := json.Marshal(in.Maker.Origin)
			if err := errors.Join(err, oerr); err != nil {
				return Cron{}, err
			}
			c.Agent, c.Sender, c.Scope, c.Origin = in.Maker.Agent, in.Maker.Sender, string(scope), string(origin)
		}
		var l *session.Session
		if c.SessionFile != cron.NewSession {
			var err error
			if l, err = d.Loaded.Named(ctx, 0, c.SessionFile); err != nil {
				return Cron{}, err
			}
			c.Session, c.SessionFile = l.ID(), l.StoredID()
		}
		if err := d.CheckCron(l, &c); err != nil {
			return Cron{}, err
		}
		c, err := d.Crons.Create(c)
		if _, ok := errors.AsType[*cron.InvalidError](err); ok {
			return Cron{}, errtable.Invalidf("%v", err)
		} else if err != nil {
			return Cron{}, err
		}
		d.CronsChanged()
		return d.cron(c), nil
	},
})

var RemoveCron = Add(errtable.Other, Op[Daemon, CronID, None]{
	Name: "crons.remove", Does: "Remove a cron entry.", Effect: Manages, Path: "DELETE /v1/crons/{id}",
	Run: func(_ context.Context, d Daemon, in *CronID) (None, error) {
		for _, c := range d.WorkspaceCrons() {
			if c.ID == in.ID {
				return None{}, &errtable.Error{HTTP: http.StatusForbidden, Kind: "scope", Path: c.Workspace, Message: fmt.Sprintf("cron %d: the workspace %s has it", in.ID, c.Workspace), Fix: "remove " + c.Name + " from the workspace"}
			}
		}
		err := d.Crons.Delete(in.ID)
		if _, ok := errors.AsType[*cron.NotFoundError](err); ok {
			return None{}, &errtable.Error{HTTP: http.StatusNotFound, Kind: "not_found", Message: err.Error(), Fix: "crabmem cron list"}
		} else if err != nil {
			return None{}, err
		}
		d.CronsChanged()
		return None{}, nil
	},
})

func (d *Daemon) cron(c cron.Cron) Cron {
	e := Cron{
		ID: c.ID, Workspace: c.Workspace, Name: c.Name, Schedule: c.Schedule, Skill: c.Skill, Args: c.Args, Session: c.SessionFile, Number: c.Session, QuietStart: c.QuietStart, QuietEnd: c.QuietEnd,
		Timezone: c.Timezone, Once: c.Once, Approve: cmp.Or(c.Approve, cron.AllowedOnly), Failures: c.Failures,
		Prompt: c.Prompt, Agent: c.Agent, Timeout: c.Timeout, Sender: c.Sender, Deliver: c.Deliver, Wake: c.Wake,
	}
	if next, err := c.Next(d.Now()); err == nil {
		e.NextAt = next.UTC().Format(time.RFC3339)
	}
	d.CronState(&e)
	return e
}
