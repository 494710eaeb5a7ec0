package role

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	sessions "crabmem/daemon/session"
	"crabmem/daemon/work"
	"crabmem/sessionlog/record"
)

// View describes work.
type View struct {
	Session     string   `json:"session" jsonschema:"ID of the session that gave out the work"`
	ID          string   `json:"id" jsonschema:"of the work in that session, as w7, or of the question, as q2"`
	Kind        string   `json:"kind" jsonschema:"branch, worker, or question: of the session to its user"`
	Agent       string   `json:"agent"`
	State       string   `json:"state" jsonschema:"running, waiting, done, or failed"`
	Reason      string   `json:"reason,omitempty" jsonschema:"of the state"`
	Attempt     int      `json:"attempt"`
	Interactive bool     `json:"interactive,omitempty"`
	Calls       int      `json:"calls,omitempty" jsonschema:"of tools, in the active run"`
	Status      string   `json:"status,omitempty" jsonschema:"what the work says that it does"`
	Question    string   `json:"question,omitempty" jsonschema:"that the work asks, as to approve a command; work.answer answers it"`
	Options     []string `json:"options,omitempty" jsonschema:"the answers that the question permits"`
	To          string   `json:"to,omitempty" jsonschema:"the identity that the question is to; absent: the owner"`
	Task        string   `json:"task"`
	Outcome     string   `json:"outcome,omitempty" jsonschema:"the last one"`
	Started     string   `json:"started" op:"time" jsonschema:"RFC 3339"`
	Ended       string   `json:"ended,omitempty" op:"time" jsonschema:"RFC 3339: of the last outcome"`
	Child       string   `json:"child" jsonschema:"ID of the session that does the work"`

	From *record.WorkFrom `json:"from,omitempty" jsonschema:"the line after which a branch continues the session"`
}

func (r *Roles) view(p *parent, i *work.Item) View {
	status, attempt := i.Status()
	v := View{Session: p.ID(), ID: i.ID, Kind: i.Kind, Agent: i.Agent, State: status.State, Reason: status.Reason, Attempt: attempt,
		Interactive: i.Interactive, Task: i.Task, Started: i.At, Child: i.Session, From: i.From}
	if o := i.Last(); o != nil && status.State != record.Running {
		v.Outcome, v.Ended = o.Text, o.At
	}
	if q := i.Question(); q != nil && q.Answer == "" {
		v.Question, v.Options = q.Text, q.Options
	}
	r.mu.Lock()
	w := r.items[i.Session]
	r.mu.Unlock()
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		v.Calls, v.Status = w.calls, w.status
	}
	return v
}

// List returns a session's work and its open question, or all sessions' open work if session is "".
func (r *Roles) List(session string) ([]View, error) {
	views := []View{}
	if session == "" {
		for _, id := range r.sessions() {
			if p := r.open(id); p != nil {
				for _, i := range p.Items() {
					views = append(views, r.view(p, i))
				}
				r.done(p)
			}
		}
		sortViews(views)
		return views, nil
	}
	p, err := r.use(session)
	if err != nil {
		return nil, err
	}
	defer r.done(p)
	all, err := p.All()
	for _, i := range all {
		views = append(views, r.view(p, i))
	}
	if q := p.Question(); r.awaits(q) {
		views = append(views, View{Session: p.ID(), ID: record.AskID(q.N), Kind: "question", Agent: p.Meta().Agent, State: record.Waiting, Question: q.Text, To: q.To, Started: q.At})
	}
	return append(views, r.asked(session)...), err
}

// Questions returns the open questions of sessions with open work or a run.
func (r *Roles) Questions() []View {
	views := r.asked("")
	for _, id := range r.sessions() {
		if list, err := r.List(id); err == nil { // otherwise it has no active work
			views = append(views, slices.DeleteFunc(list, func(v View) bool { return v.Question == "" || v.ID[0] == 'a' })...)
		}
	}
	sortViews(views)
	return views
}

// asked returns the questions that a session's run asks or, if session is empty, that all runs ask.
func (r *Roles) asked(session string) (views []View) {
	for _, q := range r.o.Sessions.Asked() {
		l, err := r.o.Sessions.Get(q.Session)
		if err != nil || session != "" && l.StoredID() != session {
			continue
		}
		v := View{Session: l.StoredID(), ID: q.ID, Kind: "question", Agent: l.Agent(), State: record.Waiting, Question: questionText(q.Questions), To: q.To}
		if len(q.Questions) == 1 && !q.Questions[0].MultiSelect {
			v.Question, v.Options = q.Questions[0].Question, sessions.Labels(q.Questions[0].Options)
		}
		views = append(views, v)
	}
	return views
}

// Show returns one work of a session.
func (r *Roles) Show(session, id string) (v View, err error) {
	err = r.on(session, id, func(p *parent, i *work.Item) error {
		v = r.view(p, i)
		return nil
	})
	return v, err
}

func (r *Roles) sessions() (ids []string) {
	r.opening.Lock()
	defer r.opening.Unlock()
	for id := range r.parents {
		ids = append(ids, id)
	}
	return ids
}

// sortViews sorts by the start, the session, and the ID.
func sortViews(list []View) {
	sort.Slice(list, func(i, j int) bool {
		a, b := &list[i], &list[j]
		return cmp.Or(strings.Compare(a.Started, b.Started), strings.Compare(a.Session, b.Session), strings.Compare(a.ID, b.ID)) < 0
	})
}
