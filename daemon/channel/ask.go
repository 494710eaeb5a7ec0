package channel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"crabmem/bm25/clip"
	"crabmem/daemon/agent"
	"crabmem/daemon/box"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
)

// The limits of questions.
const (
	maxButtons   = 12
	maxLabel     = 60  // bytes of a button's label
	maxQuestions = 16  // of a conversation; the one of a run is asked in addition
	maxReplies   = 100 // of one run before its end
	replyTime    = 10 * time.Second
)

// Button is a choice below a text.
type Button struct {
	Label string
	Data  string // identifies the choice; at most 32 bytes
}

// buttonsOf returns a question's buttons.
func buttonsOf(q *box.Question) (list []Button) {
	for i, label := range q.Labels {
		list = append(list, Button{fmt.Sprintf("%d. %s", i+1, clip.Bytes(display.OneLine(label), maxLabel)), fmt.Sprintf("%d.%d", q.Seq, i+1)})
	}
	return list
}

// How a person answers.
const (
	pressHint = "\n\nPress a button, or answer with a number."
	replyHint = "\n\nPress a button, or reply to this message."
)

// question returns the text of questions, and the labels of their buttons. Only a single question
// with a single choice has buttons.
func question(list []agent.Question) (text string, labels []string) {
	var b strings.Builder
	for i, q := range list {
		if i > 0 {
			b.WriteString("\n\n")
		}
		if len(list) > 1 {
			fmt.Fprintf(&b, "%d/%d ", i+1, len(list))
		}
		b.WriteString(strings.TrimSpace(q.Question))
		for j, o := range q.Options {
			fmt.Fprintf(&b, "\n%d. %s", j+1, o.Label)
			if o.Description != "" {
				b.WriteString(" - " + o.Description)
			}
		}
	}
	switch q := list[0]; {
	case len(list) > 1:
		b.WriteString("\n\nAnswer the questions in one message.")
	case len(q.Options) > 0 && !q.MultiSelect && len(q.Options) <= maxButtons:
		for _, o := range q.Options {
			labels = append(labels, o.Label)
		}
		b.WriteString(pressHint)
	}
	return b.String(), labels
}

// asked stores a run's question, and the parts that ask it. A run that continues a turn may
// repeat an earlier run's open question: the earlier message and answer count.
func (r *run) asked(list []agent.Question) error {
	if len(list) == 0 {
		return nil
	}
	text, labels := question(list)
	sum := digest(text)
	r.replying.Lock()
	defer r.replying.Unlock()
	err := r.box.Update(r.conversation, func(f *box.File) bool {
		for i := range f.Questions {
			switch q := &f.Questions[i]; {
			case q.Turn != r.turn.IDs[0] || q.State == box.Closed:
			case q.Sum == sum && q.Seq != r.question.Load():
				r.question.Store(q.Seq)
				q.Work = ""
				return true
			default:
				r.close(f, q)
			}
		}
		r.endText(f)
		q := box.Question{Turn: r.turn.IDs[0], Sum: sum, Labels: labels}
		if i := slices.IndexFunc(f.Waiting, func(m box.Message) bool { return m.ID == q.Turn }); i >= 0 && list[0].Header != agent.RunCommand {
			q.By, q.Name = f.Waiting[i].Sender, f.Waiting[i].Name
		}
		r.ask(f, text, q)
		r.question.Store(f.Last)
		return true
	})
	r.signal()
	return err
}

// sendEarly stores a text that the agent sends before the run ends. A run that continues a turn
// may send it again.
func (r *run) sendEarly(text string) error {
	err := r.box.Update(r.conversation, func(f *box.File) bool {
		if sum := digest(text); len(f.Replies) < maxReplies && !slices.Contains(f.Replies, sum) {
			r.endText(f)
			f.Replies = append(f.Replies, sum)
			r.add(f, r.turn.IDs[0], box.Reply, text)
			return true
		}
		return false
	})
	r.signal()
	return err
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// ask adds a question and its parts.
func (l *loop) ask(f *box.File, text string, q box.Question) {
	l.add(f, q.Turn, box.Asks, text)
	q.Seq, q.State = f.Last, box.Asking
	f.Questions = append(f.Questions, q)
	if i := slices.IndexFunc(f.Questions, func(q box.Question) bool { return q.State == box.Closed }); i >= 0 && len(f.Questions) > maxQuestions {
		f.Questions = slices.Delete(f.Questions, i, i+1)
	}
}

// close closes a question. If its answer is late or uncertain, close adds a notice.
func (l *loop) close(f *box.File, q *box.Question) {
	if uncertain := q.State == box.Answering; f.Close(q) {
		text := "The question is closed: this answer was too late."
		if uncertain {
			text = "The agent may not have this answer: its delivery was not confirmed."
		}
		l.notice(f, q.Turn, text)
	}
}

// closeAsked closes a run's question, unless the daemon keeps it open.
func (r *run) closeAsked(ctx context.Context) error {
	r.replying.Lock()
	defer r.replying.Unlock()
	seq := r.question.Swap(0)
	if seq == 0 {
		return nil
	}
	work, err := r.keptQuestion(ctx, seq)
	if err != nil {
		return err
	}
	err = r.box.Update(r.conversation, func(f *box.File) bool {
		q := f.Question(seq)
		switch {
		case q == nil || q.State == box.Closed:
			return false
		case work != "":
			q.Session, q.Work = r.session, work
		default:
			r.close(f, q)
		}
		return true
	})
	r.signal()
	return err
}

// unbutton closes the questions of turns that have ended, and removes the buttons of the oldest
// closed question, and the question. It returns false if all questions are open.
func (w *worker) unbutton() (did bool, err error) {
	var closed *box.Question
	err = w.box.Update(w.conversation, func(f *box.File) (changed bool) {
		for i := range f.Questions {
			q := &f.Questions[i]
			if q.Work == "" && q.State != box.Closed && (f.Turn == nil || f.Turn.IDs[0] != q.Turn) {
				w.close(f, q)
				changed = true
			}
			if q.State == box.Closed && closed == nil {
				found := *q
				closed = &found
			}
		}
		return changed
	})
	if closed == nil || err != nil {
		return false, err
	}
	if closed.Remote != "" && len(closed.Labels) > 0 {
		err := w.p.Unbutton(context.WithoutCancel(w.ctx), w.conversation, closed.Remote) // Unbutton has a limit
		if failed, ok := errors.AsType[*SendError](err); ok && failed.Retry {
			if failed.After > 0 {
				Pause(w.ctx, failed.After)
				return true, nil
			}
			return true, err
		}
		if err != nil {
			w.Log.Warn("the buttons of a closed question remain", "conversation", w.conversation, "error", err)
		}
	}
	return true, w.box.Update(w.conversation, func(f *box.File) bool {
		f.Questions = slices.DeleteFunc(f.Questions, func(q box.Question) bool { return q.Seq == closed.Seq })
		return true
	})
}

// reply sends the answer to the run's question to the daemon. It returns false if there is no
// answer.
func (r *run) reply(ctx context.Context) (did bool, err error) {
	r.replying.Lock()
	defer r.replying.Unlock()
	return r.deliver(r.question.Load(), func(answer string) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replyTime)
		defer cancel()
		_, err := op.ReplyToRun.Do(ctx, r.caller, op.Reply{Number: r.number.Load(), Content: answer})
		return err
	})
}

