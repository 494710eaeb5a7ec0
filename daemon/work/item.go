package work

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"crabmem/bm25/clip"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// Outcome is an end of work, or of a part of it, that the parent is owed, or the answer of
// the identity Agent to a question.
type Outcome struct {
	ID, Kind, Agent string
	N               int // from 1
	Status
	Text        string
	Started, At string // times, as in session files
}

// Key is the outcome in the list of a user message.
func (o *Outcome) Key() string { return fmt.Sprintf("%s.%d", o.ID, o.N) }

// Item is work of a parent. It is safe for concurrent use. After a
// [sessionlog.ErrUnknown] the parent must be closed and opened again.
type Item struct {
	record.Work // its start
	parent      *Parent

	mu      sync.Mutex // acquired before the parent's
	log     *sessionlog.Log
	p       progress
	unknown bool // the result of a write
}

// Status returns the state and the number of the attempt.
func (i *Item) Status() (Status, int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.p.Status, i.p.attempt
}

// Answer appends the last text of another program that does the work.
func (i *Item) Answer(text string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.use(); err != nil {
		return err
	}
	return i.log.Append(sessionlog.Message{Role: record.RoleAssistant, Content: strings.ToValidUTF8(text, "\uFFFD")})
}

// Last returns the last outcome, or nil.
func (i *Item) Last() *Outcome {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.p.ends == 0 {
		return nil
	}
	o := i.outcome(i.p.last)
	return &o
}

// write appends a record to the child. The caller holds mu.
func (i *Item) write(w record.Work) error {
	next, err := i.p.after(w)
	if err != nil {
		return err
	}
	if err := i.use(); err != nil {
		return err
	}
	if err := i.log.AppendWork(w); err != nil {
		i.unknown = stopped(err)
		return err
	}
	i.p = next
	return nil
}

// use opens the child. The caller holds mu.
func (i *Item) use() (err error) {
	if i.log == nil {
		i.log, err = i.parent.home.Sessions.Open(i.Session)
	}
	return err
}

// closeLog closes the child.
func (i *Item) closeLog() error {
	if i.log == nil {
		return nil
	}
	l := i.log
	i.log = nil
	return l.Close()
}

// Begin appends the task as the child's first user message, unless it has one.
func (i *Item) Begin() (began bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.p.begun {
		return false, nil
	}
	return true, i.append(sessionlog.Message{Content: i.Task})
}

// append appends a user message to the child, with the keys of the accepted messages in
// it. The caller holds mu.
func (i *Item) append(m sessionlog.Message) error {
	if err := i.use(); err != nil {
		return err
	}
	m.Role = record.RoleUser
	if err := i.log.Append(m); err != nil {
		return err
	}
	i.p = i.p.take(m.Work)
	return nil
}

// Route accepts a message to the work. If Route returns nil, the message is durable. It
// continues work that waits or that failed resumably. The error is an [ErrTransition]
// for other work, and for an outcome that is not delivered.
func (i *Item) Route(text string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	w := record.Work{Op: record.WorkRoute, N: i.p.routes + 1, Text: text}
	if _, err := i.p.after(w); err != nil {
		return err
	}
	if i.p.State == record.Failed { // its outcome may have closed it
		if err := i.parent.reopen(i); err != nil {
			return err
		}
		w.N = i.p.routes + 1
	}
	return i.write(w)
}

// TakeRoutes appends the accepted messages to the child, as one user message. It returns
// nil without an accepted message.
func (i *Item) TakeRoutes() (*sessionlog.Message, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := &sessionlog.Message{Role: record.RoleUser}
	var texts []string
	for _, w := range i.p.pending {
		texts, m.Work = append(texts, w.Text), append(m.Work, routeKey(w.N))
	}
	if len(texts) == 0 {
		return nil, nil
	}
	m.Content = strings.Join(texts, "\n\n")
	return m, i.append(*m)
}

// End ends the work with an outcome, and hands the outcome to the parent. Interactive
// work that signals an outcome then waits. The text is cut to record.MaxResult bytes. If
// End returns nil, the outcome is durable. The error is an [ErrTransition] for work that
// has ended, and an [ErrPending] for a signal before a message is taken in.
func (i *Item) End(to Status, text string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.unknown { // an earlier end may be in the file
		if err := i.closeLog(); err != nil {
			i.parent.home.warn("%s: %v", i.Session, err)
		}
		if err := i.use(); err != nil {
			return err
		}
		ends := i.p.ends
		if _, _, err := i.read(); err != nil {
			return err
		}
		if i.unknown = false; i.p.ends > ends {
			i.parent.put(i.outcome(i.p.last))
			return nil
		}
	}
	if i.Interactive && to == (Status{record.Done, Signaled}) {
		to.State = record.Waiting
	}
	switch {
	case !i.Interactive && to.State == record.Waiting:
		return fmt.Errorf("%w: %s is not interactive", ErrTransition, i.ID)
	case to.Reason == Signaled && i.p.State == record.Running && len(i.p.pending) > 0:
		return fmt.Errorf("%w: %s", ErrPending, i.ID)
	}
	w := record.Work{Op: record.WorkEnd, N: i.p.ends + 1, State: to.State, Reason: to.Reason,
		Text: clip.Bytes(strings.ToValidUTF8(text, "\uFFFD"), record.MaxResult), At: i.parent.home.now()}
	if err := i.write(w); err != nil {
		return err
	}
	i.parent.put(i.outcome(w))
	if to.State != record.Waiting {
		if err := i.closeLog(); err != nil {
			i.parent.home.warn("%s: %v", i.Session, err)
		}
	}
	return nil
}

// outcome returns the outcome of an end record.
func (i *Item) outcome(w record.Work) Outcome {
	return Outcome{ID: i.ID, Kind: i.Kind, Agent: i.Agent, N: w.N, Status: Status{w.State, w.Reason}, Text: w.Text, Started: i.At, At: w.At}
}

// read reads the progress of the work from the child's file, the end records, and the
// last text of the child.
func (i *Item) read() (ends []record.Work, said string, err error) {
	i.p = spawned()
	name := i.Session
	if i.log != nil {
		name = filepath.Base(i.log.Path()) // needs no listing of the folder
	}
	s, err := i.parent.home.Sessions.Read(name)
	if err != nil {
		return nil, "", err
	}
	for l, lerr := range s.Lines(0) {
		err = errors.Join(err, lerr)
		switch l.Kind {
		case record.KindMessage:
			if i.p = i.p.take(nil); l.Message.Role == record.RoleUser {
				i.p = i.p.take(record.WorkKeys(l.Raw))
			} else if l.Message.Role == record.RoleAssistant && l.Message.Content != "" {
				said = l.Message.Content
			} else if l.Message.Role == record.RoleTool {
				i.p.unsure = ""
			}
		case record.KindUnknown:
			w, ok := record.ParseWork(l.Raw)
			if !ok {
				continue
			}
			if w.Op == record.WorkUse {
				i.p.unsure = w.Call
			}
			next, terr := i.p.after(w)
			if terr != nil {
				continue
			}
			if i.p = next; w.Op == record.WorkEnd {
				ends = append(ends, w)
			}
		}
	}
	return ends, said, errors.Join(err, s.Close())
}
