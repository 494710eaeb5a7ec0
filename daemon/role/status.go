package role

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"crabmem/bm25/clip"
	"crabmem/daemon/display"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// Limits of a channel's status, in bytes.
const (
	maxStatusLine  = 200
	maxStatusBlock = 2 << 10
)

// young is the age below which a branch is not in the status: it soon ends.
const young = 3 * time.Second

// status returns the state of a channel's work for its next run, and the open question to
// its user, or "".
func (r *Roles) status(log *sessionlog.Log) string {
	now := r.o.Now()
	var lines []string
	if o, err := log.OpenWork(); err == nil && r.awaits(o.Ask) {
		lines = append(lines, fmt.Sprintf("asked %s, no answer yet: %s", display.Label(o.Ask.To), quoted(o.Ask.Text)))
	}
	if p := r.open(log.ID()); p != nil {
		defer r.done(p)
		list := r.of(p)
		sort.Slice(list, func(i, j int) bool { return list[i].begun.Before(list[j].begun) })
		for _, w := range list {
			if w.Kind != record.Branch || now.Sub(w.begun) >= young {
				lines = append(lines, "working: "+w.line(now))
			}
		}
		for _, i := range p.Items() {
			if status, _ := i.Status(); status.State == record.Waiting {
				lines = append(lines, fmt.Sprintf("waiting for input: %s %s, %s", i.ID, i.Agent, quoted(i.Task)))
			}
		}
	}
	if len(lines) == 0 {
		return ""
	}
	var b strings.Builder
	for n, line := range lines {
		line = strings.ReplaceAll(clip.Marked(display.Printable(line), maxStatusLine), "</status", `<\/status`)
		if b.Len()+len(line) > maxStatusBlock-100 {
			fmt.Fprintf(&b, "and %d more\n", len(lines)-n)
			break
		}
		b.WriteString(line + "\n")
	}
	return fmt.Sprintf("<status at=%q>\n%s</status>", now.UTC().Format(time.RFC3339), b.String())
}

// of returns a parent's active work.
func (r *Roles) of(p *parent) (list []*running) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.items {
		if w.p == p {
			list = append(list, w)
		}
	}
	return list
}

// resume runs a parent's work on after a restart, and wakes the parent for outcomes
// that it has not answered.
func (r *Roles) resume(id string) {
	p := r.open(id)
	if p == nil {
		return
	}
	defer r.done(p)
	for _, i := range p.Items() {
		status, _ := i.Status()
		if status.State == record.Waiting {
			r.closeLater(p, i)
		}
		if status.State == record.Running {
			if err := r.begin(p, i, nil); err != nil {
				r.o.Log.Warn("resume work", "session", id, "work", i.ID, "error", err)
			}
		}
	}
	c := r.o.Setup().Config.Roles
	owed, err := p.Owed(c.Wakes)
	if err != nil {
		r.o.Log.Warn("resume work", "session", id, "error", err)
	}
	p.owes(owed)
	if len(owed) > 0 || p.Inbox() > 0 {
		r.wakeAfter(p, recoveryDelay, recoveryDelay)
	}
}

// recoveryDelay is the time between the start of the daemon and the first wake.
const recoveryDelay = 5 * time.Second
