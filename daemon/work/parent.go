package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// Home is a home directory with sessions that give out work.
type Home struct {
	FS       vfs.FS
	Path     string
	Sessions *sessionlog.Dir
	Now      func() time.Time
	// External reports whether another program does the work of an agent, and whether
	// that program can continue it after a restart. nil: no agent.
	External func(agent string) (external, resumes bool)
	// Warn receives a line per anomaly.
	Warn func(string)
}

// folder contains an empty file for each session with open work.
const folder = "work"

func (h *Home) file(parent string) string { return filepath.Join(h.Path, folder, parent) }

func (h *Home) now() string { return record.Timestamp(h.Now()) }

// Parent is a session that gives out work. It is safe for concurrent use. After a
// [sessionlog.ErrUnknown] it must be closed and opened again.
type Parent struct {
	home *Home
	log  *sessionlog.Log

	mu      sync.Mutex
	items   map[string]*Item // open work
	inbox   []Outcome        // not delivered, in the order of their ends
	marked  bool             // the file of the parent exists
	unknown bool             // the result of a write
}

// Spawn describes work.
type Spawn struct {
	Kind, Agent, Task string
	Interactive       bool
	Scope             json.RawMessage // of the work, at most record.MaxScope bytes
	From              *record.WorkFrom
}

// Spawn creates work, with the next ID of its kind. If Spawn returns nil, the work is
// durable, and the parent is owed an outcome. The child has no message.
func (p *Parent) Spawn(s Spawn) (*Item, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	open, err := p.ready()
	if err != nil {
		return nil, err
	}
	n := open.Next.B
	if s.Kind == record.Worker {
		n = open.Next.W
	}
	if s.Kind != record.Worker && s.Kind != record.Branch {
		return nil, fmt.Errorf("spawn work: no such kind: %q", s.Kind)
	}
	if err := p.mark(); err != nil {
		return nil, err
	}
	w := record.Work{ID: record.WorkID(s.Kind, n), Op: record.WorkStart, Kind: s.Kind, Agent: s.Agent, Task: s.Task,
		Interactive: s.Interactive, Scope: s.Scope, From: s.From, At: p.home.now()}
	m := p.log.Meta()
	child, err := p.home.Sessions.Create(m.WorkMeta(p.log.ID(), w.ID, s.Agent))
	if err != nil {
		return nil, err
	}
	w.Session = child.ID()
	if err := p.log.AppendWork(w); err != nil {
		if errors.Is(err, sessionlog.ErrUnknown) { // the child may be needed
			return nil, errors.Join(err, child.Close())
		}
		_, derr := child.Discard()
		return nil, errors.Join(err, derr)
	}
	w.Op = ""
	i := &Item{Work: w, parent: p, log: child, p: spawned()}
	p.items[w.ID] = i
	return i, nil
}

// mark makes the file of the parent durable, before its first start.
func (p *Parent) mark() error {
	if p.marked {
		return nil
	}
	dir := filepath.Join(p.home.Path, folder)
	if err := vfs.MkdirAll(p.home.FS, dir, 0o700); err != nil {
		return err
	}
	f, err := p.home.FS.OpenFile(p.home.file(p.log.ID()), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), p.home.FS.SyncDir(dir)); err != nil {
		return errors.Join(err, p.home.FS.Remove(p.home.file(p.log.ID()))) // what is visible is taken for durable
	}
	p.marked = true
	return nil
}

// Tidy removes the file of a parent without open work. The caller knows that the parent
// has answered its outcomes: recovery does not look at a parent without the file.
func (p *Parent) Tidy() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.marked || len(p.items) > 0 || len(p.inbox) > 0 {
		return
	}
	if err := p.home.unmark(p.log.ID()); err != nil { // recovery removes the file
		p.home.warn("%v", err)
		return
	}
	p.marked = false
}

func (h *Home) unmark(parent string) error {
	if err := h.FS.Remove(h.file(parent)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return h.FS.SyncDir(filepath.Join(h.Path, folder))
}

func (h *Home) warn(format string, args ...any) {
	if h.Warn != nil {
		h.Warn(fmt.Sprintf(format, args...))
	}
}

// ID returns the ID of the session.
func (p *Parent) ID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.ID()
}

// Meta returns the meta line of the session.
func (p *Parent) Meta() sessionlog.Meta {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Meta()
}

// put adds an outcome to the inbox.
func (p *Parent) put(o Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inbox = append(p.inbox, o)
}

// Inbox returns the number of outcomes that are not delivered.
func (p *Parent) Inbox() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.inbox)
}

// maxDelivered limits the outcomes of one delivery.
const maxDelivered = 100

// Deliver appends a user message with the outcomes of the inbox to the parent. The
// caller has the parent's run slot. content returns the text of the message. If Deliver
// returns nil, the outcomes are durable in the parent, and not in the inbox.
func (p *Parent) Deliver(content func([]Outcome) string) ([]Outcome, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.ready(); err != nil {
		return nil, err
	}
	out := p.inbox[:min(len(p.inbox), maxDelivered)]
	if len(out) == 0 {
		return nil, nil
	}
	m := sessionlog.Message{Role: record.RoleUser, Content: content(slices.Clone(out))}
	for i := range out {
		m.Work = append(m.Work, out[i].Key())
	}
	if err := p.log.Append(m); err != nil { // ◄ the commit point of the delivery
		p.unknown = stopped(err)
		return nil, err
	}
	p.inbox = slices.Clone(p.inbox[len(out):])
	closed := false
	for _, o := range out {
		if i := p.items[o.ID]; i != nil && o.State != record.Waiting {
			closed = closed || i.Interactive
			delete(p.items, o.ID)
		}
	}
	if closed { // the message alone does not close interactive work
		if err := p.writeOpen(); err != nil {
			p.home.warn("%s: close delivered work: %v", p.log.ID(), err) // recovery closes it
		}
	}
	return out, nil
}

