package channel

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/box"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
	"crabmem/daemon/trust"
)

// How often the channel looks for the questions of work, in addition to each event of work.
const (
	openEvery = time.Minute // while one is open: another client may answer it
	workEvery = 10 * time.Minute
)

// isWork reports whether work asks: only a choice is an answer.
func isWork(q *box.Question) bool { return strings.HasPrefix(q.Work, "w") }

// isChoice reports whether the daemon may accept a text as the answer to a question of work.
func isChoice(q *box.Question, text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	n, err := strconv.Atoi(text)
	return err == nil && 1 <= n && n <= len(q.Labels) || slices.Contains([]string{"y", "yes", "n", "no", "a", "always"}, text) ||
		slices.ContainsFunc(q.Labels, func(label string) bool { return strings.EqualFold(label, text) })
}

// keptQuestion returns the daemon's ID of a run's question that stays open after the run, or "".
func (r *run) keptQuestion(ctx context.Context, seq uint64) (id string, err error) {
	open := false
	err = r.box.Update(r.conversation, func(f *box.File) bool {
		q := f.Question(seq)
		open = q != nil && (q.State == box.Asking || q.State == box.Asked)
		return false
	})
	if !open || err != nil {
		return "", err
	}
	list, err := r.workOf(ctx, op.WorkQuery{Session: r.session})
	for i := range list {
		if list[i].Kind == "question" && list[i].ID[0] == 'q' {
			id = list[i].ID
		}
	}
	return id, err
}

// workOf lists work and questions.
func (l *loop) workOf(ctx context.Context, query op.WorkQuery) ([]role.View, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	d, release := l.Daemon("")
	defer release()
	return op.ListWork.Do(ctx, d, query)
}

// answerWork sends the oldest answer to a question that the daemon stores. It returns false if
// there is no answer.
func (w *worker) answerWork() (did bool, err error) {
	var found box.Question
	err = w.box.Update(w.conversation, func(f *box.File) bool {
		if q := workAnswered(f); q != nil {
			found = *q
		}
		return false
	})
	if found.Seq == 0 || err != nil {
		return false, err
	}
	return w.deliver(found.Seq, func(answer string) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), replyTime)
		defer cancel()
		d, release := w.Daemon(identity(w.conversation))
		defer release()
		_, err := op.AnswerWork.Do(ctx, d, op.WorkAnswer{WorkID: op.WorkID{Session: found.Session, Work: found.Work}, Answer: answer})
		return err
	})
}

// workAnswered returns an open question of work that has an answer, or nil.
func workAnswered(f *box.File) *box.Question {
	for _, m := range f.Waiting[inTurn(f):] {
		if q := f.Question(m.Ask); q != nil && q.Work != "" && q.State != box.Closed {
			return q
		}
	}
	return nil
}

// followWork signals the events of work and of questions, and each lost connection, until ctx ends.
func (l *loop) followWork() {
	for wait := firstWait; l.ctx.Err() == nil; wait = min(2*wait, maxWait) {
		d, release := l.Daemon("")
		err := op.FollowEvents.Each(l.ctx, d, op.EventFilter{}, func(e agent.Event) error {
			wait = firstWait
			if e.Kind == agent.WorkWaiting || e.Kind == agent.WorkEnded || e.Kind == agent.AskUser {
				signal(l.worked)
			}
			return nil
		})
		release()
		l.Log.Debug("events of work end", "error", err)
		Pause(l.ctx, wait)
		signal(l.worked)
	}
}

// askForWork asks the questions of work, and closes those that have an answer, until ctx ends.
func (l *loop) askForWork() {
	for l.ctx.Err() == nil {
		every := workEvery
		if open, err := l.findQuestions(); open || err != nil {
			every = openEvery
			if err != nil {
				l.Log.Debug("questions of work", "error", err)
			}
		}
		pause(l.ctx, every, l.worked)
	}
}

// admins returns the private chats of users who are admins.
func (l *loop) admins() (list []string) {
	for _, id := range l.Allowed() {
		if l.Level(l.p.Prefix+id) == trust.Admin {
			list = append(list, l.p.Prefix+id)
		}
	}
	return list
}

// findQuestions compares the files' questions with the daemon's, and reports whether any of them is
// open. The admins receive all sessions' questions.
func (l *loop) findQuestions() (open bool, err error) {
	type place struct{ conversation, session string }
	places := make(map[place]bool)
	all, err := l.workOf(l.ctx, op.WorkQuery{Questions: true})
	if err != nil {
		return true, err
	}
	admins := l.admins()
	for i := range all {
		for _, c := range append(admins[:len(admins):len(admins)], l.box.Conversation(all[i].Session)) {
			if c != "" {
				places[place{c, all[i].Session}] = true
			}
		}
	}
	for _, c := range l.box.Waiting() {
		if err := l.box.Update(c, func(f *box.File) bool {
			for _, q := range f.Questions {
				if q.Work != "" && q.State != box.Closed {
					places[place{c, q.Session}] = true
				}
			}
			return false
		}); err != nil && !errors.Is(err, box.ErrCorrupt) { // its worker logs it
			return true, err
		}
	}
	for p := range places {
		list, err := l.workOf(l.ctx, op.WorkQuery{Session: p.session})
		if err != nil {
			return true, err
		}
		if err := l.compare(p.conversation, p.session, list); err != nil && !errors.Is(err, box.ErrCorrupt) {
			return true, err
		}
	}
	return len(places) > 0, nil
}

// compare asks a session's open questions that a conversation's file does not contain, and closes
// questions that the daemon does not list. In the session's own conversation, the run asks the
// session's questions. In another conversation, compare also asks those to the owner.
func (l *loop) compare(conversation, session string, list []role.View) error {
	changed, other := false, l.box.Conversation(session) != conversation
	err := l.box.Update(conversation, func(f *box.File) bool {
		found := func(work, sum string) bool {
			return slices.ContainsFunc(f.Questions, func(q box.Question) bool { return q.Session == session && q.Work == work && q.Sum == sum })
		}
		for i := range f.Questions {
			q := &f.Questions[i]
			if q.Session == session && q.Work != "" && q.State != box.Closed && q.State != box.Answering && !slices.ContainsFunc(list, func(v role.View) bool {
				text, _ := workQuestion(&v, other)
				return v.ID == q.Work && v.Question != "" && (!isWork(q) || q.Sum == digest(text))
			}) {
				l.close(f, q)
				changed = true
			}
		}
		for i := range list {
			v := &list[i]
			asks := v.Question != "" && (v.Kind != "question" || other && !strings.Contains(v.To, ":"))
			if text, labels := workQuestion(v, other); asks && len(f.Questions) < maxQuestions && !found(v.ID, digest(text)) {
				l.ask(f, text, box.Question{Sum: digest(text), Labels: labels, Session: session, Work: v.ID, Other: other})
				changed = true
			}
		}
		return changed
	})
	if changed {
		l.wake(conversation, false)
	}
	return err
}

// workQuestion returns a question's text and its buttons' labels. other is set if the session
// belongs to another conversation.
func workQuestion(v *role.View, other bool) (text string, labels []string) {
	q := agent.Question{Question: v.Question}
	for _, label := range v.Options {
		q.Options = append(q.Options, agent.Option{Label: label})
	}
	text, labels = question([]agent.Question{q})
	if other {
		text = "In the session " + v.Session + ": " + strings.TrimSuffix(text, pressHint) + replyHint
	}
	return text, labels
}
