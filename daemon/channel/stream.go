package channel

import (
	"context"
	"errors"
	"strconv"
	"time"

	"crabmem/daemon/box"
)

// The times between two drafts of an answer.
const (
	draftTime = 1500 * time.Millisecond
	renewTime = 20 * time.Second // of the same text: a service removes a draft after 30 s
)

// show shows a run's answer while the agent writes it, until ctx ends. Without drafts, serve shows
// the answer.
func (r *run) show(ctx context.Context) {
	if r.p.Draft != nil && !r.draft(ctx) || r.p.EditTime == 0 {
		return
	}
	r.writing.Lock()
	r.streams = true
	r.writing.Unlock()
	r.signal()
}

// draft shows the answer until ctx ends. It returns true if the platform refuses drafts. The answer
// itself is a message, so a draft that is lost or repeated has no effect.
func (r *run) draft(ctx context.Context) (refused bool) {
	id, _ := strconv.ParseInt(r.turn.IDs[0][:min(12, len(r.turn.IDs[0]))], 16, 64)
	shown, at := "", r.Now()
	for Pause(ctx, draftTime) {
		parts := Split(r.written(), r.p.Limit)
		if len(parts) == 0 {
			continue
		}
		text := parts[len(parts)-1]
		if text == shown && r.Now().Sub(at) < renewTime {
			continue
		}
		shown, at = text, r.Now()
		err := r.p.Draft(ctx, r.conversation, id|1, text)
		failed, _ := errors.AsType[*SendError](err)
		switch {
		case failed != nil && failed.Retry:
			Pause(ctx, failed.After)
		case failed != nil:
			r.Log.Debug("drafts are not shown", "conversation", r.conversation, "error", err)
			return !failed.Gone
		}
	}
	return false
}

// dueIn returns the time until the text so far is shown, or a long time.
func (r *run) dueIn() time.Duration {
	r.writing.Lock()
	defer r.writing.Unlock()
	if !r.streams || r.text.Len() == 0 {
		return runTime
	}
	return r.due.Sub(r.Now())
}

// setDue sets the time until the text is shown again. 0: a fault ends that for this run.
func (r *run) setDue(in time.Duration) {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.streams, r.due = in > 0, r.Now().Add(in)
}

// stream shows the text so far: it adds the next message, and edits the others. It returns false if
// it added no message. Only serve calls it, so no two edits are concurrent.
func (r *run) stream() (did bool, err error) {
	if r.dueIn() > 0 {
		return false, nil
	}
	r.setDue(r.p.EditTime)
	var edits []box.Answer
	err = r.box.Update(r.conversation, func(f *box.File) bool {
		parts, live := Split(r.written(), r.p.Limit), f.Live(r.turn.IDs[0])
		older := max(0, len(live)-len(parts))
		for n, i := range live {
			a := f.Answers[i]
			switch {
			case a.State != box.Sent: // unknown or failed: no more messages follow
				return false
			case n >= older && r.shown[a.Seq] != parts[n-older]:
				a.Content = parts[n-older]
				edits = append(edits, a)
			}
		}
		if did = len(live) < len(parts); did {
			p := box.Part{Turn: r.turn.IDs[0], Kind: box.Reply, Number: len(live) + 1, State: box.Pending, Live: true}
			if len(live) == 0 {
				p.ReplyTo = r.turn.ReplyTo
			}
			f.Answer(box.Answer{Content: parts[len(live)], Part: p})
			r.shown[f.Last] = parts[len(live)]
		}
		return did
	})
	for i := 0; err == nil && i < len(edits) && r.edit(&edits[i]); i++ {
	}
	return did, err
}

// edit shows a text in a message, and returns false if it did not. A failure has no effect: the next
// edit has the whole text, too.
func (r *run) edit(a *box.Answer) bool {
	// A request that is canceled could have its effect after the edit with the answer.
	err := r.p.Edit(context.WithoutCancel(r.ctx), r.conversation, a.Remote, Text{Content: a.Content, Markdown: true})
	failed, certain := errors.AsType[*SendError](err)
	switch {
	case err == nil:
		r.shown[a.Seq] = a.Content
		return true
	case certain && !failed.Retry:
		r.setDue(0)
	case certain && failed.After > 0:
		r.setDue(failed.After)
	}
	r.Log.Debug("an edit is not shown", "conversation", r.conversation, "error", err)
	return false
}

// endLive ends a turn's streamed messages, and returns how many parts of the answer they contain:
// edits follow. If there are more messages than parts, the first messages keep their text. Only the
// last message may have an unknown outcome. If it cannot contain its part, the part is sent.
func (l *loop) endLive(f *box.File, turn string, parts []string) (taken int) {
	live := f.Live(turn)
	for n, i := range live {
		a, n := &f.Answers[i], n-max(0, len(live)-len(parts))
		old := *a
		a.Live = false
		switch {
		case n < 0 && a.State == box.Pending:
			a.State, a.Content = box.Failed, ""
		case n < 0 && a.State != box.Sending, a.State == box.Failed, a.State == box.Unknown && a.Content != parts[n]:
			a.Content = ""
		case n >= 0:
			taken = n + 1
			a.Content, a.Number, a.Of = parts[n], taken, len(parts)
			if old.State == box.Sent {
				a.State = box.Pending
			} else if old.State == box.Unknown {
				a.Content = ""
				l.missing(f, a)
			}
		}
	}
	return taken
}

// endText ends the streamed messages with the text so far: another text of the run follows.
func (r *run) endText(f *box.File) {
	if len(f.Live(r.turn.IDs[0])) == 0 {
		return
	}
	text := r.written()
	f.Replies = append(f.Replies, liveDigest(text))
	r.add(f, r.turn.IDs[0], box.Reply, text)
	r.writing.Lock()
	r.text.Reset()
	r.writing.Unlock()
}

// liveDigest returns a streamed text's digest, for a text before another text of the run.
func liveDigest(text string) string { return digest("live\n" + text) }

// written returns the text of the answer so far.
func (r *run) written() string {
	r.writing.Lock()
	defer r.writing.Unlock()
	return r.text.String()
}

// write adds a text to the answer. The first text after calls of tools replaces the answer so far.
func (r *run) write(text string) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.ended {
		r.text.Reset()
		r.ended = false
	}
	if r.text.Len() == 0 {
		r.due = r.Now().Add(r.p.EditTime)
		r.signal()
	}
	r.text.WriteString(text)
}
