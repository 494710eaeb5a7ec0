// Package daemon runs agents for clients: it serves sessions, memory, tools,
// and models on a socket.
//
// A [Daemon] has exclusive use of the home: it holds the store's lock and a
// daemon lock. Its methods handle one request each; [Daemon.Handle] selects the
// method for a message.
//
// DESIGN.md gives the reasons for the protocol, the scopes, and the sessions.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/embed"
	"crabmem/crmem/fusion"
	"crabmem/crmem/vfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/approval"
	"crabmem/daemon/config"
	"crabmem/daemon/cron"
	"crabmem/daemon/embedder"
	"crabmem/daemon/mcp"
	"crabmem/daemon/model"
	"crabmem/daemon/once"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
	"crabmem/daemon/session"
	"crabmem/daemon/skill"
	"crabmem/daemon/space"
	"crabmem/daemon/tool"
	"crabmem/daemon/usage"
	"crabmem/daemon/work"
	"crabmem/sessionlog"
	"crabmem/sessionlog/search"
)

// Options are how a daemon is opened. Home is needed, the rest is not.
type Options struct {
	Home    string
	Store   string // "" is memory.db in the home
	Dir     string // where commands of sessions without a directory run; "" is the home's user's
	FS      vfs.FS // nil is the machine's
	Getenv  func(string) string
	Log     *slog.Logger // nil discards messages
	Version string
	Now     func() time.Time
	// LockWait limits the wait for another process that holds the store's lock.
	LockWait time.Duration
	// Hooks are called after the daemon's own hooks.
	Hooks agent.Hooks
	// Offline replaces the built-in model offline. nil is that model.
	Offline model.Backend
	// Reaches returns an error if no channel delivers to a conversation. nil: one delivers to each.
	Reaches func(conversation string) error
	// Network connects to the providers of models.
	Network model.Network
	// Docs returns the pages of the manual for agents. It may be nil.
	Docs func() []role.Page
}

// Daemon is an open home. It is safe for concurrent use.
type Daemon struct {
	opts    Options
	fs      vfs.FS
	log     *slog.Logger
	now     func() time.Time
	home    string // real path
	dir     string
	started time.Time

	lock     vfs.Locked // of the home
	store    *crmem.Store
	spaces   *space.Set
	sessions *sessionlog.Dir
	crons    *cron.Table
	firing   *scheduler
	summing  *agent.Background // summaries of agents with a role
	files    *tool.Files
	mcp      *mcp.Manager

	current    atomic.Pointer[setup] // of the home
	reloading  sync.Mutex
	workspaces workspaces

	loaded *session.Manager
	roles  *role.Roles
	events hub
	parts  *op.Parts // of operations

	metrics metrics
	usage   *usage.Table
	secrets knownSecrets

	limited sync.Mutex // of writes to spaces with a quota

	openStore func(file string, mustExist bool) (*crmem.Store, error) // of a workspace

	repeats        *once.Table // requests that may be repeated
	repeatsChecked sync.Once   // against the stores

	indexing sync.Mutex
	index    *search.Index // nil until something is searched

	model    *embed.Model    // of recall and session search; nil: by words only
	semantic *fusion.Request // how recall uses the embedding model; nil: by words only
}

// Socket returns the socket of a home.
func Socket(home string) string { return filepath.Join(home, "daemon.sock") }

// ErrRunning is returned by Open when another daemon has the home.
var ErrRunning = errors.New("a daemon is already running")

