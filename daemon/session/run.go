package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/tool"
	"crabmem/daemon/usage"
	"crabmem/sessionlog"
)

// Run is a run of a session's agent. Run sets Answer and Usage.
type Run struct {
	Session         *Session
	Content, Sender string
	Model           string                  // empty: the agent's
	Tag             string                  // names the request in events
	Request         string                  // ID of the client's request; empty: none
	After           string                  // ID of the request of the newest turn; empty: any
	Interactive     bool                    // the client can answer ask_user
	AnyCommand      bool                    // no command needs approval
	Literal         bool                    // Content names no skill
	Timeout         time.Duration           // of the run; 0: the limit from the agent's role
	Each            func(agent.Event) error // its error ends the run; nil: no call

	// Begin, if set, adds the message that begins the run to the session and its log, in
	// place of Content. It returns false if the model is not to be called. Only Begin
	// can begin a run in a session that does work.
	Begin    func(*agent.Session) (bool, error)
	Approver *Approver          // of the commands; nil: the run's client
	Bound    *tool.Scope        // limits the run and its work, in addition to the identities; nil: no limit
	Adapt    func(*agent.Agent) // changes the run's copy of the agent; nil: no change

	depth     int // of delegations
	cancelled bool

	Answer   string
	Usage    agent.TokenUsage
	Repeated bool // an earlier run gave Answer
}

// Run waits for the run slot and runs the session's agent. The run ends with
// ctx, [Session.Cancel], or [Manager.Kill]; the session stores its output so far.
// If the run ends without an answer, Run returns an error, logs it, and adds a failure
// to the session.
func (m *Manager) Run(ctx context.Context, r *Run) error {
	err := m.run(ctx, r)
	if err != nil {
		if usage.Refused(err) == nil { // admit reports limits
			m.report(r.Session, m.kind(err, r.cancelled || ctx.Err() != nil), err)
		}
		m.Discard(r.Session)
	}
	return err
}

func (m *Manager) run(ctx context.Context, r *Run) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx = context.WithValue(ctx, interactiveKey{}, r.Interactive)
	ctx = context.WithValue(ctx, senderKey{}, r.Sender)
	if r.depth == 0 {
		ctx = context.WithValue(ctx, tasksKey{}, new(atomic.Int32))
		ctx = context.WithValue(ctx, anyCommandKey{}, r.AnyCommand)
		ctx = context.WithValue(ctx, missedKey{}, new(atomic.Bool))
	}
	l := r.Session
	if a := r.Approver; a != nil {
		ctx = context.WithValue(ctx, personKey{}, &person{session: l.id, ctx: ctx, turn: make(chan struct{}, 1), approver: a})
	}
	if l.work && r.Begin == nil {
		return l.errWork()
	}
	ctx = usage.With(ctx, l.agent, r.Sender)
	dir, err := m.acquire(ctx, l, cancel)
	if err != nil {
		return err
	}
	began := m.o.Now()
	defer func() {
		if usage.Refused(err) == nil {
			m.o.Ran(m.o.Now().Sub(began))
		}
		m.end(l, began, err)
	}()
	s, err := m.setup(l.workspace)
	if err != nil {
		return err
	}
	a, ok := s.Agents[l.agent]
	if !ok {
		return notRegistered(l.agent)
	}
	if err := m.load(l); err != nil {
		return err
	}
	if err := m.admit(ctx, r, true); err != nil {
		return err
	}
	other := *a
	a = &other
	if dir == "" {
		dir = m.o.Dir
	}
	m.recordEarlier(l)
	l.session.Dir, l.session.Scope = dir, m.Scope(l, r.Sender)
	if r.Bound != nil {
		l.session.Scope = l.session.Scope.Intersect(*r.Bound)
	}
	l.session.Results = m.results(l.StoredID())
	if r.Begin == nil {
		m.titleEmpty(l, r.Content)
	} else if run, err := r.Begin(l.session); err != nil || !run || !l.session.Unanswered() {
		return err
	}
	limit := r.Timeout
	if m.o.Role != nil {
		if of := m.o.Role(a, l.session, r.Sender); limit == 0 || of > 0 && of < limit {
			limit = of
		}
	}
	if limit > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("the run took longer than %s", limit))
		defer cancel()
	}
	if r.Adapt != nil {
		r.Adapt(a)
	}
	a.Model = cmp.Or(r.Model, a.Model)
	var broken error
	for e, err := range s.Runner.Run(ctx, a, l.session, agent.Input{Content: r.Content, Sender: r.Sender, Tag: r.Tag, Request: r.Request, After: r.After, Literal: r.Literal, Depth: r.depth, Stored: r.Begin != nil}) {
		switch e.Kind {
		case agent.User:
			r.Repeated = e.Repeated
		case agent.Usage:
			r.Usage.Add(e.Usage)
		case agent.Done:
			if r.Answer = e.Content; err != nil {
				r.cancelled = e.Stop == agent.Cancelled
				if !errors.Is(err, agent.ErrRequest) && !errors.Is(err, agent.ErrContinued) { // no turn failed
					m.recordFailure(l, m.kind(err, r.cancelled), err)
				}
			} else if !r.Repeated && r.Begin == nil {
				m.titleByModel(s, a, r)
			}
			return err
		}
		if r.Each != nil {
			if broken = r.Each(e); broken != nil {
				break // ends the run, which spends no more tokens
			}
		}
	}
	r.cancelled = true
	if l.session.Stop != agent.Answered { // else the client missed only the end
		m.recordFailure(l, m.kind(broken, true), broken)
	}
	return broken
}

