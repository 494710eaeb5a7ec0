package work

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// Found is the state of work at a start of the daemon.
type Found struct {
	Started           bool // the parent has its start
	Bare              bool // the child has its meta line alone
	Gone              bool // the child cannot be read
	Kind              string
	External, Resumes bool // see [Home.External]
	State             string
	Attempt           int
	Ends, Delivered   int // numbers of outcomes
}

// Action is what recovery does with work.
type Action string

// The actions of recovery.
const (
	Keep      Action = "keep"      // it waits, or is not work
	Trash     Action = "trash"     // the child of a spawn that was not acknowledged
	Resume    Action = "resume"    // run it again
	Interrupt Action = "interrupt" // failed, interrupted
	Lose      Action = "lose"      // failed, lost
	Hand      Action = "hand"      // its outcome is in the inbox
	Close     Action = "close"     // it owes no outcome
)

// Notice is how recovery reports an action.
type Notice string

// The notices.
const (
	Silent  Notice = ""
	Log     Notice = "log"
	Event   Notice = "event"
	Channel Notice = "channel" // the parent, by an outcome
)

// maxAttempts limits the attempts that a restart may interrupt.
const maxAttempts = 2

// Decide returns what recovery does with work, and how it reports this.
func Decide(f Found) (Action, Notice) {
	switch {
	case !f.Started && f.Bare:
		return Trash, Log
	case !f.Started:
		return Keep, Silent
	case f.Gone:
		return Lose, Channel
	case f.State == record.Running && (f.Kind == record.Branch || f.External || f.Attempt >= maxAttempts):
		return Interrupt, Channel
	case f.State == record.Running:
		return Resume, Event
	case f.State == record.Waiting && f.External && !f.Resumes:
		return Lose, Channel
	case f.Ends > f.Delivered:
		return Hand, Channel
	case f.State == record.Waiting:
		return Keep, Silent
	}
	return Close, Silent
}

// Recovered is work after a recovery.
type Recovered struct {
	Parent, ID, Session string
	Action              Action
	Notice              Notice
}

// Texts that recovery writes.
const (
	restarted   = "The program was restarted while you worked. Calls without a result may have had an effect: check before you repeat them. A command that waited for approval has not run: call it again."
	interrupted = "ended by a restart"
	saidUntil   = "; said until then: "
)

// Recover opens the sessions with open work, and recovers their work. It is called before
// the daemon listens. A session that cannot be recovered is in the error, and is tried
// again at the next start.
func (h *Home) Recover() (parents []*Parent, all []Recovered, err error) {
	list, err := h.FS.ReadDir(filepath.Join(h.Path, folder))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, nil, err
	}
	if len(list) > 0 { // the last program may have died before a file was durable
		if err := h.FS.SyncDir(filepath.Join(h.Path, folder)); err != nil {
			return nil, nil, err
		}
	}
	children, err := h.Sessions.Children()
	for _, e := range list {
		p, did, perr := h.Open(e.Name())
		if errors.Is(perr, sessionlog.ErrNotFound) {
			h.warn("work of %s: the session does not exist", e.Name())
			perr = h.unmark(e.Name())
		} else if perr == nil {
			swept, serr := p.sweep(children)
			did, perr = append(did, swept...), serr
			p.marked = p.marked && serr == nil // the next start sweeps again
			parents = append(parents, p)
		}
		all, err = append(all, did...), errors.Join(err, perr)
	}
	return parents, all, err
}

// Open opens a session and recovers its work. The session must not be open as a Parent.
func (h *Home) Open(id string) (*Parent, []Recovered, error) {
	l, err := h.Sessions.Open(id)
	if err != nil {
		return nil, nil, err
	}
	p := &Parent{home: h, log: l, items: map[string]*Item{}}
	did, err := p.recover()
	if err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	return p, did, nil
}

// recover recovers the open work of a parent.
func (p *Parent) recover() (did []Recovered, err error) {
	open, err := p.log.OpenWork()
	if err != nil {
		return nil, err
	}
	_, err = p.home.FS.Lstat(p.home.file(p.log.ID()))
	if p.marked = err == nil; len(open.Items) > 0 {
		if err = p.mark(); err != nil { // another program may have removed it
			return nil, err
		}
	}
	if q := open.Ask; q != nil && q.Answer != "" {
		p.put(reply(q, q.Answer))
	}
	closed := false
	for _, w := range open.Items {
		i := &Item{Work: w, parent: p}
		i.N = 0
		p.items[i.ID] = i
		a, err := i.recover(w.N)
		if err != nil {
			return nil, err
		}
		did = append(did, a)
		if a.Action == Close {
			closed = true
			delete(p.items, i.ID)
		}
	}
	slices.SortStableFunc(p.inbox, func(a, b Outcome) int {
		return cmp.Or(strings.Compare(a.At, b.At), strings.Compare(a.ID, b.ID), cmp.Compare(a.N, b.N))
	})
	if closed {
		if err := p.writeOpen(); err != nil {
			return nil, err
		}
	}
	return did, nil
}

