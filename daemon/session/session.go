// Package session runs agents in the sessions that a daemon has in memory.
//
// A [Manager] loads sessions from their files, gives each run the run slot of
// its session, and evicts idle sessions. It also has the tools that belong to a
// run, ask_user and delegate, and archives summaries in the store.
package session

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/approval"
	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
	"crabmem/daemon/tool"
	"crabmem/daemon/usage"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"

	"golang.org/x/sync/semaphore"
)

// Options configure a Manager. All fields but Role, InUse, Rewrites, AskUser, and Notes are
// required.
type Options struct {
	FS   vfs.FS
	Home string // contains archived/
	Dir  string // working directory of sessions without one
	Log  *slog.Logger
	Now  func() time.Time
	Logs *sessionlog.Dir // the files of the sessions
	// Space calls f with the store of a space, for archives. Own returns the space
	// that an agent writes in a workspace.
	Space func(name string, f func(*crmem.Store) error) error
	Own   func(workspace, agent string) string
	Setup func() Setup // the current configuration
	// SetupOf returns the configuration of the sessions in a workspace, or an error if the
	// workspace has no effect. It may be nil.
	SetupOf func(workspace string) (Setup, error)
	// Role applies an agent's role to a copy of it, for a run in a session with a sender, and
	// returns the run's time limit, or 0. It may be nil.
	Role func(a *agent.Agent, s *agent.Session, sender string) (limit time.Duration)
	// Admit returns an error if a limit refuses a run, or else counts it if begins is set.
	// It may be nil.
	Admit func(p usage.Payer, begins bool) error
	// InUse returns an error if work uses a session's files. It may be nil.
	InUse func(id string) error
	// Rewrites is called before a session's file is removed or changes, other than by
	// new messages. It may be nil.
	Rewrites func(id string)
	// AskUser asks a run's user. It returns false for a run whose questions end with it.
	AskUser func(ctx context.Context, t *agent.Turn, questions []agent.Question) (result string, did bool, err error)
	// Notes applies the notes of a flush, all or none, and returns the names of the stored
	// ones. again is set if the store may have them already. Without it, no flush begins.
	Notes func(log *sessionlog.Log, flush record.Work, again bool) (names []string, err error)
	// Forget is called when a session closes; Ran after each run.
	Forget func(id uint64)
	Ran    func(time.Duration)
	// Allow adds prefixes to the configured allowlist of commands.
	Allow func(prefixes []string) error
	// Rules permit commands, without the directory and the allowlist.
	Rules approval.Rules
	Kind  func(error) string // the kind of an error, for programs
}

// Setup is a configuration with its agents. A run uses one Setup to its end.
type Setup struct {
	Config *config.Config
	Runner *agent.Runner
	Agents map[string]*agent.Agent
	// Default is the agent of requests without one; empty: crab.
	Default string
	// InWorkspace has the names of the agents of a workspace, and whether each hides one of the
	// home.
	InWorkspace map[string]bool
}

// DefaultAgent returns the agent of requests without one.
func (s Setup) DefaultAgent() string { return cmp.Or(s.Default, config.Crab) }

// Manager has the loaded sessions of a daemon. It is safe for concurrent use.
type Manager struct {
	o    Options
	asks *asks

	// Each serializes work on one identity and on one stored ID, which may wait
	// for another process. Other identities and IDs do not wait. An identity is
	// locked before a stored ID.
	identities, stored nameLocks
	clock              atomic.Int64 // counts uses of sessions
	loaded             atomic.Int64 // bytes of histories

	archiving sync.Mutex // of changes of the files archived/ID
	flushing  sync.Mutex // of flushes, from their records until they are counted

	background     context.Context // of requests for titles; ends with Stop
	stopBackground context.CancelCauseFunc
	titles         sync.WaitGroup // requests for titles; added to under mu

	mu   sync.Mutex // locked before a session's mu
	next uint64
	byID map[uint64]*Session // with killed sessions until they are closed
}

// New returns a Manager without sessions.
func New(o Options) *Manager {
	m := &Manager{o: o, byID: make(map[uint64]*Session),
		asks: &asks{pending: make(map[uint64]*ask), changed: make(chan struct{}), approved: make(map[uint64][]string)}}
	m.background, m.stopBackground = context.WithCancelCause(context.Background())
	return m
}

// Session is a session in the memory of the daemon. Its identity is immutable
// and readable without a lock, so listing sessions waits for no run.
type Session struct {
	id               uint64 // in this daemon, from 1
	agent, createdBy string
	workspace        string // its real path; empty: none
	log              *sessionlog.Log
	work             bool                // the session does work of another one
	inherited        tool.Scope          // of the run that delegated the session's task; limits its runs
	slot             *semaphore.Weighted // the run slot, first come, first served; its holder may use session
	session          *agent.Session      // nil: not loaded
	closed           bool                // the file is closed; read by the holder of the slot
	done             chan struct{}       // closed with the file
	unused           bool                // a request of this process created it, and it has no message; set by the holder of the slot
	firstTitle       string              // the title that the daemon set, before the first turn ended; set by the holder of the slot
	unrecorded       *failure            // of the last run, which the full disk kept out of the file; set by the holder of the slot

	title    atomic.Pointer[string] // copied: the log may be locked for long
	messages atomic.Int64           // of the history
	bytes    atomic.Int64           // of the history, while it is loaded
	alive    atomic.Int64           // seconds of runs
	waiting  atomic.Int32           // runs that await the slot
	used     atomic.Int64           // clock at the last use

	mu     sync.Mutex
	dir    string                  // working directory
	cancel context.CancelCauseFunc // of the active run; nil: none is active
	killed error                   // why the session ended; nil: it did not
}

