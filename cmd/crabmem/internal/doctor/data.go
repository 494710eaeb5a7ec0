package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/box"
	"crabmem/daemon/cron"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/secret"
	"crabmem/daemon/skill"
	"crabmem/daemon/tool"
)

// maxLockFile bounds the text of a lock.
const maxLockFile = 4 << 10

// holder tries a lock and returns its holder. It returns nil if the lock is free
// or its file is missing.
func (d *doctor) holder(name string) (*vfs.LockHolder, error) {
	if _, err := d.FS.Lstat(name); missing(err) {
		return nil, nil
	}
	l, err := d.FS.Lock(name)
	if err == nil {
		return nil, l.Unlock()
	}
	if !errors.Is(err, vfs.ErrLocked) {
		return nil, err
	}
	h := vfs.LockHolder{}
	if b, err := vfs.ReadFile(d.FS, name, maxLockFile); err == nil {
		h = vfs.ParseLockHolder(string(b))
	}
	return &h, nil
}

// checkLock looks who has the store.
func (d *doctor) checkLock(context.Context) {
	if d.hello != nil && d.hello.Store == d.Store {
		d.ok("lock", "the daemon holds the lock")
		return
	}
	switch h, err := d.holder(d.Store + "-lock"); {
	case err != nil:
		d.broken("lock", err)
	case h == nil:
		d.ok("lock", "no process holds the lock")
	case h.PID == d.hung && d.hung != 0:
		d.ok("lock", "an unresponsive daemon holds the lock")
	default:
		d.warn("lock", "wait until it exits, or stop it", "%s (pid %d) holds the lock: other processes cannot write", h.Command, h.PID)
	}
}

func (d *doctor) checkStore(context.Context) {
	r, err := d.CheckStore()
	d.data("store", "none yet: run crabmem remember to create one", r, err, Fail, "crabmem verify")
	d.checkCopies("store", filepath.Dir(d.Store))
}

// checkCopies warns of the conflict copies of sync programs in a directory.
func (d *doctor) checkCopies(name, dir string) {
	list, err := d.FS.ReadDir(dir)
	if err != nil {
		return // the checks of the files report it
	}
	for _, f := range list {
		stem, ext := f.Name(), ""
		if i := strings.LastIndexByte(stem, '.'); i > 0 {
			stem, ext = stem[:i], stem[i:]
		}
		if original := vfs.OriginalIn(list, stem, ext); original != "" {
			d.warn(name, "compare it with "+original+ext+", then move it out of the directory, and keep "+dir+" out of the sync program",
				"%s is a conflict copy of %s by a sync program", filepath.Join(dir, f.Name()), original+ext)
		}
	}
}

func (d *doctor) checkSessions(context.Context) {
	r, ids, err := d.CheckSessions()
	d.sessions = ids
	d.data("sessions", "none yet", r, err, Fail, "crabmem sessions verify")
	d.checkCopies("sessions", filepath.Join(d.Home, "sessions"))
}

func (d *doctor) checkSkills(context.Context) {
	r, err := d.CheckSkills()
	d.data("skills", "none yet", r, err, Warn, "crabmem skills check")
}

// checkCrons looks for entries that never run, or do not any more.
func (d *doctor) checkCrons(context.Context) {
	path := filepath.Join(d.Home, "crons.toml")
	table, err := cron.Open(d.FS, path)
	if err != nil {
		d.fail("crons", "fix or move "+errtable.ShellWord(path), "%s", err)
		return
	}
	list := table.List()
	r := &Report{Summary: display.Plural(len(list), "entry", "entries")}
	warn := func(remedy, format string, args ...any) {
		r.Count++
		r.Problems = append(r.Problems, Finding{State: Warn, What: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	for _, w := range table.Warnings() {
		warn("fix or remove the entry", "ignored entry: %s", w)
	}
	skills, err := d.Skills()
	for i := range list {
		e := &list[i]
		if err == nil && e.Skill != "" {
			if _, gone := skills.Get(tool.Unbounded(), e.Skill); errors.Is(gone, skill.ErrNotFound) {
				warn("crabmem skills new "+errtable.ShellWord(e.Skill), "cron %d runs /%s: skill not found", e.ID, e.Skill)
			}
		}
		if e.Failures >= cron.MaxFailures {
			warn("see crabmem daemon logs; the entry runs again after a change of its schedule or crabmem config edit", "cron %d is stopped after repeated failures", e.ID)
		}
		switch {
		case e.SessionFile == "":
			warn("set session_file in crons.toml, or run crabmem cron remove "+fmt.Sprint(e.ID), "cron %d has no session_file and cannot run", e.ID)
		case e.SessionFile != cron.NewSession && !d.sessions[e.SessionFile]:
			warn("run crabmem sessions restore "+errtable.ShellWord(e.SessionFile)+", or run crabmem cron remove "+fmt.Sprint(e.ID), "cron %d runs in session %s: session not found", e.ID, e.SessionFile)
		}
	}
	recent := d.Now().Add(-48 * time.Hour)
	box.Each(d.FS, d.Home, d.Now, func(f *box.File) {
		for _, o := range f.Deliveries {
			if (o.State == box.Failed || o.State == box.Unknown) && o.At.After(recent) {
				warn("read the text: crabmem sessions show "+errtable.ShellWord(o.Session), "a text for %s is %s: %s", f.Conversation, o.State, o.Reason)
			}
		}
	})
	d.problems("crons", r, Warn, "crabmem cron list")
}

// checkSecrets decrypts every secret. Without a file of secrets it adds no finding.
func (d *doctor) checkSecrets(context.Context) {
	s := &secret.Store{FS: d.FS, Home: d.Home, Keyring: secret.System(d.Getenv)}
	list, err := s.List()
	if err == nil && list.Key.Kind == "" {
		return
	}
	var values *secret.Values
	if err == nil {
		values, err = s.Open()
	}
	if err != nil {
		d.broken("secrets", err)
		return
	}
	r := &Report{Summary: display.Plural(len(list.Secrets), "secret", "secrets") + "; " + list.Key.String()}
	for _, name := range values.Names() {
		if _, err := values.Get(name); err != nil {
			f := d.Explain(err)
			r.Count++
			r.Problems = append(r.Problems, Finding{State: Fail, What: f.Message, Remedy: f.Remedy})
		}
	}
	d.problems("secrets", r, Fail, "crabmem secret list")
}
