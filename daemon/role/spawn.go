package role

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/bm25/clip"
	"crabmem/daemon/agent"
	"crabmem/daemon/display"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
	"crabmem/daemon/work"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// forkOf returns a run's messages at its last step end, and their last line.
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
	for l, err := range s.Lines(0) {
		if err != nil {
			return nil, ms
		}
		if l.Kind == record.KindMessage || l.Kind == record.KindCopy {
			before := last
			if last = record.NewWorkFrom(l.Number, l.Raw); l.Message.Role == record.RoleAssistant && len(l.Message.ToolCalls) > 0 {
				from = before
			} else {
				from = last
			}
		}
	}
	return from, ms
}

// prefix returns the parent's messages before a worker's own: those up to the place
// where it began, from its file, and of them the newest that fit into 40 % of the model's
// window.
func (w *running) prefix() (ms []sessionlog.Message, err error) {
	if ms = w.fork; ms == nil {
		if ms, err = w.readFork(); err != nil {
			return nil, err
		}
	}
	setup := w.r.setupOf(w.p.Meta().Workspace)
	limit := 0
	if a := setup.Agents[w.Agent]; a != nil {
		limit = setup.Runner.Models.ContextLimit(w.model(a.Model))
	}
	room := cmp.Or(limit, agent.DefaultThreshold) * 4 * 40 / 100 // bytes
	from := len(ms)
	for i := len(ms) - 1; i >= 0; i-- {
		if room -= agent.Size(ms[i : i+1]); room < 0 {
			break
		} else if ms[i].Role == record.RoleUser {
			from = i
		}
	}
	return ms[from:len(ms):len(ms)], nil
}

// readFork reads the parent's messages up to the place where the work began.
func (w *running) readFork() (ms []sessionlog.Message, err error) {
	s, err := w.r.o.Work.Sessions.Read(w.p.ID())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	start, ok, err := s.CutAt(w.From)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("session %s changed: line %d is not the one after which the work began", w.p.ID(), w.From.Line)
	}
	for l, err := range s.Lines(start) {
		if err != nil {
			return nil, err
		}
		switch l.Kind {
		case record.KindMarker:
			ms = []sessionlog.Message{{Role: record.RoleUser, Content: l.Summary}}
		case record.KindMessage, record.KindCopy:
			ms = append(ms, l.Message)
		}
	}
	return ms, nil
}

// spawn starts work unless a limit is reached. With forks, it begins with the messages of t.
func (r *Roles) spawn(o origin, s work.Spawn, most int, t *agent.Turn, forks bool) (*work.Item, error) {
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
	var fork []sessionlog.Message
	if forks {
		s.From, fork = r.forkOf(t)
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

// within returns the directory that a call names, absolute. An agent with limits stays in
// the directory of its session.
func within(c tool.Call, dir string) (string, error) {
	if dir == "" {
		return c.Dir, nil
	}
	abs := dir
	if !filepath.IsAbs(abs) {
		abs = filepath.Join(c.Dir, dir)
	}
	if rel, err := filepath.Rel(c.Dir, abs); c.Scope.Confined && (err != nil || !filepath.IsLocal(rel)) {
		return "", fmt.Errorf("dir is outside %s", c.Dir)
	}
	return filepath.Clean(abs), nil
}

// mayChange returns an error if a run's identities may not route to work or cancel it:
// the work has the permissions of who gave it out.
func (r *Roles) mayChange(o origin, t *agent.Turn, id string) error {
	if levelOf(r.o.Setup().Config.Origins, t.Session.CreatedBy, o.Sender) == trust.Admin {
		return nil
	}
	return r.on(o.parent, id, func(_ *parent, i *work.Item) error {
		if g, err := grantOf(i); err != nil || g.Sender != o.Sender {
			return fmt.Errorf("%w: %s", ErrNoWork, clip.Bytes(id, maxStatus))
		}
		return nil
	})
}
