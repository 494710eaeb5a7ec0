package daemon

import (
	"cmp"
	"errors"
	"net/http"

	"crabmem/daemon/cron"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/daemon/skill"
	"crabmem/daemon/tool"
	"crabmem/daemon/wire/pb"
)

// The cron requests of RFC 0018 carry out rows of package op.

// createCron adds an entry for a loaded session, which RFC 0018 identifies by its number.
func (d *Daemon) createCron(r *request, m *pb.CreateCronMsg) error {
	l, err := d.loaded.Get(m.Session)
	if err != nil {
		return err
	}
	c, err := op.AddCron.Do(r.ctx, op.Local{On: d.on(r)}, op.NewCron{
		Schedule: m.Schedule, Skill: m.Skill, Session: l.StoredID(), QuietStart: m.GetQuietStart(), QuietEnd: m.GetQuietEnd(), Once: m.Once,
	})
	if err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_CronInfo{CronInfo: d.cronInfo(&c)}})
}

func (d *Daemon) listCrons(r *request) error {
	crons, err := op.ListCrons.Do(r.ctx, op.Local{On: d.on(r)}, op.None{})
	if err != nil {
		return err
	}
	list := &pb.CronList{}
	for i := range crons {
		list.Crons = append(list.Crons, d.cronInfo(&crons[i]))
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_CronList{CronList: list}})
}

// cronInfo returns an entry with the number that its session has now; 0 if the session is
// not loaded.
func (d *Daemon) cronInfo(c *op.Cron) *pb.CronInfo {
	info := &pb.CronInfo{Id: c.ID, Schedule: c.Schedule, Skill: c.Skill, QuietStart: c.QuietStart, QuietEnd: c.QuietEnd, Once: c.Once}
	if c.Session == "" { // the reference wrote the entry
		info.Session = c.Number
	}
	for _, l := range d.loaded.List() {
		if l.StoredID() == c.Session {
			info.Session = l.ID()
		}
	}
	return info
}

// checkNewCron is checkCron for a new entry, which may deliver.
func (d *Daemon) checkNewCron(l *session.Session, c *cron.Cron) error {
	return cmp.Or(d.checkCron(l, c), d.checkDeliver(c))
}

// checkCron returns an error if an entry has no agent, or its message /NAME loads no skill
// in its session, or in a new session if l is nil.
func (d *Daemon) checkCron(l *session.Session, c *cron.Cron) error {
	root := c.Workspace
	if l != nil {
		root = l.Workspace()
	}
	s, err := d.setupOf(root)
	if err != nil {
		return err
	}
	agent, name := cmp.Or(c.Agent, s.forSessions().DefaultAgent()), c.Skill
	if l != nil && c.Agent != "" && l.Agent() != agent {
		return errtable.Invalidf("agent: the session %s is of %s, not of %s", l.StoredID(), l.Agent(), agent)
	} else if l != nil {
		agent = l.Agent()
	} else if s.agents[agent] == nil {
		e := errtable.Errorf(http.StatusNotFound, "unknown_agent", "cron: agent '%s' not registered", agent)
		e.Exit, e.Fix = errtable.ExitNotFound, "crabmem agents list lists the agents"
		return e
	}
	bound, err := cronScope(c)
	if name == "" || err != nil {
		return err
	}
	scope := d.senderScope(s, l, agent, cronSender(c)).Intersect(bound)
	_, sk, err := s.skills.Preprocess(scope, "/"+name)
	if sk != nil {
		return nil
	}
	if err == nil {
		err = skill.ErrNotFound
	} else if _, refused := errors.AsType[*tool.Violation](err); refused {
		d.log.Warn("rejected a call outside the agent's scope", "security", true, "agent", agent, "kind", "skill", "name", name)
	}
	e := errtable.Errorf(http.StatusNotFound, "unknown_skill", "cron: skill %s: %v", name, err)
	e.Exit, e.Err, e.Fix = errtable.ExitNotFound, err, "crabmem skills list lists the skills, and crabmem skills new NAME creates one"
	_, _, err = s.skills.Command(scope, "/"+name)
	if unknown, ok := errors.AsType[*skill.UnknownCommand](err); ok {
		if nearest := op.NearestName(name, unknown.Names); nearest != "" {
			e.Fix = "did you mean " + nearest + "? " + e.Fix
		}
	}
	return e
}
