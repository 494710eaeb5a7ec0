package daemon

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

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
	buried           bool                // its file is closed; who has the turn may look
	gone             chan struct{}       // closed with the file

	title    atomic.Pointer[string] // the log's own lock may be held for long
	messages atomic.Int64           // of the history
	bytes    atomic.Int64           // of the history, while it is loaded
	alive    atomic.Int64           // seconds of runs
	waiting  atomic.Int32           // runs that want their turn
	used     atomic.Int64           // when it was last asked for, as a count of the daemon's

	mu     sync.Mutex
	dir    string                  // working directory
	cancel context.CancelCauseFunc // of the run that goes on; nil is none
	killed error                   // why nobody finds it any more
}

var (
	errKilled    = errors.New("the session was killed")
	errCancelled = errors.New("cancelled on request")

	errPutAway    = &failure{code: 503, kind: "busy", text: "the session was put away to make room", remedy: "do it again"}
	errLogStopped = errors.New("the session's file could not be written")
)

// maxLoaded bounds the histories that are kept in memory, in bytes, beside
// those of runs that go on.
const maxLoaded = 8 << 20

// sessions are those that the daemon has.
type sessions struct {
	// One at a time looks an identity up, and one a stored session: that may
	// wait for another process, and keeps nobody else waiting. An identity is
	// locked before the session.
	identities, stored names
	clock              atomic.Int64
	loaded             atomic.Int64 // bytes of histories

	mu   sync.Mutex // taken before a session's
	next uint64
	byID map[uint64]*live // with those that were killed, until their runs have ended
}

// list returns them by id, without those that were killed.
func (s *sessions) list() []*live { return slices.DeleteFunc(s.all(), (*live).dead) }

func (s *sessions) all() []*live {
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
	if l == nil || l.dead() {
		return nil, noSession(id)
	}
	l.used.Store(s.clock.Add(1))
	return l, nil
}

func noSession(id uint64) error {
	return refuse(500, "not_found", "session %d not found", id)
}

// find returns the session that was used last of those that fit. It may have
// been killed.
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

// remove forgets a session whose file is closed.
func (s *sessions) remove(l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, l.id)
}

// adopt makes an open log a session of the daemon. The caller has its turn.
func (d *Daemon) adopt(log *sessionlog.Log, dir string) *live {
	m := log.Meta()
	l := &live{
		agent: m.Agent, createdBy: m.CreatedBy, log: log, dir: dir, scope: tool.Unbounded(),
		turn: semaphore.NewWeighted(1), gone: make(chan struct{}),
	}
	l.title.Store(&m.Title)
	l.alive.Store(int64(m.UptimeSecs))
	if remote(m.CreatedBy) {
		l.scope = l.scope.Remote()
	}
	l.turn.TryAcquire(1) // nobody else knows of it
	d.live.add(l)
	return l
}

// remote reports whether an identity is that of somebody on another service, as
// tg:7 is. Such a one gets no shell, whatever was said or summarised since.
func remote(identity string) bool { return strings.Contains(identity, ":") }

// create begins a session.
func (d *Daemon) create(m sessionlog.Meta, dir string, scope tool.Scope) (*live, error) {
	log, err := d.sessions.Create(m)
	if err != nil {
		return nil, err
	}
	l := d.adopt(log, dir)
	l.scope = l.scope.And(scope)
	d.release(l)
	d.putAway()
	return l, nil
}