// Open opens a home, and creates it when it is missing. One daemon at a time
// has it: [ErrRunning].
func Open(o Options) (*Daemon, error) {
	d := &Daemon{workspaces: workspaces{loaded: make(map[string]*inWorkspace), warned: make(map[string]string)}, opts: o, fs: o.FS, log: o.Log, now: o.Now, dir: o.Dir}
	if d.fs == nil {
		d.fs = vfs.OS{}
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.now == nil {
		d.now = time.Now
	}
	if d.opts.Getenv == nil {
		d.opts.Getenv = os.Getenv
	}
	d.log = slog.New(redactedLog{d.log.Handler(), d})
	d.started = d.now()
	if err := d.openHome(); err != nil {
		return nil, err
	}
	if err := d.openAll(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// lookWait exceeds the time for which a process that only checks a home holds
// its lock.
const lookWait = 100 * time.Millisecond

// openHome creates the home if it is missing and takes its daemon lock.
func (d *Daemon) openHome() error {
	home, err := filepath.Abs(d.opts.Home)
	if err != nil {
		return err
	}
	if err := vfs.MkdirAll(d.fs, filepath.Join(home, "run"), 0o700); err != nil {
		return err
	}
	if d.home, err = d.fs.Resolve(home); err != nil {
		return err
	}
	if tightened, err := vfs.MakePrivate(d.home); err != nil {
		return err
	} else if tightened {
		d.log.Warn("other users could access the home; its mode is now 0700", "home", d.home)
	}
	if d.dir == "" {
		d.dir = filepath.Dir(d.home)
	}
	name := filepath.Join(d.home, "run", "daemon.lock")
	d.lock, err = vfs.Acquire(d.fs, name, lookWait)
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("%w in %s: %w", ErrRunning, d.home, err)
	} else if err != nil {
		return err
	}
	return d.lock.SetText(vfs.LockHolder{PID: os.Getpid(), Boot: d.fs.BootID(), Command: "crabmem daemon", Socket: Socket(d.home)}.Text())
}

func (d *Daemon) openAll() error {
	s, err := d.readConfig()
	if err != nil {
		return err
	}
	path := d.opts.Store
	if path == "" {
		path = filepath.Join(d.home, "memory.db")
	}
	warn := func(text string) { d.log.Warn(text) }
	model, err := embedder.Open(d.fs, d.home, s.Embedder)
	if err != nil {
		d.log.Error("recall is by words only", "error", err)
	}
	if d.model = model; model != nil {
		d.semantic = embedder.Semantic(s.Embedder)
	}
	options := crmem.Options{
		Embed: model,
		FS:    d.fs, Now: d.now, LockWait: d.opts.LockWait, Command: "crabmem daemon", Warn: warn,
		History: s.History, HistoryLimit: s.HistoryLimit, CountReads: true,
		ImportanceWeight: s.ImportanceWeight, HalfLife: s.HalfLife,
	}
	open := func(file string, lazy bool) (*crmem.Store, error) {
		o := options
		o.Lazy, o.Socket = lazy, Socket(d.home)
		return crmem.Open(file, &o)
	}
	d.openStore = func(file string, mustExist bool) (*crmem.Store, error) {
		o := options // without a socket: clients wait for the store
		o.MustExist = mustExist
		return crmem.Open(file, &o)
	}
	// Index, below, loads the store in the background.
	if d.store, err = open(path, true); err != nil {
		return err
	}
	d.spaces = d.newSpaces(func(file string) (*crmem.Store, error) { return open(file, false) })
	if d.sessions, err = sessionlog.OpenDir(filepath.Join(d.home, "sessions"), &sessionlog.Options{
		FS: d.fs, Now: d.now, LockWait: d.opts.LockWait, Command: "crabmem daemon", Socket: Socket(d.home), Warn: warn,
	}); err != nil {
		return err
	}
	d.files = tool.NewFiles(d.fs, d.hidden(s))
	d.summing = agent.NewBackground()
	d.loaded = session.New(session.Options{
		FS: d.fs, Home: d.home, Dir: d.dir, Log: d.log, Now: d.now, Logs: d.sessions, Space: d.writeSpace,
		Own:    func(workspace, agent string) string { return d.spacesOf(workspace, agent)[0] },
		Forget: d.files.Forget, Ran: d.metrics.ran,
		Allow: d.allow, Rules: approval.Rules{Home: d.home, Users: userHomes(), Profile: tool.CanView},
		Kind:  func(err error) string { return reported(err).Kind },
		Setup: d.sessionSetup, SetupOf: d.sessionSetupOf, Admit: d.admit,
		InUse: func(id string) error { return d.roles.InUse(id) }, Rewrites: d.summing.Drop, Notes: d.storeNotes,
		Role: func(a *agent.Agent, s *agent.Session, sender string) time.Duration {
			return d.roles.For(a, s, sender)
		},
		AskUser: func(ctx context.Context, t *agent.Turn, q []agent.Question) (string, bool, error) {
			return d.roles.AskUser(ctx, t, q)
		},
	})
	d.roles = role.New(role.Options{
		Work: &work.Home{FS: d.fs, Path: d.home, Sessions: d.sessions, Now: d.now, Warn: warn,
			External: func(agent string) (bool, bool) { return d.roles.IsExternal(agent) }},
		Version: d.opts.Version, Docs: d.docs, Config: func(section string) (string, error) { return config.Inspect(d.fs, d.home, section) }, Skill: d.skillOf, Leaves: d.leaves, Record: d.record,
		Sessions: d.loaded, Setup: d.sessionSetup, SetupOf: d.sessionSetupOf, Log: d.log, Now: d.now, Publish: d.publishWork, Owe: d.oweWake, Settle: d.settleWake,
	})
	d.mcp = mcp.New(mcp.Options{
		FS: d.fs, Run: filepath.Join(d.home, "run"), Log: d.log, Version: d.opts.Version, Reserved: d.isTool, Changed: d.refresh, Leaves: d.leaves,
	})
	if d.crons, err = cron.Open(d.fs, filepath.Join(d.home, "crons.toml")); err != nil {
		return err
	}
	d.openRepeats()
	d.usage = usage.Open(d.fs, UsageFile(d.home), d.now, func(what string, err error) { d.log.Warn(what, "error", err) })
	d.firing = newScheduler(d)
	d.parts = d.newParts()
	d.reloading.Lock()
	err = d.build(s)
	d.reloading.Unlock()
	if err != nil {
		return err
	}
	d.store.Index(analysis.Standard)
	d.loaded.RecoverFlushes(context.Background())
	d.recoverWakes()
	if err := d.roles.Start(); err != nil {
		d.log.Error("some work of sessions is not recovered; the next start tries again", "error", err)
	}
	return nil
}

// sessionSetup returns the part of the setup that sessions use.
func (d *Daemon) sessionSetup() session.Setup { return d.setup().forSessions() }

// sessionSetupOf is sessionSetup for the sessions in a workspace.
func (d *Daemon) sessionSetupOf(workspace string) (session.Setup, error) {
	s, err := d.setupOf(workspace)
	if err != nil {
		return session.Setup{}, err
	}
	return s.forSessions(), nil
}

func (s *setup) forSessions() session.Setup {
	return session.Setup{Config: s.config, Runner: s.runner, Agents: s.agents, Default: s.agent, InWorkspace: s.own}
}

// skillOf returns a skill that the scope of a call allows.
func (d *Daemon) skillOf(c tool.Call, name string) (*skill.Skill, error) {
	return d.setupIn(c.Workspace).skills.Get(c.Scope, name)
}

// newParts returns what operations of the daemon run on.
func (d *Daemon) newParts() *op.Parts {
	return &op.Parts{
		Log: d.log, Setup: d.sessionSetup, Models: func() *model.Registry { return d.setup().models }, Spaces: d.spaces, Removed: d.repeats.PurgeSpace, Outcome: d.outcome,
		Sessions: d.sessions, SearchSessions: d.searchSessions, Followers: d.events.followers, Publish: d.publish, Follow: d.follow, Converse: d.converse,
		ReadConfig: d.readConfig, ChangeConfig: d.changeConfig, Reload: d.Reload, NoticeAgents: d.noticeAgents, Info: d.info, Stats: d.figures, MCPServers: d.mcpStatuses,
		Now: d.now, Loaded: d.loaded, Roles: d.roles, Crons: d.crons, CheckCron: d.checkNewCron, CronsChanged: d.firing.changed, WorkspaceCrons: d.workspaceCrons, SetupAt: d.setupAt, CronState: d.firing.state,
		Usage: func() ([]usage.Record, error) { return d.usage.Records(), nil },
		Home:  space.Home{FS: d.fs, Path: d.home, Command: "daemon", Warn: func(line string) { d.log.Warn("spaces", "warning", line) }},
	}
}

// userHomes returns the home directories of the user: of the environment, and of the
// account.
func userHomes() (dirs []string) {
	if dir, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, dir)
	}
	if u, err := user.Current(); err == nil && u.HomeDir != "" {
		dirs = append(dirs, u.HomeDir)
	}
	return dirs
}

