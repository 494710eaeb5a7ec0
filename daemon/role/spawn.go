package role

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"crabmem/daemon/agent"
	"crabmem/daemon/display"
	"crabmem/daemon/work"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// forkOf returns the messages of a run at its last step end, and their last line.
func (r *Roles) forkOf(t *agent.Turn) (*record.WorkFrom, []sessionlog.Message) {
	ms := t.Session.Messages
	if n := len(ms); n > 0 && len(ms[n-1].ToolCalls) > 0 {
		ms = ms[:n-1]
	}
	ms = ms[:len(ms):len(ms)]
	s, err := r.o.Work.Sessions.Read(t.Session.Log.ID())
	if err != nil {
		return nil, ms // the line is only for people
	}
	defer s.Close()
	var from, last *record.WorkFrom
	n := 0
	for l, err := range s.Lines(0) {
		if n++; err != nil {
			return nil, ms
		}
		if l.Kind == record.KindMessage {
			if from = last; l.Message.Role != record.RoleAssistant || len(l.Message.ToolCalls) == 0 {
				from = record.NewWorkFrom(n, l.Raw)
			}
			last = record.NewWorkFrom(n, l.Raw)
		}
	}
	return from, ms
}

// spawn starts work unless a limit is reached.
func (r *Roles) spawn(o origin, s work.Spawn, most int, fork []sessionlog.Message) (*work.Item, error) {
	p, err := r.use(o.parent)
	if err != nil {
		return nil, err
	}
	defer r.done(p)
	if s.Scope, err = json.Marshal(o.grant); err != nil {
		return nil, err
	}
	r.spawning.Lock() // the limits hold for concurrent calls
	defer r.spawning.Unlock()
	if err := r.room(p, s.Kind, most); err != nil {
		return nil, err
	}
	for _, i := range p.Items() {
		if status, _ := i.Status(); status.State == record.Running && i.Agent == s.Agent && i.Task == s.Task && i.Kind == s.Kind {
			return nil, fmt.Errorf("%s does this already", i.ID)
		}
	}
	i, err := p.Spawn(s)
	if err != nil {
		return nil, err
	}
	p.publish(agent.WorkStarted, i.ID, i.Task, fmt.Sprintf("%s %s: %s", i.ID, i.Agent, display.Short(display.OneLine(i.Task), 60)))
	return i, r.begin(p, i, fork)
}

// begin starts a run of work, with a use of its parent.
func (r *Roles) begin(p *parent, i *work.Item, fork []sessionlog.Message) error {
	r.opening.Lock()
	p.users++
	r.opening.Unlock()
	err := r.start(p, i, fork)
	if err != nil {
		r.done(p)
	}
	return err
}

// room returns an error if no further work of a kind may run.
func (r *Roles) room(p *parent, kind string, most int) error {
	c := r.o.Setup().Config.Roles
	r.mu.Lock()
	all := len(r.items)
	var of []string
	for _, w := range r.items {
		if w.p == p && w.Kind == kind {
			of = append(of, w.ID)
		}
	}
	r.mu.Unlock()
	waiting := 0
	for _, i := range p.Items() {
		if status, _ := i.Status(); status.State == record.Waiting {
			waiting++
		}
	}
	slices.Sort(of)
	switch {
	case len(of) >= most && kind == record.Branch:
		return fmt.Errorf("%s at work already: %s", display.Plural(len(of), "branch", "branches"), strings.Join(of, ", "))
	case len(of) >= most:
		return fmt.Errorf("%s at work already: %s", display.Plural(len(of), "worker", "workers"), strings.Join(of, ", "))
	case all >= c.Running:
		return fmt.Errorf("%d at work", all)
	case kind == record.Worker && waiting >= c.Waiting:
		return fmt.Errorf("%d workers wait for input: route a message to one, or cancel one", waiting)
	}
	return nil
}