// errWork returns the error for a run in a session that does work, which only the session
// that gave it out begins.
func (l *Session) errWork() error {
	return &errtable.Error{HTTP: http.StatusConflict, Kind: "invalid", Message: "session " + l.StoredID() + " does work of another session", Fix: "crabmem work route sends it a message"}
}

// acquire waits for the run slot and makes cancel the way to end the run. end
// releases the slot. It returns the session's working directory.
func (m *Manager) acquire(ctx context.Context, l *Session, cancel context.CancelCauseFunc) (dir string, err error) {
	l.waiting.Add(1)
	err = l.slot.Acquire(ctx, 1)
	l.waiting.Add(-1)
	if err != nil {
		// Acquire may have released the slot after the kill.
		m.closeKilled(l)
		return "", context.Cause(ctx)
	}
	l.mu.Lock()
	killed := l.killed
	if killed == nil {
		l.cancel, dir = cancel, l.dir
	}
	l.mu.Unlock()
	if killed != nil {
		m.release(l)
		return "", killed
	}
	return dir, nil
}

// end releases the run slot and updates the counters of the session. After a
// failed write it unloads the history, which may differ from the file.
func (m *Manager) end(l *Session, began time.Time, err error) {
	l.alive.Add(int64(m.o.Now().Sub(began) / time.Second))
	m.hold(l, l.session)
	l.unused = l.unused && l.messages.Load() == 0
	for _, lost := range unwritten {
		if errors.Is(err, lost) {
			m.hold(l, nil)
			break
		}
	}
	l.mu.Lock()
	l.cancel = nil
	l.mu.Unlock()
	if errors.Is(err, sessionlog.ErrUnknown) || errors.Is(err, sessionlog.ErrStopped) {
		// The log is stopped. The next request opens another.
		l.kill(errLogStopped)
	}
	m.release(l)
	m.evictIdle()
}

var unwritten = []error{sessionlog.ErrNotApplied, sessionlog.ErrUnknown, sessionlog.ErrStopped, sessionlog.ErrClosed, sessionlog.ErrInvalid}

// release releases the run slot.
func (m *Manager) release(l *Session) {
	l.slot.Release(1)
	// A later kill finds the slot free. An earlier one left the file to us.
	m.closeKilled(l)
}

// With calls f with the history of a session as a run: it holds the run slot,
// and Cancel and Kill end its context.
func (m *Manager) With(ctx context.Context, id uint64, f func(context.Context, Setup, *agent.Agent, *agent.Session) error) (err error) {
	l, err := m.Get(id)
	if err == nil && l.work {
		err = l.errWork()
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if _, err := m.acquire(ctx, l, cancel); err != nil {
		return err
	}
	began := m.o.Now()
	defer func() { m.end(l, began, err) }()
	s, err := m.setup(l.workspace)
	if err != nil {
		return err
	}
	a, ok := s.Agents[l.agent]
	if !ok {
		return notRegistered(l.agent)
	}
	if err := m.load(l); err != nil {
		return err
	}
	l.session.Scope = m.Scope(l, l.createdBy)
	ctx = usage.With(ctx, l.agent, l.createdBy)
	if err := m.admit(ctx, &Run{Session: l}, false); err != nil {
		return err
	}
	return f(ctx, s, a, l.session)
}
