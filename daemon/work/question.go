package work

import (
	"errors"
	"fmt"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

var errClosed = fmt.Errorf("%w: the question is not open", ErrTransition)

// unsure follows a question about a call that may have run.
const unsure = "\nThe program was restarted after an answer to this question, and no result is recorded: the command may have run."

// on calls a function with a parent's or an item's log and open question.
type on func(f func(l *sessionlog.Log, o *record.OpenWork) error) error

// ask appends a question, unless the open one is about the same call, and returns it.
func (do on) ask(w record.Work, at string) (q *record.Work, err error) {
	err = do(func(l *sessionlog.Log, o *record.OpenWork) error {
		switch q = o.Ask; {
		case q != nil && w.Call == "" && q.Answer != "":
			return errors.New("the answer to an earlier question comes with the next message")
		case q != nil && w.Call != "" && q.Call == w.Call:
			return nil
		}
		w.Op, w.N, w.At, q = record.WorkAsk, o.Asks+1, at, &w
		return l.AppendWork(w)
	})
	return q, err
}

// question returns the open question, or nil, also after an error.
func (do on) question() (q *record.Work) {
	_ = do(func(_ *sessionlog.Log, o *record.OpenWork) error { q = o.Ask; return nil })
	return q
}

// decide appends the answer to a question.
func (do on) decide(q *record.Work, text string) error {
	return do(func(l *sessionlog.Log, o *record.OpenWork) error {
		if o.Ask == nil || o.Ask.N != q.N || o.Ask.Answer != "" {
			return errClosed
		}
		return l.AppendWork(record.Work{Op: record.WorkAnswer, N: q.N, Text: text}) // ◄ the commit point of the answer
	})
}

// Ask asks whether the work's call may run. If the error is nil, the question is durable.
// The open question about the same call stays.
func (i *Item) Ask(w record.Work) (*record.Work, error) {
	i.mu.Lock()
	if w.Call == i.p.unsure {
		w.Text += unsure
	}
	i.mu.Unlock()
	return on(i.on).ask(w, i.parent.home.now())
}

// Question returns the open question of work that runs, with its answer, or nil.
func (i *Item) Question() *record.Work { return on(i.on).question() }

// Decide answers the open question. If Decide returns nil, the answer is durable.
func (i *Item) Decide(q *record.Work, text string) error { return on(i.on).decide(q, text) }

// Use closes the open question, and returns its answer, or "", which no other call can use.
func (i *Item) Use() (text string, err error) {
	err = i.on(func(l *sessionlog.Log, o *record.OpenWork) error {
		if o.Ask == nil {
			return errClosed
		}
		w := record.Work{Op: record.WorkUse, N: o.Ask.N}
		if text = o.Ask.Answer; text != "" {
			w.Call = o.Ask.Call
		}
		return l.AppendWork(w)
	})
	return text, err
}

func (i *Item) on(f func(l *sessionlog.Log, o *record.OpenWork) error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.p.State != record.Running {
		return errClosed
	}
	if err := i.use(); err != nil {
		return err
	}
	o, err := i.log.OpenWork()
	if err != nil {
		return err
	}
	return f(i.log, &o)
}

// Ask asks the identity w.To, in place of an earlier question. If the error is nil, the
// question is durable.
func (p *Parent) Ask(w record.Work) (*record.Work, error) { return on(p.on).ask(w, p.home.now()) }

// Question returns the session's open question, with its answer, or nil.
func (p *Parent) Question() *record.Work { return on(p.on).question() }

// Decide answers the open question, and hands the answer to the inbox. If Decide returns
// nil, the answer is durable.
func (p *Parent) Decide(q *record.Work, text string) error {
	p.mu.Lock()
	err := p.mark()
	p.mu.Unlock()
	if err == nil {
		err = on(p.on).decide(q, text)
	}
	if err == nil {
		p.put(reply(q, text))
	}
	return err
}

func reply(q *record.Work, text string) Outcome {
	return Outcome{ID: record.AskID(q.N), Kind: "answer", Agent: q.To, N: 1, Status: Status{State: "to the question: " + q.Text}, Text: text, At: q.At}
}

func (p *Parent) on(f func(l *sessionlog.Log, o *record.OpenWork) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	o, err := p.ready()
	if err != nil {
		return err
	}
	return f(p.log, &o)
}
