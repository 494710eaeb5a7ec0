package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/wire/pb"
)

// begin is what a request to run an agent says, of both kinds.
type begin struct {
	agent, content, sender string
	session                *uint64
	cwd, resume, model     *string
	newChat                bool
}

func sendBegin(m *pb.SendMsg) *begin {
	return &begin{m.Agent, m.Content, m.GetSender(), m.Session, m.Cwd, m.ResumeFile, m.Model, m.NewChat}
}

func streamBegin(m *pb.StreamMsg) *begin {
	return &begin{m.Agent, m.Content, m.GetSender(), m.Session, m.Cwd, m.ResumeFile, m.Model, m.NewChat}
}

// prepare finds the session. The agent that nobody names is the session's or,
// where that is not named either, crab.
func (d *Daemon) prepare(ctx context.Context, q *begin) (*live, error) {
	named := q.agent != ""
	if !named {
		q.agent = config.Crab
	}
	l, err := d.resolve(ctx, q)
	if err == nil && !named {
		q.agent = l.agent
	}
	return l, err
}

// run is one run of a session's agent, and what came of it.
type run struct {
	live    *live
	content string
	sender  string
	model   string // "" is the agent's
	depth   int
	each    func(agent.Event) error // its error ends the run; nil = nobody looks

	answer string
	usage  agent.TokenUsage
}

// run waits for the session's turn and runs its agent. It ends with ctx, on
// request, and when the session is killed; what was produced until then is in
// the session.
func (d *Daemon) run(ctx context.Context, r *run) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.depth == 0 {
		ctx = context.WithValue(ctx, tasksKey{}, new(atomic.Int32))
	}
	l := r.live
	dir, err := d.begin(ctx, l, cancel)
	if err != nil {
		return err
	}
	began := d.now()
	defer func() {
		d.metrics.ran(d.now().Sub(began))
		d.end(l, began, err)
	}()
	s := d.setup()
	a, ok := s.agents[l.agent]
	if !ok {
		return notRegistered(l.agent)
	}
	if err := d.load(l); err != nil {
		return err
	}
	if r.model != "" {
		other := *a
		other.Model = r.model
		a = &other
	}
	if dir == "" {
		dir = d.dir
	}
	l.session.Dir, l.session.Scope = dir, l.scope
	if remote(r.sender) {
		l.session.Scope = l.session.Scope.Remote()
	}
	var broken error
	for e, err := range s.runner.Run(ctx, a, l.session, agent.Input{Content: r.content, Sender: r.sender, Depth: r.depth}) {
		switch e.Kind {
		case agent.Usage:
			r.usage.Prompt += e.Usage.Prompt
			r.usage.Completion += e.Usage.Completion
			r.usage.Limit = e.Usage.Limit
			r.usage.Estimated = r.usage.Estimated || e.Usage.Estimated
		case agent.Done:
			r.answer = e.Text
			return err
		}
		if r.each != nil {
			if broken = r.each(e); broken != nil {
				break // the client has gone: this ends the run, which spends no more tokens
			}
		}
	}
	return broken
}

// send runs an agent and answers with what it said.
func (d *Daemon) send(r *request, m *pb.SendMsg) error {
	q := sendBegin(m)
	l, err := d.prepare(r.ctx, q)
	if err != nil {
		return err
	}
	run := run{live: l, content: q.content, sender: q.by(l), model: m.GetModel()}
	if err := d.run(r.ctx, &run); err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Response{Response: &pb.SendResponse{
		Agent: q.agent, Content: run.answer, Session: l.id, StoredId: l.log.ID(), Usage: usage(run.usage)}}})
}

// by is who sends: somebody of the session, where nothing is said.
func (q *begin) by(l *live) string {
	if q.sender == "" {
		return l.createdBy
	}
	return q.sender
}

// stream runs an agent and shows what happens. An end comes only after the
// transcript is on the disk.
func (d *Daemon) stream(r *request, m *pb.StreamMsg) error {
	q := streamBegin(m)
	l, err := d.prepare(r.ctx, q)
	event := func(e *pb.StreamEvent) error {
		return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Stream{Stream: e}})
	}
	start := &pb.StreamStart{Agent: q.agent}
	end := func(err error) error {
		e := &pb.StreamEnd{Agent: q.agent}
		if err != nil {
			m := message(err)
			e.Error = m.Message
			if err := event(&pb.StreamEvent{Event: &pb.StreamEvent_Error{Error: m}}); err != nil {
				return err
			}
		}
		return event(&pb.StreamEvent{Event: &pb.StreamEvent_End{End: e}})
	}
	if err != nil {
		if q.session == nil {
			return err
		}
		start.Session = *q.session
		return errors.Join(event(&pb.StreamEvent{Event: &pb.StreamEvent_Start{Start: start}}), end(err))
	}
	start.Session, start.StoredId = l.id, l.log.ID()
	if a := d.setup().agents[l.agent]; a != nil {
		start.Model = a.Model
	}
	if m.GetModel() != "" {
		start.Model = m.GetModel()
	}
	if err := event(&pb.StreamEvent{Event: &pb.StreamEvent_Start{Start: start}}); err != nil {
		return err
	}
	run := run{live: l, content: q.content, sender: q.by(l), model: m.GetModel(), each: func(e agent.Event) error {
		if s := streamEvent(e); s != nil {
			return event(s)
		}
		return nil
	}}
	return end(d.run(context.WithValue(r.ctx, streamingKey{}, true), &run))
}

