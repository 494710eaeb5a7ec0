package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/daemon/skill"
	"crabmem/daemon/tool"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog"
)

// runRequest is a request to run an agent.
type runRequest struct {
	session.Request
	after    string // see session.Run.After
	model    string
	tag      string
	commands bool // check /NAME
	literal  bool // the content was //NAME
}

// requestOf returns the request of a message.
func requestOf(m *op.Message) *runRequest {
	q := session.Request{Agent: m.Agent, Sender: m.Sender, NewChat: m.New, Content: m.Content, ID: m.Request, Fresh: m.Fresh}
	if m.Number != 0 {
		q.Session = &m.Number
	}
	if m.Dir != "" {
		q.Dir = &m.Dir
	}
	if m.Session != "" {
		q.Resume = &m.Session
	}
	return &runRequest{Request: q, after: m.After, model: m.Model, tag: m.Tag, commands: m.Commands}
}

// resolve returns the session of a request. It checks the model and a command /NAME
// before it creates a session.
func (d *Daemon) resolve(ctx context.Context, q *runRequest) (*session.Session, error) {
	if len(q.ID) > sessionlog.MaxRequest {
		return nil, errtable.Invalidf("request_id: %d bytes, want at most %d", len(q.ID), sessionlog.MaxRequest)
	}
	if q.model != "" {
		if err := d.setup().models.Check(q.model); err != nil {
			return nil, err
		}
	}
	if q.Dir != nil && q.Session == nil && q.Resume == nil {
		var err error
		if q.Workspace, err = d.workspaceAt(ctx, *q.Dir); err != nil {
			return nil, err
		}
	}
	s := d.setupIn(q.Workspace)
	if s.agents[q.Agent] == nil {
		if err := d.checkAgent(q.Agent); err != nil {
			return nil, err
		}
		s = d.setupIn(q.Workspace)
	}
	agent := q.Agent
	if agent == "" {
		agent = s.forSessions().DefaultAgent()
	}
	before := q.commands && s.agents[agent] != nil && q.Session == nil && q.Resume == nil
	if before {
		if err := d.command(s, d.senderScope(s, nil, agent, cmp.Or(q.Sender, session.User)), q); err != nil {
			return nil, err
		}
	}
	l, err := d.loaded.Resolve(ctx, &q.Request)
	if err != nil || before || !q.commands {
		return l, err
	}
	s = d.setupIn(l.Workspace())
	return l, d.command(s, d.senderScope(s, l, l.Agent(), cmp.Or(q.Sender, l.CreatedBy())), q)
}

// senderScope returns the scope of a sender's run of an agent in a session, or in a new
// session of the sender if l is nil.
func (d *Daemon) senderScope(s *setup, l *session.Session, agent, sender string) tool.Scope {
	scope := s.config.Origins.Scope(sender, sender)
	if l != nil {
		scope = d.loaded.Scope(l, sender)
	}
	if a := s.agents[agent]; a != nil {
		scope = scope.Intersect(a.Scope)
	}
	return scope
}

// command returns an error for a content /NAME if scope contains no skill NAME. It
// replaces //NAME with the literal text /NAME.
func (d *Daemon) command(s *setup, scope tool.Scope, q *runRequest) error {
	text, literal, err := s.skills.Command(scope, q.Content)
	if unknown, ok := errors.AsType[*skill.UnknownCommand](err); ok {
		if unknown.Refused {
			d.log.Warn("rejected a call outside the agent's scope", "security", true, "agent", q.Agent, "kind", "skill", "name", unknown.Name)
		}
		e := errtable.Errorf(http.StatusNotFound, "not_found", "%v", err)
		e.Exit, e.Err = errtable.ExitNotFound, err
		e.Fix = "did you mean /help in a chat? crabmem skills list lists the skills; //" + unknown.Name + " sends the text"
		if nearest := op.NearestName(unknown.Name, unknown.Names); nearest != "" {
			e.Fix = "did you mean /" + nearest + "? //" + unknown.Name + " sends the text"
		}
		return e
	}
	q.Content, q.literal = text, literal
	return err
}

// converse runs an agent, as [op.Parts] says.
func (d *Daemon) converse(ctx context.Context, m *op.Message, each func(agent.Event) error) (op.Answer, error) {
	return d.runMessage(ctx, requestOf(m), each)
}

// runMessage runs an agent. each, if it is not nil, receives agent.Start and the events of
// the run.
func (d *Daemon) runMessage(ctx context.Context, q *runRequest, each func(agent.Event) error) (a op.Answer, err error) {
	l, err := d.resolve(ctx, q)
	if err != nil {
		return a, err
	}
	run := &session.Run{Session: l, Content: q.Content, Sender: cmp.Or(q.Sender, l.CreatedBy()), Model: q.model, Tag: q.tag, Request: q.ID, After: q.after, Literal: q.literal}
	if each != nil {
		if err := d.loaded.Check(ctx, run); err != nil { // before the client receives an event
			d.loaded.Discard(l)
			return a, err
		}
		start := agent.Event{Kind: agent.Start, Agent: q.Agent, Session: l.StoredID(), Number: l.ID(), Model: q.model}
		if a := d.setupIn(l.Workspace()).agents[l.Agent()]; a != nil && q.model == "" {
			start.Model = a.Model
		}
		if err := each(start); err != nil {
			d.loaded.Discard(l)
			return a, err
		}
		run.Interactive = true
		run.Each = func(e agent.Event) error {
			if e.Kind == agent.Refused { // the result of the call says it
				return nil
			}
			return each(e)
		}
	}
	err = d.loaded.Run(ctx, run)
	return op.Answer{Agent: q.Agent, Content: run.Answer, Session: l.StoredID(), Number: l.ID(), Usage: run.Usage, Repeated: run.Repeated}, err
}

// listSessions sends what RFC 0018 has of the loaded sessions.
func (d *Daemon) listSessions(r *request) error {
	list := &pb.SessionList{}
	for _, l := range d.loaded.List() {
		list.Sessions = append(list.Sessions, &pb.SessionInfo{Id: l.ID(), Agent: l.Agent(), CreatedBy: l.CreatedBy(),
			MessageCount: uint64(l.Messages()), AliveSecs: uint64(l.Alive()), Active: l.Active(), Title: l.Title()})
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Sessions{Sessions: list}})
}

// killWait is how long kill waits for the run to end: a tool, or a client that
// does not read, may delay it.
const killWait = 10 * time.Second

// kill ends a session and its run. The file stays.
func (d *Daemon) kill(r *request, m *pb.KillMsg) error {
	id := m.GetSession()
	l, err := d.loaded.Get(id)
	if err != nil || !d.loaded.Kill(l) {
		return errtable.Errorf(http.StatusNotFound, "not_found", "session %d not found", id)
	}
	late := time.NewTimer(killWait)
	defer late.Stop()
	select {
	case <-l.Done():
	case <-late.C: // no request finds the session, and its run ends later
	case <-r.ctx.Done():
	}
	return r.pong()
}

// compact sends a summary of a session and changes nothing (RFC 0078).
func (d *Daemon) compact(r *request, session uint64) error {
	summary, err := op.Summarize.Do(r.ctx, op.Local{On: d.on(r)}, op.SessionNumber{Number: session})
	if err != nil {
		if _, ok := errors.AsType[*errtable.Error](err); ok {
			return err
		}
		return &errtable.Error{Kind: reported(err).Kind, Message: fmt.Sprintf("compact failed for session %d: %v", session, err), Err: err}
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Compact{Compact: &pb.CompactResponse{Summary: summary}}})
}
