package role

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"crabmem/bm25/clip"
	"crabmem/daemon/agent"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/session"
	"crabmem/daemon/trust"
	"crabmem/daemon/work"
	"crabmem/sessionlog/record"
)

// approver returns how the work asks its parent's user to approve a command, or nil. Only an
// admin can approve one.
func (w *running) approver() *session.Approver {
	if levelOf(w.r.o.Setup().Config.Origins, w.p.Meta().CreatedBy, w.grant.Sender) != trust.Admin || trust.IsCron(w.grant.Sender) {
		return nil
	}
	return &session.Approver{Name: w.ID, Ask: w.ask}
}

// ask asks about a call, and returns the answer, which then counts for no other call.
func (w *running) ask(ctx context.Context, question agent.Question, call string) (string, error) {
	q, err := w.Ask(record.Work{Text: question.Question, Call: call, Options: session.Labels(question.Options)})
	if err != nil {
		return "", err
	}
	w.waits(true)
	defer w.waits(false)
	if q.Answer == "" {
		w.p.publish(agent.WorkWaiting, w.ID, q.Text, w.ID+": "+q.Text)
	}
	late := w.r.wait(ctx, w.Question, q.N, w.r.left(q))
	if late != nil && ctx.Err() != nil {
		return "", fmt.Errorf("%w: the question stays open: call again", late)
	}
	answer, err := w.Use()
	if err != nil || answer != "" {
		return answer, err
	}
	w.p.publish(agent.Notice, w.ID, "", errNoAnswer.Error()+": "+display.Short(display.OneLine(q.Text), 200))
	return "", errNoAnswer
}

// waits notes whether a question is open. The work then makes no progress.
func (w *running) waits(open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asking, w.progress = open, w.r.o.Now()
}

var errNoAnswer = errors.New("no answer in time")

// wait waits until the n-th question has an answer or is closed.
func (r *Roles) wait(ctx context.Context, question func() *record.Work, n int, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errNoAnswer)
	defer cancel()
	for {
		r.mu.Lock()
		answered := r.answered
		r.mu.Unlock()
		if q := question(); q == nil || q.N != n || q.Answer != "" {
			return nil
		}
		select {
		case <-answered:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// left returns the time for an answer.
func (r *Roles) left(q *record.Work) time.Duration {
	at, _ := time.Parse(time.RFC3339, q.At) // no time left after an error
	return at.Add(r.o.Setup().Config.Roles.WaitingTimeout).Sub(r.o.Now())
}

// awaits reports whether a question is open and awaits an answer.
func (r *Roles) awaits(q *record.Work) bool { return q != nil && q.Answer == "" && r.left(q) > 0 }

// asks reports whether a session's questions to its user are durable.
func (r *Roles) asks(workspace, agent, createdBy string) bool {
	of, _ := r.setupOf(workspace).Config.Agent(agent)
	return of.Role != "" && !trust.Delegated(createdBy)
}

// AskUser asks a channel's user, as [session.Options] says. The answer is delivered to
// the session, also after the run.
func (r *Roles) AskUser(ctx context.Context, t *agent.Turn, questions []agent.Question) (result string, did bool, err error) {
	if t.Session.Log == nil || !r.asks(t.Session.Workspace, t.Agent.Name, t.Session.CreatedBy) {
		return "", false, nil
	}
	p, err := r.use(t.Session.Log.ID())
	if err != nil {
		return "", true, err
	}
	defer r.done(p)
	q, err := p.Ask(record.Work{To: t.Sender, Text: clip.Marked(questionText(questions), record.MaxQuestion)})
	if err != nil {
		return "", true, err
	}
	agent.Emit(ctx, agent.Event{Kind: agent.AskUser, Questions: questions})
	if err := r.wait(ctx, p.Question, q.N, r.o.Setup().Config.Ask.Timeout); err != nil {
		return "", true, fmt.Errorf("%w; the question stays open, and its answer comes as a message", err)
	}
	return "the answer is the next message", true, nil
}

// questionText returns questions with their options, a line each.
func questionText(questions []agent.Question) string {
	var texts []string
	for _, q := range questions {
		texts = append(texts, strings.Join(append([]string{q.Question}, session.Labels(q.Options)...), "; "))
	}
	return strings.Join(texts, "\n")
}

// mayAnswer returns an error unless an identity may answer a question. Each admin may answer one to
// the owner.
func (r *Roles) mayAnswer(by, to, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return errtable.Invalidf("the answer is empty")
	case to != "" && by != to && (strings.Contains(to, ":") || r.o.Setup().Config.Origins.Level(by) != trust.Admin):
		return &errtable.Error{HTTP: http.StatusForbidden, Kind: "scope", Exit: errtable.ExitPermission, Message: "the question is to " + to, Fix: "let " + to + " answer it"}
	}
	return nil
}

// Reply answers a loaded session's question, as Answer does.
func (r *Roles) Reply(ctx context.Context, number uint64, by, text string) error {
	if l, err := r.o.Sessions.Get(number); err == nil && r.asks(l.Workspace(), l.Agent(), l.CreatedBy()) {
		return r.Answer(l.StoredID(), "", by, text)
	}
	return r.o.Sessions.Reply(ctx, number, text)
}

// Answer answers, as an identity, a question of a session's work or of its run. If id is empty or as
// q2, it answers the session's question to its user. The home's owner has no name.
func (r *Roles) Answer(of, id, by, text string) error {
	for _, q := range r.o.Sessions.Asked() {
		if l, err := r.o.Sessions.Get(q.Session); q.ID != id || err != nil || l.StoredID() != of {
			continue
		}
		if err := r.mayAnswer(by, cmp.Or(q.To, "the owner"), text); err != nil || r.o.Sessions.ReplyTo(q, text) {
			return err
		}
	}
	p, err := r.use(of)
	if err != nil {
		return err
	}
	defer r.done(p)
	var asker interface {
		Question() *record.Work
		Decide(q *record.Work, text string) error
	} = p
	if id != "" && id[0] != 'q' {
		if asker, err = r.item(p, id); err != nil {
			return err
		}
	}
	q := asker.Question()
	if !r.awaits(q) || id != "" && asker == p && id != record.AskID(q.N) {
		return stateErr(of + "/" + id + " has no question")
	}
	if err := r.mayAnswer(by, q.To, text); err != nil {
		return err
	}
	if q.Options != nil {
		if text = session.Choose(strings.TrimSpace(text), q.Options); text == "" {
			return errtable.Invalidf("the answer is not one of the choices: want y, n, a number, or one of: %s", strings.Join(q.Options, "; "))
		}
	}
	if err := asker.Decide(q, text); errors.Is(err, work.ErrTransition) {
		return stateErr(of + "/" + id + " has no question")
	} else if err != nil {
		return err
	}
	r.mu.Lock()
	close(r.answered)
	r.answered = make(chan struct{})
	r.mu.Unlock()
	if asker == p {
		p.ended()
	}
	return nil
}