// listSessions never waits for a run.
func (d *Daemon) listSessions(r *request) error {
	list := &pb.SessionList{}
	for _, l := range d.live.list() {
		info := &pb.SessionInfo{
			Id: l.id, Agent: l.agent, CreatedBy: l.createdBy, MessageCount: uint64(l.messages.Load()), AliveSecs: uint64(l.alive.Load()),
			Active: l.active(), Title: *l.title.Load(), StoredId: l.log.ID(), Waiting: uint64(l.waiting.Load()), Asking: d.asks.waiting(l.id),
		}
		if a := d.setup().agents[l.agent]; a != nil {
			info.Model = a.Model
		}
		list.Sessions = append(list.Sessions, info)
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Sessions{Sessions: list}})
}

// killWait is how long a kill waits for the run to end: a tool, or a client that
// does not read, may keep it for a while.
const killWait = 10 * time.Second

// kill ends a session: its run too. Its file stays.
func (d *Daemon) kill(r *request, id uint64) error {
	l, err := d.live.get(id)
	if err != nil || !d.drop(l) {
		return refuse(404, "not_found", "session %d not found", id)
	}
	late := time.NewTimer(killWait)
	defer late.Stop()
	select {
	case <-l.gone:
	case <-late.C: // nobody finds the session any more, and its run ends yet
	case <-r.ctx.Done():
	}
	return r.pong()
}

// cancel ends the run of a session.
func (d *Daemon) cancel(r *request, id uint64) error {
	l, err := d.live.get(id)
	if err != nil {
		return refuse(404, "not_found", "session %d not found", id)
	}
	l.stop(errCancelled)
	return r.pong()
}

// compactOnce answers with a summary and changes nothing (RFC 0078).
func (d *Daemon) compactOnce(r *request, m *pb.CompactMsg) error {
	var summary string
	err := d.withSession(r.ctx, m.Session, func(ctx context.Context, s *setup, a *agent.Agent, l *live) (err error) {
		summary, err = s.runner.Summarize(ctx, a, l.session, agent.CompactOptions{})
		return err
	})
	if err != nil {
		if _, ok := errors.AsType[*failure](err); ok {
			return err
		}
		return &failure{code: 500, kind: message(err).Kind, text: "compact failed for session " + utoa(m.Session), err: err}
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Compact{Compact: &pb.CompactResponse{Summary: summary}}})
}

// compactSession puts a summary in the place of the history.
func (d *Daemon) compactSession(r *request, m *pb.CompactSessionMsg) error {
	reply := &pb.CompactSessionReply{}
	l, err := d.named(r.ctx, m.Session, m.Id)
	if err != nil {
		return err
	}
	err = d.withSession(r.ctx, l.id, func(ctx context.Context, s *setup, a *agent.Agent, l *live) (err error) {
		o := agent.CompactOptions{Focus: m.Focus, Tokens: int(m.Size)}
		reply.TokensBefore = uint64(agent.Estimate(l.session.Messages))
		reply.Summary, reply.Archive, err = s.runner.Compact(ctx, a, l.session, o)
		if reply.Summary == "" {
			return err
		}
		if err != nil {
			d.log.Warn("a summary is not in the store yet", "session", l.log.ID(), "error", err)
		}
		reply.TokensAfter = uint64(agent.Estimate(l.session.Messages))
		d.publish(&agent.Turn{Agent: a, Session: l.session}, agent.Event{Kind: agent.Compacted, Text: reply.Summary, Archive: reply.Archive})
		return nil
	})
	if err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Compacted{Compacted: reply}})
}

// named returns the session that a request names: by its number or, when that
// is given, by its file, which is resumed.
func (d *Daemon) named(ctx context.Context, number uint64, stored string) (*live, error) {
	if stored == "" {
		return d.live.get(number)
	}
	id, err := d.storedID(stored)
	if err != nil {
		return nil, err
	}
	return d.open(ctx, id, "")
}

// withSession runs f when it is the session's turn, as a run.
func (d *Daemon) withSession(ctx context.Context, id uint64, f func(context.Context, *setup, *agent.Agent, *live) error) (err error) {
	l, err := d.live.get(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if _, err := d.begin(ctx, l, cancel); err != nil {
		return err
	}
	began := d.now()
	defer func() { d.end(l, began, err) }()
	s := d.setup()
	a, ok := s.agents[l.agent]
	if !ok {
		return notRegistered(l.agent)
	}
	if err := d.load(l); err != nil {
		return err
	}
	return f(ctx, s, a, l)
}