// stopped reports whether an error means that a log is to be opened again.
func stopped(err error) bool {
	return errors.Is(err, sessionlog.ErrUnknown) || errors.Is(err, sessionlog.ErrStopped)
}

// ready returns the open work. It opens the log again if a write had an unknown result. The
// caller holds mu.
func (p *Parent) ready() (open record.OpenWork, err error) {
	if p.unknown {
		if err := p.again(); err != nil {
			return open, err
		}
	}
	open, err = p.log.OpenWork()
	p.unknown = stopped(err)
	return open, err
}

// again opens the log again, and removes from the inbox what a write with an unknown result
// has delivered. The caller holds mu.
func (p *Parent) again() error {
	l, err := p.home.Sessions.Open(p.log.ID())
	if err != nil {
		return err
	}
	if err := p.log.Close(); err != nil {
		p.home.warn("%v", err)
	}
	p.log = l
	open, err := l.OpenWork()
	if err != nil {
		return err
	}
	p.unknown = false
	p.inbox = slices.DeleteFunc(p.inbox, func(out Outcome) bool {
		if record.IsAnswer(out.ID) {
			return open.Ask == nil || record.AskID(open.Ask.N) != out.ID
		}
		i := slices.IndexFunc(open.Items, func(w record.Work) bool { return w.ID == out.ID })
		given := i < 0 || out.N <= open.Items[i].N
		if given && out.State != record.Waiting {
			delete(p.items, out.ID)
		}
		return given
	})
	return nil
}

// writeOpen appends an open record with the work in items. The caller holds mu.
func (p *Parent) writeOpen(more ...record.Work) error {
	o, err := p.log.OpenWork()
	if err != nil {
		return err
	}
	o.Items = slices.DeleteFunc(o.Items, func(w record.Work) bool {
		return p.items[w.ID] == nil || slices.ContainsFunc(more, func(m record.Work) bool { return m.ID == w.ID })
	})
	o.Items = append(o.Items, more...)
	return p.log.AppendWork(o.Record())
}

// reopen adds work to the open work again. All its outcomes must be delivered. The caller
// holds the mutex of the work.
func (p *Parent) reopen(i *Item) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.inbox, func(o Outcome) bool { return o.ID == i.ID }) {
		return fmt.Errorf("%w: the outcome of %s is not delivered", ErrTransition, i.ID)
	}
	if other := p.items[i.ID]; other != nil && other != i {
		return fmt.Errorf("%w: %s continues already", ErrTransition, i.ID)
	}
	if err := p.mark(); err != nil {
		return err
	}
	if _, _, err := i.read(); err != nil { // another Item may have continued it
		return err
	}
	w := i.Work
	w.N = i.p.ends
	if err := p.writeOpen(w); err != nil {
		return err
	}
	p.items[i.ID] = i
	return nil
}

// Item returns work by its ID, also work that has ended. It reads the parent's file for
// work that is not open. The error is [sessionlog.ErrNotFound] for an unknown ID.
func (p *Parent) Item(id string) (*Item, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.items[id]; i != nil {
		return i, nil
	}
	list, err := p.started(id)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: work %q of %s", sessionlog.ErrNotFound, id, p.log.ID())
	}
	if err != nil {
		return nil, err
	}
	_, _, err = list[0].read()
	return list[0], err
}

// All returns all work of the parent in the order of its starts, also work that has
// ended. It omits work whose session does not exist.
func (p *Parent) All() (list []*Item, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	started, err := p.started("")
	for _, i := range started {
		if open := p.items[i.ID]; open != nil {
			i = open
		} else if _, _, err := i.read(); gone(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, err
}

// started returns the work with an ID, or all work if id is "", as the parent's file
// starts it.
func (p *Parent) started(id string) (list []*Item, err error) {
	s, err := p.home.Sessions.Read(p.log.ID())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for l, err := range s.Lines(0) {
		if err != nil {
			return nil, err
		}
		if w, ok := record.ParseWork(l.Raw); ok && l.Kind == record.KindUnknown && w.Op == record.WorkStart && (id == "" || w.ID == id) {
			w.Op = ""
			list = append(list, &Item{Work: w, parent: p})
		}
	}
	return list, nil
}

// Abandon closes the parent. Its work is not recovered: it has ended, and its outcomes are
// not delivered.
func (p *Parent) Abandon() error { return errors.Join(p.home.unmark(p.log.ID()), p.Close()) }

// Close closes the files of the parent and of its work.
func (p *Parent) Close() error {
	p.mu.Lock()
	items := p.items
	p.items = map[string]*Item{}
	p.mu.Unlock()
	var err error
	for _, i := range items {
		i.mu.Lock()
		err = errors.Join(err, i.closeLog())
		i.mu.Unlock()
	}
	return errors.Join(err, p.log.Close())
}