// ID returns the number of the session in this daemon.
func (l *Session) ID() uint64 { return l.id }

// StoredID returns the name of the session's file without its extension.
func (l *Session) StoredID() string { return l.log.ID() }

// Agent returns the name of the session's agent.
func (l *Session) Agent() string { return l.agent }

// Workspace returns the real path of the session's workspace, or "".
func (l *Session) Workspace() string { return l.workspace }

// setup returns the configuration of the sessions in a workspace.
func (m *Manager) setup(workspace string) (Setup, error) {
	if workspace == "" || m.o.SetupOf == nil {
		return m.o.Setup(), nil
	}
	return m.o.SetupOf(workspace)
}

// Scope returns the permissions that limit a run in the session for a sender: those
// that the creator of the session and the sender both have in the current
// configuration, and, for a delegated task, those of the run that delegated it.
func (m *Manager) Scope(l *Session, sender string) tool.Scope {
	return l.inherited.Intersect(m.o.Setup().Config.Origins.Scope(l.createdBy, sender))
}

// CreatedBy returns the identity that created the session.
func (l *Session) CreatedBy() string { return l.createdBy }

// Title returns the title.
func (l *Session) Title() string { return *l.title.Load() }

// Messages returns the number of messages when a run last ended.
func (l *Session) Messages() int64 { return l.messages.Load() }

// Alive returns the seconds of all runs.
func (l *Session) Alive() int64 { return l.alive.Load() }

// Waiting returns how many runs await the run slot.
func (l *Session) Waiting() int { return int(l.waiting.Load()) }

// Done returns a channel that is closed after the session's file is.
func (l *Session) Done() <-chan struct{} { return l.done }

var (
	// ErrKilled ends the run of a session that was killed.
	ErrKilled error = &errtable.Error{Kind: errtable.Cancelled, Message: "the session was killed"}
	// ErrCancelled ends a run that a client canceled.
	ErrCancelled error = &errtable.Error{Kind: errtable.Cancelled, Message: "canceled on request"}

	errEvicted    = &errtable.Error{HTTP: http.StatusServiceUnavailable, Kind: "busy", Message: "session evicted: too many sessions", Fix: "retry the request"}
	errDiscarded  = &errtable.Error{HTTP: http.StatusServiceUnavailable, Kind: "busy", Message: "session removed: the daemon rejected its first message", Fix: "retry the request"}
	errLogStopped = errors.New("write session: an earlier write failed")
)

// maxLoaded limits the bytes of loaded histories, without those of active runs.
const maxLoaded = 8 << 20

// LoadedBytes returns the size of the loaded histories.
func (m *Manager) LoadedBytes() int64 { return m.loaded.Load() }

// List returns the sessions by ID, except killed ones. It waits for no run.
func (m *Manager) List() []*Session { return slices.DeleteFunc(m.all(), (*Session).dead) }

// all returns the sessions by ID, with killed ones that are not closed yet.
func (m *Manager) all() []*Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]*Session, 0, len(m.byID))
	for _, l := range m.byID {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b *Session) int { return int(int64(a.id) - int64(b.id)) })
	return list
}

// Get returns a session, or an [*errtable.Error] if it is not loaded or was killed.
func (m *Manager) Get(id uint64) (*Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.byID[id]
	if l == nil || l.dead() {
		return nil, noSession(id)
	}
	l.used.Store(m.clock.Add(1))
	return l, nil
}

func noSession(id uint64) error {
	return errtable.Errorf(500, "not_found", "session %d not found", id)
}

// find returns the most recently used session for which fits returns true. It
// may be a killed one.
func (m *Manager) find(fits func(*Session) bool) *Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found *Session
	for _, l := range m.byID {
		if fits(l) && (found == nil || l.used.Load() > found.used.Load()) {
			found = l
		}
	}
	if found != nil {
		found.used.Store(m.clock.Add(1))
	}
	return found
}

func (m *Manager) add(l *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	l.id = m.next
	l.used.Store(m.clock.Add(1))
	m.byID[l.id] = l
}

// remove deletes a session whose file is closed.
func (m *Manager) remove(l *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byID, l.id)
}

// Stop cancels every run and every request for a title. It waits until the runs have
// ended or ctx ends. Then it waits until the requests have ended.
func (m *Manager) Stop(ctx context.Context, why error) {
	m.mu.Lock()
	m.stopBackground(why)
	m.mu.Unlock()
	defer m.titles.Wait()
	for _, l := range m.List() {
		l.Cancel(why)
	}
	for _, l := range m.all() {
		if l.slot.Acquire(ctx, 1) == nil {
			m.release(l)
		}
	}
}