// deliver calls send with the oldest answer to a question, and closes the question. It returns
// false if there is no answer.
func (w *worker) deliver(seq uint64, send func(answer string) error) (did bool, err error) {
	answer, again, err := w.claimAnswer(seq)
	if answer == "" || err != nil {
		return false, err
	}
	err = send(answer)
	if err != nil && !isClosed(err) {
		return true, err
	}
	if err != nil {
		w.Log.Warn("an answer was refused", "conversation", w.conversation, "error", err)
	}
	return true, w.box.Update(w.conversation, func(f *box.File) bool {
		q := f.Question(seq)
		if q == nil {
			return false
		}
		if i := answerTo(f, seq); i >= 0 && err == nil {
			f.EndOne(i)
		}
		if err == nil || !again {
			q.State = box.Asked // it is certain whether the agent has the answer
		}
		w.close(f, q)
		return true
	})
}

// isClosed reports whether the daemon refused an answer because no question awaits it.
func isClosed(err error) bool {
	status, row := client.StatusOf(err)
	return status == http.StatusBadRequest || status == http.StatusForbidden || status == http.StatusNotFound || row.Kind == "conflict"
}

// claimAnswer returns the oldest answer to an open question, or "", after it stored that the
// answer is sent now. again is set if it was sent already, with an unknown outcome.
func (w *worker) claimAnswer(seq uint64) (answer string, again bool, err error) {
	err = w.box.Update(w.conversation, func(f *box.File) bool {
		q, i := f.Question(seq), answerTo(f, seq)
		if q == nil || i < 0 || q.State == box.Closed {
			return false
		}
		answer, again = strings.TrimSpace(f.Waiting[i].Content), q.State == box.Answering
		if n, err := strconv.Atoi(answer); err == nil && !f.Waiting[i].Button && 1 <= n && n <= len(q.Labels) {
			answer = q.Labels[n-1]
		}
		q.State = box.Answering
		return true
	})
	if err != nil {
		return "", false, err
	}
	return answer, again, nil
}

// answerTo returns the index of the oldest answer to a question, or -1.
func answerTo(f *box.File, seq uint64) int {
	for i := inTurn(f); i < len(f.Waiting) && seq != 0; i++ {
		if f.Waiting[i].Ask == seq {
			return i
		}
	}
	return -1
}

// inTurn returns the number of messages in the open turn: they are no answers.
func inTurn(f *box.File) int {
	if f.Turn == nil {
		return 0
	}
	return min(len(f.Turn.IDs), len(f.Waiting))
}

// setAsk sets the question that a message answers: the button's, or the newest open one that
// the sender may answer. For a button without such a question, it sets the reply.
func (l *loop) setAsk(m *Message, to *box.Message) error {
	if m.Button != "" {
		m.Reply = "This question is closed."
	}
	return l.box.Update(m.Conversation, func(f *box.File) (learned bool) {
		for i := range f.Questions {
			q := &f.Questions[i]
			n := slices.IndexFunc(buttonsOf(q), func(b Button) bool { return b.Data == m.Button })
			switch {
			case q.State == box.Closed, m.Button != "" && n < 0:
			case !l.mayAnswer(q, m):
				if m.Button != "" {
					m.Reply = "Only an admin of the bot may answer."
					if q.By != "" {
						m.Reply = "Only " + quoted(q.Name) + " may answer."
					}
				}
			case m.Button != "":
				*to, m.Reply = box.Message{Agent: to.Agent, Content: cmp.Or(strings.TrimSpace(q.Labels[n]), strconv.Itoa(n+1)), Ask: q.Seq, Button: true}, ""
				learned, q.Remote = q.Remote == "", m.Of
			case isWork(q) && !isChoice(q, m.Text), q.Other && (q.Remote == "" || m.Of != q.Remote):
			case m.Album == "" && q.State != box.Asking && !strings.HasPrefix(m.Text, "/") && strings.TrimSpace(m.Text) != "":
				if to.Ask = q.Seq; q.Other {
					return false
				}
			}
		}
		return learned
	})
}
