package daemon

import (
	"errors"
	"path/filepath"

	"crabmem/daemon/cron"
	"crabmem/daemon/wire/pb"
)

// openCrons reads the table of what is to run at which times.
func (d *Daemon) openCrons() (*cron.Table, error) {
	t, err := cron.Open(d.fs, filepath.Join(d.home, "crons.toml"))
	if err != nil {
		return nil, err
	}
	for _, w := range t.Warnings() {
		d.log.Warn("an entry of crons.toml is not used", "warning", w)
	}
	return t, nil
}

// createCron adds an entry for a session that is live now. It is bound to the
// session's file too, so that it means the same one after a restart (D20).
func (d *Daemon) createCron(r *request, m *pb.CreateCronMsg) error {
	l, err := d.live.get(m.Session)
	if err != nil {
		return err
	}
	c, err := d.crons.Create(cron.Cron{
		Schedule: m.Schedule, Skill: m.Skill, Session: m.Session, SessionFile: l.log.ID(),
		QuietStart: m.GetQuietStart(), QuietEnd: m.GetQuietEnd(), Once: m.Once,
	})
	if _, ok := errors.AsType[*cron.InvalidError](err); ok {
		return &failure{code: 400, kind: "invalid", text: err.Error()}
	} else if err != nil {
		return err
	}
	d.firing.changed()
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_CronInfo{CronInfo: d.cronInfo(c)}})
}

func (d *Daemon) deleteCron(r *request, id uint64) error {
	err := d.crons.Delete(id)
	if _, ok := errors.AsType[*cron.NotFoundError](err); ok {
		return refuse(404, "not_found", "cron %d not found", id)
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
	info := &pb.CronInfo{Id: c.ID, Schedule: c.Schedule, Skill: c.Skill, Session: c.Session, QuietStart: c.QuietStart, QuietEnd: c.QuietEnd, Once: c.Once}
	if c.SessionFile != "" {
		info.Session = 0
		for _, l := range d.live.list() {
			if l.log.ID() == c.SessionFile {
				info.Session = l.id
			}
		}
	}
	return info
}