// recover recovers work with a number of delivered outcomes.
func (i *Item) recover(delivered int) (Recovered, error) {
	err := i.use() // a line that is only visible becomes durable, or is truncated
	var ends []record.Work
	said := ""
	if err == nil {
		ends, said, err = i.read()
	}
	f := Found{Started: true, Kind: i.Kind, State: i.p.State, Attempt: i.p.attempt, Ends: i.p.ends, Delivered: delivered}
	if f.Gone = gone(err); err != nil && !f.Gone {
		return Recovered{}, err
	}
	if i.parent.home.External != nil {
		f.External, f.Resumes = i.parent.home.External(i.Agent)
	}
	r := Recovered{Parent: i.parent.log.ID(), ID: i.ID, Session: i.Session}
	r.Action, r.Notice = Decide(f)
	for _, w := range ends {
		if w.N > delivered {
			i.parent.put(i.outcome(w))
		}
	}
	switch text := interrupted; r.Action {
	case Resume:
		err = i.resume()
	case Interrupt:
		if said != "" {
			text += saidUntil + said
		}
		err = i.End(Status{record.Failed, Interrupted}, text)
	case Lose:
		if !f.Gone {
			err = i.End(Status{record.Failed, Lost}, text)
		}
	}
	if gone(err) {
		i.parent.put(i.outcome(record.Work{N: i.p.ends + 1, State: record.Failed, Reason: Lost, At: i.parent.home.now()}))
		err = nil
	}
	if f.State == record.Done || f.State == record.Failed {
		err = errors.Join(err, i.closeLog())
	}
	return r, err
}

// gone reports whether an error states that a child cannot be read.
func gone(err error) bool {
	return errors.Is(err, sessionlog.ErrNotFound) || errors.Is(err, sessionlog.ErrFormat)
}

// resume begins the next attempt of a running worker.
func (i *Item) resume() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	text := restarted
	if !i.p.begun {
		text = i.Task
	}
	w := record.Work{Op: record.WorkState, State: record.Running, Attempt: i.p.attempt + 1, At: i.parent.home.now()}
	if err := i.write(w); err != nil {
		return err
	}
	return i.append(sessionlog.Message{Content: text})
}

// sweep moves children of spawns that were not acknowledged into the trash.
func (p *Parent) sweep(children map[string]string) (did []Recovered, err error) {
	for session, of := range children {
		parent, id, _ := strings.Cut(of, "/")
		if parent != p.log.ID() {
			continue
		}
		f := Found{Started: slices.ContainsFunc(p.Items(), func(i *Item) bool { return i.Session == session })}
		if !f.Started {
			s, rerr := p.home.Sessions.Read(session)
			if rerr != nil {
				err = errors.Join(err, rerr)
				continue
			}
			end, lerr := s.LastLines(1)
			f.Bare = lerr == nil && end == 0
			err = errors.Join(err, lerr, s.Close())
		}
		if a, notice := Decide(f); a == Trash {
			err = errors.Join(err, p.home.Sessions.Delete(session))
			p.home.warn("%s: moved to the trash: its spawn was not acknowledged", session)
			did = append(did, Recovered{p.log.ID(), id, session, a, notice})
		}
	}
	return did, err
}

// Discard moves the sessions of delivered work whose last outcome is from before a time
// into the trash, and returns their IDs.
func (p *Parent) Discard(before time.Time) (ids []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	started, err := p.started("")
	for _, i := range started {
		if _, _, rerr := i.read(); rerr != nil || p.items[i.ID] != nil {
			continue
		}
		at, terr := time.Parse(time.RFC3339, i.p.last.At)
		if terr != nil || !at.Before(before) {
			continue // it has no outcome, or a later one
		}
		if derr := p.home.Sessions.Delete(i.Session); derr != nil {
			err = errors.Join(err, derr)
			continue
		}
		ids = append(ids, i.Session)
	}
	return ids, err
}

// Items returns the open work of the parent, in no order.
func (p *Parent) Items() (items []*Item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.items {
		items = append(items, i)
	}
	return items
}

// Owed returns what was delivered and has no answer after it: work, by its ID, and users'
// answers, by the question's ID and who answered. The list is empty after more than wakes
// deliveries since the last user message.
func (p *Parent) Owed(wakes int) (owed []record.Work, err error) {
	s, err := p.home.Sessions.Read(p.log.ID())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	c, err := s.LenientContext()
	if err != nil {
		return nil, err
	}
	deliveries, asked := 0, make(map[string]string)
	for l, err := range s.Lines(c.Start) {
		if err != nil {
			return nil, err
		}
		if l.Kind == record.KindUnknown {
			if w, ok := record.ParseWork(l.Raw); ok {
				q := cmp.Or(w.Ask, &w) // of an open record, or of an ask
				asked[record.AskID(q.N)] = cmp.Or(q.To, asked[record.AskID(q.N)])
			}
		}
		if l.Kind != record.KindMessage {
			continue
		}
		switch m, keys := l.Message, record.WorkKeys(l.Raw); {
		case len(keys) > 0 && record.IsCron(keys[0]): // a text that its user has received
		case m.Role == record.RoleUser && len(keys) > 0:
			if deliveries++; slices.ContainsFunc(keys, record.IsAnswer) {
				deliveries = 1 // the user wrote it
			}
			for _, key := range keys {
				id, _, _ := strings.Cut(key, ".")
				owed = append(owed, record.Work{ID: id, To: asked[id]})
			}
		case m.Role == record.RoleUser:
			owed, deliveries = nil, 0
		case m.Role == record.RoleAssistant && len(m.ToolCalls) == 0:
			owed = nil
		}
	}
	if deliveries > wakes {
		owed = nil
	}
	return owed, nil
}
