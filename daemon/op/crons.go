package op

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"crabmem/daemon/cron"
	"crabmem/daemon/errtable"
	"crabmem/daemon/session"
)

// Cron is a cron table entry.
type Cron struct {
	ID         uint64 `json:"id"`
	Schedule   string `json:"schedule"`
	Skill      string `json:"skill"`
	Args       string `json:"args,omitempty"`
	Session    string `json:"session" jsonschema:"ID of the session, or new: each run begins one"`
	QuietStart string `json:"quiet_start,omitempty"`
	QuietEnd   string `json:"quiet_end,omitempty"`
	Timezone   string `json:"timezone,omitempty"`
	Once       bool   `json:"once"`
	NextAt     string `json:"next_at,omitempty" op:"time" jsonschema:"RFC 3339; absent: never"`
	Failures   int    `json:"failures" jsonschema:"in a row"`
	Stopped    bool   `json:"stopped" jsonschema:"after too many failures"`
	Approve    string `json:"approve" op:"words=allowlist|off" jsonschema:"allowlist, or off: all commands run"`

	Number uint64 `json:"-"` // session number in the table, for RFC 0018
}

// NewCron is a new cron table entry.
type NewCron struct {
	Schedule   string `json:"schedule" jsonschema:"five fields, as in 0 9 * * 1-5"`
	Skill      string `json:"skill"`
	Args       string `json:"args,omitempty"`
	Session    string `json:"session,omitempty" jsonschema:"ID of the session; absent: each run begins one"`
	Timezone   string `json:"timezone,omitempty" jsonschema:"such as Europe/Berlin; absent: the daemon's"`
	QuietStart string `json:"quiet_start,omitempty" jsonschema:"HH:MM: no runs from then on"`
	QuietEnd   string `json:"quiet_end,omitempty" jsonschema:"HH:MM: runs again"`
	Once       bool   `json:"once,omitempty" jsonschema:"remove the entry after its first run"`
}

// CronID names a cron table entry.
type CronID struct {
	ID uint64 `json:"id"`
}

var ListCrons = Add(errtable.Other, Op[Daemon, None, []Cron]{
	Name: "crons.list", Does: "List the cron entries.", Effect: Reads, Path: "GET /v1/crons",
	Run: func(_ context.Context, d Daemon, _ *None) ([]Cron, error) {
		list := []Cron{}
		for _, c := range d.Crons.List() {
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
		}
		var l *session.Session
		if c.SessionFile != cron.NewSession {
			var err error
			if l, err = d.Loaded.Named(ctx, 0, c.SessionFile); err != nil {
				return Cron{}, err
			}
			c.Session, c.SessionFile = l.ID(), l.StoredID()
		}
		if err := d.CheckCronSkill(l, c.Skill); err != nil {
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
		ID: c.ID, Schedule: c.Schedule, Skill: c.Skill, Args: c.Args, Session: c.SessionFile, Number: c.Session, QuietStart: c.QuietStart, QuietEnd: c.QuietEnd,
		Timezone: c.Timezone, Once: c.Once, Approve: cmp.Or(c.Approve, cron.AllowedOnly), Failures: c.Failures,
	}
	if next, err := c.Next(d.Now()); err == nil {
		e.NextAt = next.UTC().Format(time.RFC3339)
	}
	d.CronState(&e)
	return e
}
