package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"

	"golang.org/x/sync/semaphore"
)

// live is a session that the daemon has. What identifies it never changes and
// is read without a lock: listing sessions waits for no run.
type live struct {
	id               uint64 // in this daemon, from 1
	agent, createdBy string
	log              *sessionlog.Log
	scope            tool.Scope          // bounds what runs in it may do
	turn             *semaphore.Weighted // of one; who has it may use session. First come, first served
	session          *agent.Session      // nil until it is loaded, and when it was put away

	messages atomic.Int64 // of the history
	alive    atomic.Int64 // seconds of runs
	waiting  atomic.Int32 // runs that want their turn
	used     atomic.Int64 // when it was last asked for, as a count of the daemon's

	mu     sync.Mutex
	dir    string                  // working directory
	cancel context.CancelCauseFunc // of the run that goes on; nil is none
	killed bool
}

var (
	errKilled    = errors.New("the session was killed")
	errCancelled = errors.New("cancelled on request")
)

// sessions are those that the daemon has.
type sessions struct {
	opening sync.Mutex // one at a time is looked up, opened or created; taken before mu
	clock   atomic.Int64

	mu   sync.Mutex
	next uint64
	byID map[uint64]*live
}

// list returns them by id.
func (s *sessions) list() []*live {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*live, 0, len(s.byID))
	for _, l := range s.byID {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b *live) int { return int(int64(a.id) - int64(b.id)) })
	return list
}

func (s *sessions) get(id uint64) (*live, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byID[id]
	if l == nil {
		return nil, noSession(id)
	}
	l.used.Store(s.clock.Add(1))
	return l, nil
}

func noSession(id uint64) error {
	return refuse(500, "not_found", "session %d not found", id)
}

// find returns the session that was used last of those that fit.
func (s *sessions) find(fits func(*live) bool) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *live
	for _, l := range s.byID {
		if fits(l) && (found == nil || l.used.Load() > found.used.Load()) {
			found = l
		}
	}
	if found != nil {
		found.used.Store(s.clock.Add(1))
	}
	return found
}

func (s *sessions) add(l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = make(map[uint64]*live)
	}
	s.next++
	l.id = s.next
	l.used.Store(s.clock.Add(1))
	s.byID[l.id] = l
}

// take removes a session; false when it is gone already.
func (s *sessions) take(l *live) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[l.id] != l {
		return false
	}
	delete(s.byID, l.id)
	return true
}

// adopt makes an open log a session of the daemon.
func (d *Daemon) adopt(log *sessionlog.Log, dir string) *live {
	m := log.Meta()
	l := &live{
		agent: m.Agent, createdBy: m.CreatedBy, log: log, dir: dir, scope: tool.Unbounded(),
		turn: semaphore.NewWeighted(1),
	}
	l.alive.Store(int64(m.UptimeSecs))
	if remote(m.CreatedBy) {
		l.scope = l.scope.Remote()
	}
	d.live.add(l)
	return l
}

// remote reports whether an identity is that of somebody on another service, as
// tg:7 is. Such a one gets no shell, whatever was said or summarised since.
func remote(identity string) bool { return strings.Contains(identity, ":") }

// create begins a session.
func (d *Daemon) create(m sessionlog.Meta, dir string) (*live, error) {
	log, err := d.sessions.Create(m)
	if err != nil {
		return nil, err
	}
	return d.adopt(log, dir), nil
}

// open returns the session of a stored id: the one that is live, if it is.
func (d *Daemon) open(id, dir string) (*live, error) {
	if l := d.live.find(func(l *live) bool { return l.log.ID() == id }); l != nil {
		return l, nil
	}
	log, err := d.sessions.Open(id)
	if err != nil {
		return nil, err
	}
	if log.Meta().Source != "" {
		err := fmt.Errorf("%w: %s was imported", sessionlog.ErrReadOnly, id)
		return nil, errors.Join(err, log.Close())
	}
	l := d.adopt(log, dir)
	if err := d.load(l); err != nil {
		d.live.take(l)
		return nil, errors.Join(err, log.Close())
	}
	return l, nil
}

// load reads the session's messages. Who calls it has the turn, or the session
// to itself.
func (d *Daemon) load(l *live) error {
	if l.session != nil {
		return nil
	}
	c, err := l.log.Context()
	if err != nil {
		return err
	}
	s := &agent.Session{ID: l.id, Log: l.log, CreatedBy: l.createdBy, Messages: c.Messages}
	if c.Compacted {
		if s.Compactions, err = d.compactions(l.log.ID()); err != nil {
			return err
		}
		if len(c.Messages) == 1 {
			// Nothing was said since: the daemon may have died before it had
			// written the entry.
			s.Unarchived = []agent.Summary{{Number: s.Compactions, Text: c.Messages[0].Content}}
		}
	}
	l.session = s
	l.messages.Store(int64(len(c.Messages)))
	if a := d.setup().agents[l.agent]; a != nil && len(s.Unarchived) > 0 {
		if _, err := d.setup().runner.ArchivePending(a, s); err != nil {
			d.log.Warn("a summary is not in the store yet", "session", l.log.ID(), "error", err)
		}
	}
	return nil
}

