package session

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"unsafe"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"

	"golang.org/x/sync/semaphore"
)

// User is the sender of a request without one.
const User = "user"

// Request names the session of a run.
type Request struct {
	Agent, Sender string  // empty: defaults
	Session       *uint64 // number of a loaded session
	Dir, Resume   *string // working directory; stored session
	NewChat       bool    // create a session
	Content       string  // of the first message; titles a session that is created
	ID            string  // of the client's request; empty: none
	Fresh         bool    // no earlier request has ID
	Workspace     string  // real path of the workspace of Dir; empty: none
}

// adopt returns a new session with an open log. The caller holds its run slot.
func (m *Manager) adopt(log *sessionlog.Log, dir string) *Session {
	meta := log.Meta()
	l := &Session{
		agent: meta.Agent, createdBy: meta.CreatedBy, workspace: meta.Workspace, log: log, dir: dir, inherited: tool.Unbounded(),
		slot: semaphore.NewWeighted(1), done: make(chan struct{}), work: meta.IsWork(),
	}
	l.setTitle(meta.Title)
	l.alive.Store(int64(meta.UptimeSecs))
	l.slot.TryAcquire(1) // succeeds: the session is not published yet
	m.add(l)
	return l
}

// Create returns a new session, whose runs never exceed scope. If meta has no
// title, Create titles the session with the first line of its first message, text,
// unless [sessions] titles is off.
func (m *Manager) Create(meta sessionlog.Meta, text, dir string, scope tool.Scope) (*Session, error) {
	first := ""
	if meta.Title == "" {
		first = m.firstTitle(text)
		meta.Title = first
	}
	meta.Project = sessionlog.ProjectOf(m.o.FS, dir)
	log, err := m.o.Logs.Create(meta)
	if err != nil {
		return nil, err
	}
	l := m.adopt(log, dir)
	l.unused, l.firstTitle = true, first
	l.inherited = scope
	m.release(l)
	m.evictIdle()
	return l, nil
}

