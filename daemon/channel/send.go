package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"crabmem/daemon/box"
)

// send sends the conversation's oldest text without an outcome. It returns false if each
// text has an outcome.
func (w *worker) send() (did bool, err error) {
	a, buttons, wait, err := w.claim()
	if wait > 0 {
		return Pause(w.ctx, wait), nil
	}
	if a == nil || err != nil {
		return false, err
	}
	ctx, id, t := context.WithoutCancel(w.ctx), a.Remote, Text{a.Content, a.Kind != box.Notice && a.Kind != box.Asks, buttons, a.ReplyTo}
	if id != "" {
		err = w.p.Edit(ctx, w.conversation, id, t) // Edit and Send have a limit
	} else {
		id, err = w.p.Send(ctx, w.conversation, t)
	}
	if err == nil {
		return true, w.settle(a, box.Sent, id)
	}
	failed, certain := errors.AsType[*SendError](err)
	switch {
	case !certain && a.Remote != "": // pauses: an edit may be repeated
		return true, err
	case certain && failed.NoID:
		w.Log.Warn("a person removed the message with a part of the answer: the part is sent again", "conversation", w.conversation)
		return true, w.settle(a, box.Pending, "")
	case !certain, a.Remote != "" && !failed.Gone && !failed.Retry: // the message has another text
		w.Log.Error("a text may be missing: it is not sent again", "conversation", w.conversation, "part", a.Number, "of", a.Of, "error", err)
		return true, w.settle(a, box.Unknown, "")
	case failed.Gone:
		w.Log.Error("the conversation accepts no texts: they are dropped", "conversation", w.conversation, "error", err)
		return true, w.dropTexts()
	case !failed.Retry:
		w.Log.Error("the platform refused a text: it is dropped", "conversation", w.conversation, "part", a.Number, "of", a.Of, "error", err)
		return true, w.settle(a, box.Failed, "")
	}
	if serr := w.settle(a, box.Pending, a.Remote); serr != nil {
		return true, serr
	}
	if failed.After > 0 {
		Pause(w.ctx, failed.After)
		return true, nil
	}
	return true, err // pauses
}

// claim returns the oldest text without an outcome, or nil, and its buttons, after it stored
// that the text is sent now. If wait is not 0, the text is sent later. A text that was sent
// already, and has no outcome, becomes unknown.
func (w *worker) claim() (next *box.Answer, buttons []Button, wait time.Duration, err error) {
	err = w.box.Update(w.conversation, func(f *box.File) (changed bool) {
		changed = w.splitNew(f)
		for i := 0; i < len(f.Answers); i++ {
			switch a := &f.Answers[i]; a.State {
			case box.Sending:
				w.Log.Error("a text may be missing: the channel stopped while it was sent", "conversation", w.conversation, "part", a.Number, "of", a.Of)
				w.end(f, i, box.Unknown, "")
				changed = true
			case box.Pending:
				if a.Remote == "" { // otherwise an edit, which may be repeated
					if wait = w.p.Wait(w.conversation); wait > 0 {
						return changed
					}
					a.State, changed = box.Sending, true
				}
				sent := *a
				next = &sent
				if q := f.Question(a.Seq); q != nil && q.State == box.Asking {
					buttons = buttonsOf(q)
				}
				return changed
			}
		}
		return changed
	})
	if err != nil {
		return nil, nil, 0, err
	}
	return next, buttons, wait, nil
}

// settle stores a text's outcome.
func (w *worker) settle(a *box.Answer, state box.State, id string) error {
	return w.box.Update(w.conversation, func(f *box.File) bool {
		for i := range f.Answers {
			if now := &f.Answers[i]; now.Seq == a.Seq {
				if state == box.Sent && a.Live && !now.Live && now.Content != a.Content {
					state = box.Pending // the run sent more text: an edit follows
				}
				w.end(f, i, state, id)
				return true
			}
		}
		return false
	})
}

// end sets a text's outcome, and adds a notice about an agent's text with an unknown one.
func (w *worker) end(f *box.File, i int, state box.State, id string) {
	a := &f.Answers[i]
	a.State, a.Remote = state, id
	if a.Live && state == box.Unknown {
		return // endLive compares the text
	}
	if state != box.Pending {
		a.Content, a.ReplyTo = "", ""
		if q := f.Question(a.Seq); q != nil {
			q.Remote = cmp.Or(id, q.Remote)
			if q.State == box.Asking {
				q.State = box.Asked
			}
		}
	}
	if state == box.Unknown && a.Kind != box.Notice {
		w.missing(f, a)
	}
}

// missing adds a notice that an agent's text has an unknown outcome.
func (l *loop) missing(f *box.File, a *box.Answer) {
	l.notice(f, a.Turn, fmt.Sprintf("Part %d of %d of this answer may be missing: its delivery was not confirmed.", a.Number, a.Of))
}

// dropTexts marks each text without an outcome as failed.
func (w *worker) dropTexts() error {
	return w.box.Update(w.conversation, func(f *box.File) bool {
		for i := range f.Answers {
			if f.Answers[i].IsOpen() {
				f.Answers[i].State, f.Answers[i].Content = box.Failed, ""
			}
		}
		return true
	})
}