func (d *Daemon) compactions(id string) (int, error) {
	s, err := d.sessions.Read(id)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	list, err := s.Compactions()
	return len(list), err
}

// resolve returns the session that a request is for (reference-facts 1.7).
func (d *Daemon) resolve(q *begin) (*live, error) {
	if q.session != nil {
		return d.live.get(*q.session)
	}
	dir := ""
	if q.cwd != nil {
		if dir = *q.cwd; !filepath.IsAbs(dir) {
			return nil, invalid("cwd %q: want an absolute path", dir)
		}
		if fi, err := d.fs.Lstat(dir); err != nil || !fi.IsDir() {
			if real, rerr := d.fs.Resolve(dir); rerr == nil {
				fi, err = d.fs.Lstat(real)
			}
			if err != nil || !fi.IsDir() {
				return nil, invalid("cwd %q: not a directory", dir)
			}
		}
	}
	d.live.opening.Lock()
	defer d.live.opening.Unlock()
	if q.resume != nil {
		id, err := d.storedID(*q.resume)
		if err != nil {
			return nil, err
		}
		l, err := d.open(id, dir)
		if err == nil && dir != "" {
			l.setDir(dir)
		}
		return l, err
	}
	if _, ok := d.setup().agents[q.agent]; !ok {
		return nil, notRegistered(q.agent)
	}
	by := q.sender
	if by == "" {
		by = "user"
	}
	if q.newChat {
		return d.create(sessionlog.Meta{Agent: q.agent, CreatedBy: by}, dir)
	}
	if l := d.live.find(func(l *live) bool { return l.agent == q.agent && l.createdBy == by }); l != nil {
		if dir != "" {
			l.setDir(dir)
		}
		return l, nil
	}
	id, err := d.sessions.Latest(q.agent, by)
	switch {
	case errors.Is(err, sessionlog.ErrNotFound):
		return d.create(sessionlog.Meta{Agent: q.agent, CreatedBy: by}, dir)
	case err != nil:
		return nil, err
	}
	return d.open(id, dir)
}

func notRegistered(name string) error {
	return refuse(500, "unknown_agent", "agent '%s' not registered", name)
}

// storedID returns the id of the session that a client wants to go on with. It
// names a file of the folder, by its id, name or path; nothing else (D15).
func (d *Daemon) storedID(name string) (string, error) {
	outside := invalid("resume_file %q: not a session of %s", name, d.sessions.Path())
	if filepath.IsAbs(name) || strings.ContainsAny(name, `/\`) {
		real, err := d.fs.Resolve(name)
		if err != nil || filepath.Dir(real) != d.sessions.Path() {
			return "", outside
		}
		name = filepath.Base(real)
	}
	if name == "" || strings.HasPrefix(name, ".") {
		return "", outside
	}
	s, err := d.sessions.Read(name)
	if err != nil {
		return "", err
	}
	defer s.Close()
	if s.Size == 0 {
		return "", refuse(500, "format", "empty session file")
	}
	return s.ID, nil
}

func (l *live) setDir(dir string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dir = dir
}

// begin waits for the session's turn. end gives it back.
func (l *live) begin(ctx context.Context, cancel context.CancelCauseFunc) (dir string, err error) {
	l.waiting.Add(1)
	err = l.turn.Acquire(ctx, 1)
	l.waiting.Add(-1)
	if err != nil {
		return "", context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.killed {
		l.turn.Release(1)
		return "", errKilled
	}
	l.cancel = cancel
	return l.dir, nil
}

func (l *live) end(began time.Time) {
	l.alive.Add(int64(time.Since(began) / time.Second))
	if l.session != nil {
		l.messages.Store(int64(len(l.session.Messages)))
	}
	l.mu.Lock()
	l.cancel = nil
	l.mu.Unlock()
	l.turn.Release(1)
}

// stop ends the run that goes on, and reports whether there was one.
func (l *live) stop(why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel == nil {
		return false
	}
	l.cancel(why)
	return true
}

func (l *live) active() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cancel != nil
}

// drop removes a session and closes its file, once its run has ended. false
// when somebody else did.
func (d *Daemon) drop(l *live) bool {
	if !d.live.take(l) {
		return false
	}
	l.mu.Lock()
	l.killed = true
	if l.cancel != nil {
		l.cancel(errKilled)
	}
	l.mu.Unlock()
	d.asks.cancel(l.id)
	d.files.Forget(l.id)
	// Runs end soon when they are cancelled.
	_ = l.turn.Acquire(context.Background(), 1)
	if err := l.log.Close(); err != nil {
		d.log.Warn("closing a session", "session", l.log.ID(), "error", err)
	}
	l.session = nil
	l.turn.Release(1)
	return true
}

// putAway frees the messages of sessions that were not used for longest, beyond
// a number that may be loaded.
func (d *Daemon) putAway(keep int) {
	list := d.live.list()
	if len(list) <= keep {
		return
	}
	slices.SortFunc(list, func(a, b *live) int { return int(b.used.Load() - a.used.Load()) })
	for _, l := range list[keep:] {
		if l.turn.TryAcquire(1) {
			if l.session != nil && len(l.session.Unarchived) == 0 {
				l.session = nil
			}
			l.turn.Release(1)
		}
	}
}
