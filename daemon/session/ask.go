package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
)

// asks contains the questions that await a reply, one per session. A reload
// keeps them.
type asks struct {
	mu      sync.Mutex
	pending map[uint64]*ask
	changed chan struct{} // closed and replaced when one is added
	// approved contains the prefixes and the commands that the user approved for a
	// session, by session.
	approved map[uint64][]string
}

type ask struct {
	Asked
	reply chan string // closed when another question replaces it
}

// Asked is a run's question that awaits a reply.
type Asked struct {
	ID        string // unique, begins with a
	Session   uint64
	To        string           // identity of another service; empty: the home's owner
	Questions []agent.Question // nil: another package stores the question
}

// begin returns a new question in a session and cancels the pending one.
func (a *asks) begin(session uint64) *ask {
	q := &ask{Asked: Asked{ID: "a" + rand.Text(), Session: session}, reply: make(chan string, 1)}
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.pending[session]; old != nil {
		close(old.reply)
	}
	a.pending[session] = q
	close(a.changed)
	a.changed = make(chan struct{})
	return q
}

// end removes the question if it is pending.
func (a *asks) end(session uint64, q *ask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending[session] == q {
		delete(a.pending, session)
	}
}

func (a *asks) waiting(session uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pending[session] != nil
}

// cancel cancels the pending question of a killed session, and removes the session's
// approvals.
func (a *asks) cancel(session uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.approved, session)
	if q := a.pending[session]; q != nil {
		delete(a.pending, session)
		close(q.reply)
	}
}

// replyWait is how long a reply waits for its question: a client may receive the
// call before the tool runs.
const replyWait = 100 * time.Millisecond

// answer sends a reply to the question of a session. It returns a not_found
// error if none is pending within replyWait.
func (a *asks) answer(ctx context.Context, session uint64, reply string) error {
	wait := time.After(replyWait)
	for {
		a.mu.Lock()
		q := a.pending[session]
		if q != nil {
			a.close(q, reply)
			a.mu.Unlock()
			return nil
		}
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-wait:
			return errtable.Errorf(404, "not_found", "no pending ask_user for session %d", session)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// close closes a question with its reply. The caller holds mu.
func (a *asks) close(q *ask, reply string) {
	delete(a.pending, q.Session)
	q.reply <- reply // does not block: capacity 1, first send
}

// Asked returns runs' questions that await a reply.
func (m *Manager) Asked() (list []Asked) {
	m.asks.mu.Lock()
	defer m.asks.mu.Unlock()
	for _, q := range m.asks.pending {
		if q.Questions != nil {
			list = append(list, q.Asked)
		}
	}
	return list
}

// ReplyTo answers a question that Asked returned. It returns false if the question is closed.
func (m *Manager) ReplyTo(q Asked, reply string) bool {
	m.asks.mu.Lock()
	defer m.asks.mu.Unlock()
	open := m.asks.pending[q.Session]
	if open == nil || open.ID != q.ID {
		return false
	}
	m.asks.close(open, reply)
	return true
}

// Asking reports whether a question in a session awaits a reply.
func (m *Manager) Asking(session uint64) bool { return m.asks.waiting(session) }

// Reply answers the question of a session.
func (m *Manager) Reply(ctx context.Context, session uint64, reply string) error {
	return m.asks.answer(ctx, session, reply)
}

// Tools returns ask_user and delegate.
func (m *Manager) Tools() []tool.Tool { return []tool.Tool{m.askTool(), m.delegateTool()} }

type askArgs struct {
	Questions []agent.Question `json:"questions" jsonschema:"the questions; the user sees all of them together"`
}

// interactiveKey is the context key of Run.Interactive.
type interactiveKey struct{}

const maxQuestions = 32

// askTool returns ask_user, whose result is the client's reply verbatim.
func (m *Manager) askTool() tool.Tool {
	return tool.New(tool.AskUser, "Ask the user, and wait for the reply. Only for what you cannot find out yourself.",
		func(ctx context.Context, c tool.Call, args askArgs) (string, error) {
			switch {
			case ctx.Value(interactiveKey{}) != true:
				return "", errors.New("ask_user is only available in streaming mode")
			case len(args.Questions) == 0 || len(args.Questions) > maxQuestions:
				return "", fmt.Errorf("invalid arguments: want 1 to %d questions", maxQuestions)
			}
			if c.Scope.TextOnly {
				for i := range args.Questions {
					args.Questions[i].Options, args.Questions[i].MultiSelect = nil, false
				}
			}
			return m.ask(ctx, &person{session: c.Session, ctx: ctx}, args.Questions)
		})
}

// remoteIdentity returns the identity of another service that takes part in a run, or "".
func (m *Manager) remoteIdentity(ctx context.Context, session uint64) string {
	var ids []string
	if t := agent.TurnOf(ctx); t != nil {
		ids = append(ids, t.Sender)
	}
	if l, err := m.Get(session); err == nil {
		ids = append(ids, l.CreatedBy())
	}
	for _, id := range ids {
		if id = trust.Origin(id); strings.Contains(id, ":") {
			return id
		}
	}
	return ""
}

// missedKey is the context key of an *atomic.Bool of a run and its tasks, which is true
// after a question without a reply.
type missedKey struct{}

// ask sends questions to a person and waits for the reply. After a question without a
// reply, a run has no further one: its client may still show the earlier question, and
// the late reply would answer the new one.
func (m *Manager) ask(ctx context.Context, p *person, questions []agent.Question) (string, error) {
	missed, ok := ctx.Value(missedKey{}).(*atomic.Bool)
	if !ok {
		missed = new(atomic.Bool)
	}
	if missed.Load() {
		return "", errors.New("an earlier question of this run got no reply")
	}
	for i := range questions {
		if questions[i].Options == nil {
			questions[i].Options = []agent.Option{} // clients get a list
		}
	}
	if a := p.approver; a != nil {
		reply, err := a.Ask(ctx, questions[0], p.call)
		missed.Store(err != nil)
		return reply, err
	}
	q := m.asks.begin(p.session)
	defer m.asks.end(p.session, q)
	if t := agent.TurnOf(ctx); t != nil && p.turn == nil && m.o.AskUser != nil {
		if result, did, err := m.o.AskUser(ctx, t, questions); did {
			missed.Store(err != nil)
			return result, err
		}
	}
	m.asks.mu.Lock()
	q.Questions, q.To = questions, m.remoteIdentity(ctx, p.session)
	m.asks.mu.Unlock()
	agent.Emit(p.ctx, agent.Event{Kind: agent.AskUser, Questions: questions})
	timeout := m.o.Setup().Config.Ask.Timeout
	var why error
	select {
	case reply, ok := <-q.reply:
		if ok {
			return reply, nil
		}
		return "", errors.New("ask_user cancelled: reply channel closed")
	case <-time.After(timeout):
		headers := make([]string, len(questions))
		for i, question := range questions {
			headers[i] = question.Header
		}
		why = fmt.Errorf("ask_user timed out after %ds: no reply received for: %s", int(timeout.Seconds()), strings.Join(headers, "; "))
	case <-ctx.Done():
		why = errors.New("ask_user cancelled: the run ended")
	}
	m.asks.end(p.session, q)
	select {
	case reply, ok := <-q.reply: // its sender has an acknowledgment
		if ok {
			return reply, nil
		}
	default:
	}
	missed.Store(true)
	return "", why
}
