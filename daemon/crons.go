package daemon

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"crabmem/daemon/cron"
	"crabmem/daemon/errtable"
	"crabmem/daemon/wire/pb"
)

// createCron adds an entry for a session, and loads the session if necessary. The
// entry also contains the ID of the session's file, because session numbers change
// when the daemon restarts. An entry for cron.NewSession has no session.
func (d *Daemon) createCron(r *request, m *pb.CreateCronMsg) error {
	c := cron.Cron{
		Schedule: m.Schedule, Skill: m.Skill, Args: m.Args, SessionFile: m.StoredId,
		QuietStart: m.GetQuietStart(), QuietEnd: m.GetQuietEnd(), Once: m.Once, Timezone: m.Timezone,
		Approve: cron.AllowedOnly,
	}
	if m.StoredId != cron.NewSession {
		l, err := d.loaded.Named(r.ctx, m.Session, m.StoredId)
		if err != nil {
			return err
		}
		c.Session, c.SessionFile = l.ID(), l.StoredID()
	}
	c, err := d.crons.Create(c)
	if _, ok := errors.AsType[*cron.InvalidError](err); ok {
		return errtable.Invalidf("%v", err)
	} else if err != nil {
		return err
	}
	d.firing.changed()
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_CronInfo{CronInfo: d.cronInfo(c)}})
}

func (d *Daemon) deleteCron(r *request, m *pb.DeleteCronMsg) error {
	err := d.crons.Delete(m.GetId())
	if _, ok := errors.AsType[*cron.NotFoundError](err); ok {
		return &errtable.Error{HTTP: http.StatusNotFound, Kind: "not_found", Message: err.Error(), Fix: "crabmem cron list"}
	} else if err != nil {
		return err
	}
	d.firing.changed()
	return r.pong()
}

func (d *Daemon) listCrons(r *request) error {
	list := &pb.CronList{}
	for _, c := range d.crons.List() {
		list.Crons = append(list.Crons, d.cronInfo(c))
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_CronList{CronList: list}})
}

// cronInfo is an entry with the number that its session has now; 0 when it is
// not live.
func (d *Daemon) cronInfo(c cron.Cron) *pb.CronInfo {
	info := &pb.CronInfo{
		Id: c.ID, Schedule: c.Schedule, Skill: c.Skill, Session: c.Session, QuietStart: c.QuietStart, QuietEnd: c.QuietEnd, Once: c.Once,
		Args: c.Args, Timezone: c.Timezone, StoredId: c.SessionFile,
	}
	if next, err := c.Next(d.now()); err == nil {
		info.NextAt = next.Format(time.RFC3339)
	}
	info.Failures = uint32(d.firing.failures(c.ID))
	info.Approve = cmp.Or(c.Approve, cron.AllowedOnly)
	info.Stopped = info.Failures >= cronFailures
	if c.SessionFile != "" {
		info.Session = 0
		for _, l := range d.loaded.List() {
			if l.StoredID() == c.SessionFile {
				info.Session = l.ID()
			}
		}
	}
	return info
}
