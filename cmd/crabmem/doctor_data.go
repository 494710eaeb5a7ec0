package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/cron"
	"crabmem/daemon/skill"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
)

// maxLockFile bounds the text of a lock.
const maxLockFile = 4 << 10

// holder tries a lock for a moment and returns who has it, nil when nobody has.
// One that is not there is nobody's.
func (d *doctor) holder(name string) (*vfs.Holder, error) {
	if _, err := d.c.fs.Lstat(name); missing(err) {
		return nil, nil
	}
	l, err := d.c.fs.Lock(name)
	if err == nil {
		return nil, l.Unlock()
	}
	if !errors.Is(err, vfs.ErrLocked) {
		return nil, err
	}
	h := vfs.Holder{}
	if b, err := vfs.ReadFile(d.c.fs, name, maxLockFile); err == nil {
		h = vfs.ParseHolder(string(b))
	}
	return &h, nil
}

// checkLock looks who has the store.
func (d *doctor) checkLock(context.Context) {
	if d.hello != nil && d.hello.Store == d.store {
		d.ok("lock", "the daemon has the store")
		return
	}
	switch h, err := d.holder(d.store + "-lock"); {
	case err != nil:
		d.broken("lock", err)
	case h == nil:
		d.ok("lock", "nobody has the store")
	case h.PID == d.hung && d.hung != 0:
		d.ok("lock", "the daemon that does not answer has the store")
	default:
		d.warn("lock", "wait for it to end, or end it", "%s (pid %d) has the store: others cannot write", h.Command, h.PID)
	}
}

func (d *doctor) checkStore(context.Context) {
	r, err := crmem.Check(d.c.fs, d.store, 0)
	if err != nil {
		if f := classify(d.c.about(d.store, err)); f.Kind != "no_store" {
			d.broken("store", f)
		} else {
			d.ok("store", "none yet: crabmem remember makes one")
		}
		return
	}
	if errors.Is(r.Err(), crmem.ErrNoStore) {
		d.ok("store", "none yet: crabmem remember makes one")
		return
	}
	bad := 0
	for _, p := range r.Problems {
		if bad++; bad > maxFindings {
			continue
		}
		if p.Kind == crmem.Torn {
			d.warn("store", p.Remedy, "%s", p.Message)
		} else {
			d.fail("store", p.Remedy, "%s", p.Message)
		}
	}
	if bad > maxFindings {
		d.fail("store", "crabmem verify", "and %s", cli.Plural(bad-maxFindings, "more problem", "more problems"))
	} else if bad == 0 {
		d.ok("store", "%s: %s", d.store, cli.Plural(r.Entries, "entry", "entries"))
	}
}

func (d *doctor) checkSessions(context.Context) {
	d.sessions = make(map[string]bool)
	r := &sessionsReport{}
	err := d.c.readSessions(func(dir *sessionlog.Dir) error {
		infos, err := dir.List()
		if err != nil {
			return err
		}
		for _, i := range infos {
			d.sessions[i.ID] = true
		}
		return r.all(dir)
	})
	if err != nil {
		if classify(err).Kind == "no_sessions" {
			d.ok("sessions", "none yet")
		} else {
			d.broken("sessions", err)
		}
		return
	}
	for _, p := range r.Problems[:min(len(r.Problems), maxFindings)] {
		if p.Kind == problemTorn {
			d.warn("sessions", p.Remedy, "%s", p.Message)
		} else {
			d.fail("sessions", p.Remedy, "%s", p.Message)
		}
	}
	if r.count > maxFindings {
		d.fail("sessions", "crabmem sessions verify", "and %s", cli.Plural(r.count-maxFindings, "more problem", "more problems"))
	} else if r.count == 0 {
		d.ok("sessions", "%s", cli.Plural(r.Sessions, "session", "sessions"))
	}
}

func (d *doctor) checkSkills(context.Context) {
	path := filepath.Join(d.home, "skills")
	err := d.c.skillsFolder(path)
	if missing(err) {
		d.ok("skills", "none yet")
		return
	}
	var list []skill.Skill
	var problems []*skill.Problem
	if err == nil {
		list, problems, err = skill.Check(d.c.fs, skill.Dir{Path: path, Tier: skill.Workspace})
	}
	if err != nil {
		d.broken("skills", err)
		return
	}
	for _, p := range problems[:min(len(problems), maxFindings)] {
		d.warn("skills", p.Remedy, "%s", skillMessage(p))
	}
	if more := len(problems) - maxFindings; more > 0 {
		d.warn("skills", "crabmem skills check", "and %s", cli.Plural(more, "more problem", "more problems"))
	}
	if len(problems) == 0 {
		d.ok("skills", "%s", cli.Plural(len(list), "skill", "skills"))
	}
}

// checkCrons looks for entries that never run, or do not any more.
func (d *doctor) checkCrons(ctx context.Context) {
	path := filepath.Join(d.home, "crons.toml")
	table, err := cron.Open(d.c.fs, path)
	if err != nil {
		d.fail("crons", "mend or move away "+cli.ShellWord(path), "%s", err)
		return
	}
	bad := 0
	warn := func(remedy, format string, args ...any) {
		if bad++; bad <= maxFindings {
			d.warn("crons", remedy, format, args...)
		}
	}
	for _, w := range table.Warnings() {
		warn("mend or remove that entry", "an entry is not used: %s", w)
	}
	list := table.List()
	skills, err := d.c.loadSkills(nil)
	for i := range list {
		e := &list[i]
		if err == nil {
			if _, gone := skills.Get(tool.Unbounded(), e.Skill); errors.Is(gone, skill.ErrNotFound) {
				warn("crabmem skills new "+cli.ShellWord(e.Skill), "cron %d runs /%s, and there is no such skill", e.ID, e.Skill)
			}
		}
		switch {
		case e.SessionFile == "":
			warn("set session_file in crons.toml, or: crabmem cron remove "+fmt.Sprint(e.ID), "cron %d names no session's file: it cannot run", e.ID)
		case !d.sessions[e.SessionFile]:
			warn("crabmem sessions restore "+cli.ShellWord(e.SessionFile)+", or: crabmem cron remove "+fmt.Sprint(e.ID), "cron %d runs in the session %s, which is not there", e.ID, e.SessionFile)
		}
	}
	for _, id := range d.stoppedCrons(ctx) {
		warn("crabmem daemon logs says why; a restart of the daemon gives it another chance", "cron %d was stopped: it failed again and again", id)
	}
	if bad > maxFindings {
		d.warn("crons", "crabmem cron list", "and %s", cli.Plural(bad-maxFindings, "more problem", "more problems"))
	} else if bad == 0 {
		d.ok("crons", "%s", cli.Plural(len(list), "entry", "entries"))
	}
}
