package channel

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"crabmem/daemon/agent"
	"crabmem/daemon/box"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// worker answers the messages of one conversation, in order.
type worker struct {
	*loop
	conversation string
	again        bool               // a message arrived during a step
	woken        chan struct{}      // has an item if one arrived after the worker last waited
	fetches      int                // failed in a row
	ran          string             // session of the newest run, which a command may have ended
	cancel       context.CancelFunc // of the active run or wait, or nil
}

// wake begins a conversation's worker, unless it runs. With stopRun it ends the active run: the
// file contains the command.
func (l *loop) wake(conversation string, stopRun bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.workers[conversation]; w != nil {
		w.again = true
		w.signal()
		if stopRun && w.cancel != nil {
			w.cancel()
		}
		return
	}
	w := &worker{loop: l, conversation: conversation, woken: make(chan struct{}, 1)}
	l.workers[conversation] = w
	l.background.Go(w.work) // until the conversation is idle, or ctx ends
}

// work sends texts and answers messages until there are no more.
func (w *worker) work() {
	for wait := firstWait; w.ctx.Err() == nil; {
		did, err := w.step()
		if err != nil && w.ctx.Err() == nil {
			w.Log.Error("a conversation pauses", "conversation", w.conversation, "wait", wait, "error", err)
			Pause(w.ctx, wait)
			wait = min(2*wait, maxWait)
			continue
		}
		wait = firstWait
		w.mu.Lock()
		if !did && !w.again {
			delete(w.workers, w.conversation) // a later message begins another worker
			w.mu.Unlock()
			return
		}
		w.again = w.again && did
		w.mu.Unlock()
	}
}

// step sends the oldest text, or else removes buttons, sends an answer to work, or answers the
// oldest messages. It returns false if the conversation is idle.
func (w *worker) step() (did bool, err error) {
	if did, err := oneOf(w.send, w.unbutton, w.answerWork); did || err != nil {
		return did, err
	}
	turn, did, err := w.next()
	if turn == nil || err != nil {
		return did, err
	}
	return true, w.answer(turn)
}

// oneOf calls functions in order until one of them has an effect or an error.
func oneOf(list ...func() (did bool, err error)) (did bool, err error) {
	for _, f := range list {
		if did, err = f(); did || err != nil {
			break
		}
	}
	return did, err
}

// answer runs a turn, and stores its answer.
func (w *worker) answer(t *box.Turn) error {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	defer func() {
		w.mu.Lock()
		w.cancel = nil
		w.mu.Unlock()
	}()
	if ok, err := w.setCancel(cancel); !ok || err != nil {
		return err // next finds the command
	}
	answer, text := w.run(ctx, t)
	w.ran = answer.Session
	if ctx.Err() != nil {
		return w.ctx.Err() // the turn stays open, or next finds the command
	}
	return w.box.Update(w.conversation, func(f *box.File) bool {
		if f.Turn == nil || f.Turn.IDs[0] != t.IDs[0] {
			return false
		}
		if answer.Session != "" {
			f.Session, f.Agent = answer.Session, t.Agent
		} else if t.Session != "" {
			f.Session = "" // it may be gone: the next turn uses the latest one
		}
		if t.New && answer.Session != "" {
			w.notice(f, t.IDs[0], "This is a new session: "+answer.Session)
		}
		f.End(len(t.IDs))
		if n := len(f.Replies); len(f.Live(t.IDs[0])) > 0 || (n == 0 || f.Replies[n-1] != digest(text)) && !slices.Contains(f.Replies, liveDigest(text)) { // some agents repeat it
			w.add(f, t.IDs[0], box.Reply, text)
		}
		f.Turn, f.Replies = nil, nil
		return true
	})
}

// setCancel stores cancel, with which wake ends a turn's run. It returns false if a command to
// stop arrived after next read the file: wake found no run then.
func (w *worker) setCancel(cancel context.CancelFunc) (ok bool, err error) {
	w.mu.Lock()
	w.cancel = cancel
	w.mu.Unlock()
	err = w.box.Update(w.conversation, func(f *box.File) bool {
		ok = lastStop(f) < 0
		return false
	})
	return ok, err
}

// run returns the answer to a turn, and its text. It repeats a run that the daemon did not
// answer: the request ID makes it one turn. If ctx ends, the text does not count.
func (w *worker) run(ctx context.Context, t *box.Turn) (op.Answer, string) {
	d, release := w.Daemon(identity(w.conversation))
	defer release()
	var retry client.Retry
	for {
		answer, err := w.try(ctx, d, t)
		if err == nil {
			return answer, answer.Content
		}
		if ctx.Err() != nil {
			return answer, ""
		}
		status, row := client.StatusOf(err)
		if errors.Is(err, context.DeadlineExceeded) {
			return answer, "Error: the run took too long."
		}
		again := retry.Again(status, row.Kind)
		w.Log.Warn("a run failed", "conversation", w.conversation, "again", again, "error", err)
		if !again {
			return answer, "Error: " + failure(status, err)
		}
		if retry.Wait(ctx) != nil {
			return answer, ""
		}
	}
}

// failure describes an error to a person. Errors that may name the machine's files are only in
// the log.
func failure(status int, err error) string {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || status >= http.StatusInternalServerError || status == client.StatusCanceled {
		return "the run failed. The log of the channel has the cause."
	}
	if e.Kind == "request" {
		return "the run was interrupted, and others followed. Send the message again."
	}
	return e.Message
}

// try runs the agent, and shows typing and drafts during the run.
func (w *worker) try(ctx context.Context, d op.Caller, t *box.Turn) (op.Answer, error) {
	select {
	case w.runs <- struct{}{}:
	case <-ctx.Done():
		return op.Answer{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	r := &run{worker: w, turn: t, caller: d, shown: make(map[uint64]string)}
	var serving sync.WaitGroup
	serving.Go(func() { r.serve(ctx) }) // until cancel
	serving.Go(func() {                 // until cancel
		for first := true; first || Pause(ctx, w.p.TypingTime); first = false {
			w.p.Typing(ctx, w.conversation)
		}
	})
	serving.Go(func() { r.show(ctx) }) // until cancel
	err := op.StreamMessage.Each(ctx, d, op.Message{Content: t.Content, Agent: t.Agent, Sender: identity(w.conversation),
		Session: t.Session, New: t.New, Request: t.IDs[0], Commands: true}, func(e agent.Event) error { return r.event(ctx, e) })
	if ctx.Err() == context.DeadlineExceeded && err != nil {
		err = ctx.Err()
	}
	cancel()
	<-w.runs // a text that waits delays no run of another conversation
	serving.Wait()
	return op.Answer{Session: r.session, Content: r.written()}, err
}