// byLog returns the session of a stored ID, or nil if it is not loaded. It waits
// until the file of a killed session is closed, because a file has one writer.
// The caller has locked the stored ID.
func (m *Manager) byLog(ctx context.Context, id string) (*Session, error) {
	for {
		l := m.find(func(l *Session) bool { return l.log.ID() == id })
		if l == nil || !l.dead() {
			return l, nil
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Open returns the session of a stored ID and loads it if necessary. dir, if not
// empty, becomes its working directory.
func (m *Manager) Open(ctx context.Context, id, dir string) (*Session, error) {
	unlock, err := m.stored.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if l, err := m.byLog(ctx, id); l != nil || err != nil {
		if l != nil && dir != "" {
			l.setDir(dir)
		}
		return l, err
	}
	log, err := m.o.Logs.Open(id)
	if err != nil {
		return nil, err
	}
	l := m.adopt(log, dir)
	err = m.load(l)
	if err != nil {
		l.kill(err)
	}
	m.release(l)
	m.evictIdle()
	return l, err
}

// OpenWork returns the session of a stored ID that does work, as Open does. Its runs
// never exceed scope.
func (m *Manager) OpenWork(ctx context.Context, id, dir string, scope tool.Scope) (*Session, error) {
	l, err := m.Open(ctx, id, dir)
	if err == nil {
		l.inherited = scope
	}
	return l, err
}

// load reads the session's messages unless they are loaded. The caller holds the
// run slot.
func (m *Manager) load(l *Session) error {
	if l.session != nil {
		return nil
	}
	c, err := l.log.Context()
	if err != nil {
		return err
	}
	m.recoverFlush(l.log)
	s := &agent.Session{ID: l.id, Log: l.log, CreatedBy: l.createdBy, Workspace: l.workspace, Messages: c.Messages, Streamed: c.Streamed, Failed: c.Failed}
	if c.Compacted {
		all, err := m.compactions(l.log.ID())
		if err != nil {
			return err
		}
		s.Compactions = len(all)
		s.Unarchived = m.unarchived(l.log.ID(), all, len(c.Messages) > 1)
	}
	m.hold(l, s)
	of, err := m.setup(l.workspace)
	if a := of.Agents[l.agent]; err == nil && a != nil && len(s.Unarchived) > 0 {
		if _, err := of.Runner.ArchivePending(a, s); err != nil {
			m.o.Log.Warn("archive summary", "session", l.log.ID(), "error", err)
		}
	}
	return nil
}

// hold sets the history of a session, or unloads it if s is nil, and counts its
// bytes. The caller holds the run slot.
func (m *Manager) hold(l *Session, s *agent.Session) {
	l.session = s
	size := 0
	if s != nil {
		l.messages.Store(int64(len(s.Messages)))
		size = agent.Size(s.Messages) + len(s.Messages)*int(unsafe.Sizeof(sessionlog.Message{})) // texts may be short
		for i := range s.Messages {
			size += len(s.Messages[i].ToolCalls) * int(unsafe.Sizeof(sessionlog.ToolCall{}))
		}
	}
	m.loaded.Add(int64(size) - l.bytes.Swap(int64(size)))
}

func (m *Manager) compactions(id string) ([]sessionlog.Compaction, error) {
	s, err := m.o.Logs.Read(id)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Compactions()
}

// Resolve returns the session of a request: by number, by file, or else the
// latest session of the agent and the sender in the workspace. It creates one if
// there is none or the request asks for a new chat. If the request names no agent,
// Resolve uses the default agent and sets q.Agent to the session's.
func (m *Manager) Resolve(ctx context.Context, q *Request) (*Session, error) {
	named := q.Agent != ""
	if !named {
		s, err := m.setup(q.Workspace)
		if err != nil {
			return nil, err
		}
		q.Agent = s.DefaultAgent()
	}
	l, err := m.resolve(ctx, q)
	if err == nil && !named {
		q.Agent = l.agent
	}
	return l, err
}

func (m *Manager) resolve(ctx context.Context, q *Request) (*Session, error) {
	if q.Session != nil {
		return m.Get(*q.Session)
	}
	dir := ""
	if q.Dir != nil {
		if dir = *q.Dir; !filepath.IsAbs(dir) {
			return nil, errtable.Invalidf("cwd %q: want an absolute path", dir)
		}
		real, err := m.o.FS.Resolve(dir)
		if err != nil {
			real = dir // a link, or an error of Lstat
		}
		if fi, err := m.o.FS.Lstat(real); err != nil || !fi.IsDir() {
			return nil, errtable.Invalidf("cwd %q: not a directory", dir)
		}
	}
	if q.Resume != nil {
		id, err := m.storedID(*q.Resume)
		if err != nil {
			return nil, err
		}
		return m.Open(ctx, id, dir)
	}
	s, err := m.setup(q.Workspace)
	if err != nil {
		return nil, err
	}
	if _, ok := s.Agents[q.Agent]; !ok {
		return nil, notRegistered(q.Agent)
	}
	by := cmp.Or(q.Sender, User)
	create := func() (*Session, error) {
		return m.Create(sessionlog.Meta{Agent: q.Agent, CreatedBy: by, Request: q.ID, Workspace: q.Workspace}, q.Content, dir, tool.Unbounded())
	}
	if q.NewChat && (q.ID == "" || q.Fresh) {
		return create()
	}
	unlock, err := m.identities.lock(ctx, q.Agent+"\x00"+by+"\x00"+q.Workspace)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if q.NewChat {
		id, err := m.o.Logs.CreatedFor(q.Agent, by, q.ID)
		if errors.Is(err, sessionlog.ErrNotFound) {
			return create()
		}
		if err != nil {
			return nil, err
		}
		return m.Open(ctx, id, dir)
	}
	if l := m.find(func(l *Session) bool {
		return l.agent == q.Agent && l.createdBy == by && l.workspace == q.Workspace && !l.dead()
	}); l != nil {
		if dir != "" {
			l.setDir(dir)
		}
		return l, nil
	}
	var l *Session
	id, err := m.o.Logs.Latest(q.Agent, by, q.Workspace)
	if err == nil {
		l, err = m.Open(ctx, id, dir) // not found: Discard removed it after Latest
	}
	if errors.Is(err, sessionlog.ErrNotFound) {
		return create()
	}
	return l, err
}

func notRegistered(name string) error {
	return errtable.Errorf(500, "unknown_agent", "agent '%s' not registered", name)
}

// storedID returns the ID of the session in a file. name is an ID, a file name,
// or a path, and must lead to a file in the sessions folder: clients may not
// read other files.
func (m *Manager) storedID(name string) (string, error) {
	outside := errtable.Invalidf("resume_file %q: not a session of %s", name, m.o.Logs.Path())
	if filepath.IsAbs(name) || strings.ContainsAny(name, `/\`) {
		real, err := m.o.FS.Resolve(name)
		if err != nil || filepath.Dir(real) != m.o.Logs.Path() {
			return "", outside
		}
		name = filepath.Base(real)
	}
	if name == "" || strings.HasPrefix(name, ".") {
		return "", outside
	}
	s, err := m.o.Logs.Read(name)
	if err != nil {
		return "", err
	}
	defer s.Close()
	if s.Size == 0 {
		return "", errtable.Errorf(500, "format", "empty session file")
	}
	return s.ID, nil
}

func (l *Session) setDir(dir string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dir = dir
}

// Named returns the session of a request by its number or, if stored is not
// empty, by its file, which it opens.
func (m *Manager) Named(ctx context.Context, number uint64, stored string) (*Session, error) {
	if stored == "" {
		return m.Get(number)
	}
	id, err := m.storedID(stored)
	if err != nil {
		return nil, err
	}
	return m.Open(ctx, id, "")
}

// SetTitle sets the title of a session that is loaded. It does not write the
// file.
func (m *Manager) SetTitle(stored, title string) {
	if l := m.find(func(l *Session) bool { return l.log.ID() == stored }); l != nil {
		l.setTitle(title)
	}
}