// byLog returns the session of a stored id, if it is live. For one that was
// killed it waits until its run has ended: the file has one writer. The caller
// has locked the stored id.
func (d *Daemon) byLog(ctx context.Context, id string) (*live, error) {
	for {
		l := d.live.find(func(l *live) bool { return l.log.ID() == id })
		if l == nil || !l.dead() {
			return l, nil
		}
		select {
		case <-l.gone:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// open returns the session of a stored id: the one that is live, if it is.
func (d *Daemon) open(ctx context.Context, id, dir string) (*live, error) {
	unlock, err := d.live.stored.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if l, err := d.byLog(ctx, id); l != nil || err != nil {
		if l != nil && dir != "" {
			l.setDir(dir)
		}
		return l, err
	}
	log, err := d.sessions.Open(id)
	if err != nil {
		return nil, err
	}
	l := d.adopt(log, dir)
	err = d.load(l)
	if err != nil {
		l.kill(err)
	}
	d.release(l)
	d.putAway()
	return l, err
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
		all, err := d.compactions(l.log.ID())
		if err != nil {
			return err
		}
		s.Compactions = len(all)
		s.Unarchived = d.unarchived(l.log.ID(), all, len(c.Messages) > 1)
	}
	d.hold(l, s)
	if a := d.setup().agents[l.agent]; a != nil && len(s.Unarchived) > 0 {
		if _, err := d.setup().runner.ArchivePending(a, s); err != nil {
			d.log.Warn("a summary is not in the store yet", "session", l.log.ID(), "error", err)
		}
	}
	return nil
}

// hold keeps what is loaded of a session, or nothing, and counts it. The caller
// has the turn.
func (d *Daemon) hold(l *live, s *agent.Session) {
	l.session = s
	size := 0
	if s != nil {
		l.messages.Store(int64(len(s.Messages)))
		size = agent.Size(s.Messages) + len(s.Messages)*int(unsafe.Sizeof(sessionlog.Message{})) // texts may be short
		for i := range s.Messages {
			size += len(s.Messages[i].ToolCalls) * int(unsafe.Sizeof(sessionlog.ToolCall{}))
		}
	}
	d.live.loaded.Add(int64(size) - l.bytes.Swap(int64(size)))
}

func (d *Daemon) compactions(id string) ([]sessionlog.Compaction, error) {
	s, err := d.sessions.Read(id)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Compactions()
}

// resolve returns the session of a request: by number, by file, or else the
// latest session of the agent and the sender. It creates one if there is none
// or the request asks for a new chat.
func (d *Daemon) resolve(ctx context.Context, q *begin) (*live, error) {
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
	if q.resume != nil {
		id, err := d.storedID(*q.resume)
		if err != nil {
			return nil, err
		}
		return d.open(ctx, id, dir)
	}
	if _, ok := d.setup().agents[q.agent]; !ok {
		return nil, notRegistered(q.agent)
	}
	by := q.sender
	if by == "" {
		by = "user"
	}
	if q.newChat {
		return d.create(sessionlog.Meta{Agent: q.agent, CreatedBy: by}, dir, tool.Unbounded())
	}
	unlock, err := d.live.identities.lock(ctx, q.agent+"\x00"+by)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if l := d.live.find(func(l *live) bool { return l.agent == q.agent && l.createdBy == by && !l.dead() }); l != nil {
		if dir != "" {
			l.setDir(dir)
		}
		return l, nil
	}
	id, err := d.sessions.Latest(q.agent, by)
	switch {
	case errors.Is(err, sessionlog.ErrNotFound):
		return d.create(sessionlog.Meta{Agent: q.agent, CreatedBy: by}, dir, tool.Unbounded())
	case err != nil:
		return nil, err
	}
	return d.open(ctx, id, dir)
}

func notRegistered(name string) error {
	return refuse(500, "unknown_agent", "agent '%s' not registered", name)
}

// storedID returns the id of the session that a client wants to resume. A name
// or path must lead to a file of the sessions folder: clients may not read
// other files.
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
func (d *Daemon) begin(ctx context.Context, l *live, cancel context.CancelCauseFunc) (dir string, err error) {
	l.waiting.Add(1)
	err = l.turn.Acquire(ctx, 1)
	l.waiting.Add(-1)
	if err != nil {
		return "", context.Cause(ctx)
	}
	l.mu.Lock()
	killed := l.killed
	if killed == nil {
		l.cancel, dir = cancel, l.dir
	}
	l.mu.Unlock()
	if killed != nil {
		d.release(l)
		return "", killed
	}
	return dir, nil
}

// end gives the turn back, and takes note of what became of the session. One
// whose log was not written is read anew: what was said and what is in the file
// may differ.
func (d *Daemon) end(l *live, began time.Time, err error) {
	l.alive.Add(int64(d.now().Sub(began) / time.Second))
	d.hold(l, l.session)
	for _, lost := range unwritten {
		if errors.Is(err, lost) {
			d.hold(l, nil)
			break
		}
	}
	l.mu.Lock()
	l.cancel = nil
	l.mu.Unlock()
	if errors.Is(err, sessionlog.ErrUnknown) || errors.Is(err, sessionlog.ErrStopped) {
		// The log takes no more. Another is opened by the next who asks.
		l.kill(errLogStopped)
	}
	d.release(l)
	d.putAway()
}

var unwritten = []error{sessionlog.ErrNotApplied, sessionlog.ErrUnknown, sessionlog.ErrStopped, sessionlog.ErrClosed, sessionlog.ErrInvalid}

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

// dead reports whether the session was killed.
func (l *live) dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.killed != nil
}

// kill ends the session: nobody finds it any more, and its run ends soon. false
// when somebody else did.
func (l *live) kill(why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.killed != nil {
		return false
	}
	l.killed = why
	if l.cancel != nil {
		l.cancel(why)
	}
	return true
}

// drop kills a session. Its file is closed now, or by who has the turn.
func (d *Daemon) drop(l *live) bool {
	if !l.kill(errKilled) {
		return false
	}
	d.asks.cancel(l.id)
	d.bury(l)
	return true
}

// release gives a turn back.
func (d *Daemon) release(l *live) {
	l.turn.Release(1)
	// Whoever kills the session now finds that the turn is free; who did before
	// found that it was not.
	d.bury(l)
}

// bury closes the file of a session that was killed, unless somebody has its
// turn: that one does it then.
func (d *Daemon) bury(l *live) {
	if !l.dead() || !l.turn.TryAcquire(1) {
		return
	}
	d.closeLog(l)
	l.turn.Release(1)
}

// closeLog closes the file of a session that was killed. The caller has the
// turn.
func (d *Daemon) closeLog(l *live) {
	if l.buried {
		return
	}
	l.buried = true
	d.files.Forget(l.id)
	d.hold(l, nil)
	if err := l.log.Close(); err != nil {
		d.log.Warn("closing a session", "session", l.log.ID(), "error", err)
	}
	d.live.remove(l)
	close(l.gone)
}

// justFound is how many sessions may be asked for at one time.
const justFound = 64

// putAway frees what was not used for longest: histories beyond maxLoaded, which
// are read again when they are needed, and sessions beyond [limits] sessions,
// which are not live any more. Their files stay.
func (d *Daemon) putAway() {
	d.live.mu.Lock()
	n := len(d.live.byID)
	d.live.mu.Unlock()
	// A tenth more at a time, so that it is seldom done.
	limit := d.setup().config.Limits.Sessions
	over := n > limit+limit/10
	if !over && d.live.loaded.Load() <= maxLoaded {
		return
	}
	list := d.live.list()
	slices.SortFunc(list, func(a, b *live) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	for _, l := range list {
		switch {
		case over && n > limit:
			// One that was found just now is about to be used.
			if l.idle() && l.used.Load() < d.live.clock.Load()-justFound && l.kill(errPutAway) {
				d.bury(l)
				n--
			}
		case d.live.loaded.Load() > maxLoaded/10*9:
			if l.bytes.Load() > 0 && l.turn.TryAcquire(1) {
				d.hold(l, nil)
				d.release(l)
			}
		default:
			return
		}
	}
}

// idle reports whether nobody has the turn or waits for it.
func (l *live) idle() bool { return !l.active() && l.waiting.Load() == 0 }