// sessionIndex returns the index of the sessions, which the first search
// builds.
func (d *Daemon) sessionIndex() (*search.Index, error) {
	d.indexing.Lock()
	defer d.indexing.Unlock()
	if d.index == nil {
		x, err := search.NewIndex(d.sessions, &search.IndexOptions{Embed: d.model})
		if err != nil {
			return nil, err
		}
		d.index = x
	}
	return d.index, nil
}

// stop ends every run, and waits for them until ctx ends.
func (d *Daemon) stop(ctx context.Context) {
	if d.roles != nil {
		d.roles.Stop()
	}
	if d.loaded != nil {
		d.loaded.Stop(ctx, errStopping)
		d.summing.Stop()
	}
}

var errStopping = errors.New("the daemon is stopping")

// Close cancels runs and closes the sessions and the store. The daemon must not
// be used afterwards.
func (d *Daemon) Close() error {
	var errs []error
	d.stop(context.Background())
	d.closeWorkspaces()
	if d.mcp != nil {
		d.mcp.Close()
	}
	if s := d.setup(); s != nil {
		s.models.Close()
	}
	if d.index != nil {
		errs = append(errs, d.index.Close())
	}
	if d.repeats != nil {
		errs = append(errs, d.repeats.Close())
	}
	if d.sessions != nil {
		errs = append(errs, d.sessions.Close())
	}
	if d.spaces != nil {
		errs = append(errs, d.spaces.Close())
	}
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Unlock())
	}
	return errors.Join(errs...)
}

// docs returns the pages of the manual.
func (d *Daemon) docs() []role.Page {
	if d.opts.Docs == nil {
		return nil
	}
	return d.opts.Docs()
}
