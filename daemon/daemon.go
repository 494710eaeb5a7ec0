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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/cron"
	"crabmem/daemon/mcp"
	"crabmem/daemon/model"
	"crabmem/daemon/session"
	"crabmem/daemon/skill"
	"crabmem/daemon/tool"
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
	sessions *sessionlog.Dir
	crons    *cron.Table
	firing   *scheduler
	skills   *skill.Set
	files    *tool.Files
	mcp      *mcp.Manager

	current   atomic.Pointer[setup]
	reloading sync.Mutex

	loaded *session.Manager
	events hub

	metrics metrics

	indexing sync.Mutex
	index    *search.Index // nil until something is searched
}

// setup is a configuration and the objects built from it. A reload builds
// another setup; active runs keep the old one.
type setup struct {
	config *config.Config
	models *model.Registry
	runner *agent.Runner
	agents map[string]*agent.Agent
}

func (d *Daemon) setup() *setup { return d.current.Load() }

// Socket returns the socket of a home.
func Socket(home string) string { return filepath.Join(home, "daemon.sock") }

// ErrRunning is returned by Open when another daemon has the home.
var ErrRunning = errors.New("a daemon runs already")

// Open opens a home, and creates it when it is missing. One daemon at a time
// has it: [ErrRunning].
func Open(o Options) (*Daemon, error) {
	d := &Daemon{opts: o, fs: o.FS, log: o.Log, now: o.Now, dir: o.Dir}
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
	if d.store, err = crmem.Open(path, &crmem.Options{
		FS: d.fs, Now: d.now, LockWait: d.opts.LockWait, Command: "crabmem daemon", Socket: Socket(d.home), Warn: warn,
	}); err != nil {
		return err
	}
	if d.sessions, err = sessionlog.OpenDir(filepath.Join(d.home, "sessions"), &sessionlog.Options{
		FS: d.fs, Now: d.now, LockWait: d.opts.LockWait, Command: "crabmem daemon", Socket: Socket(d.home), Warn: warn,
	}); err != nil {
		return err
	}
	d.skills = skill.Load(d.fs, []skill.Dir{{Path: filepath.Join(d.home, "skills"), Tier: skill.Workspace}}, func(err error) {
		d.log.Warn("ignored a skill", "error", err)
	})
	d.files = tool.NewFiles(d.fs, d.hidden(s))
	d.loaded = session.New(session.Options{
		FS: d.fs, Home: d.home, Dir: d.dir, Log: d.log, Now: d.now, Store: d.store, Logs: d.sessions, Forget: d.files.Forget, Ran: d.metrics.ran,
		Setup: func() session.Setup {
			s := d.setup()
			return session.Setup{Config: s.config, Runner: s.runner, Agents: s.agents}
		},
	})
	d.mcp = mcp.New(mcp.Options{
		FS: d.fs, Run: filepath.Join(d.home, "run"), Log: d.log, Version: d.opts.Version, Reserved: d.isTool, Changed: d.refresh,
	})
	if d.crons, err = cron.Open(d.fs, filepath.Join(d.home, "crons.toml")); err != nil {
		return err
	}
	d.firing = newScheduler(d)
	d.reloading.Lock()
	err = d.build(s)
	d.reloading.Unlock()
	if err != nil {
		return err
	}
	d.store.Index(analysis.Standard)
	return nil
}

// readConfig reads the configuration.
func (d *Daemon) readConfig() (*config.Config, error) {
	return config.Load(d.fs, d.home, d.opts.Getenv)
}

// build builds the setup of a configuration and makes it current. On an error
// the setup does not change.
func (d *Daemon) build(c *config.Config) error {
	providers := make([]model.Provider, len(c.Providers))
	for i := range c.Providers {
		providers[i] = c.Providers[i].Model()
	}
	old := d.setup()
	var models *model.Registry
	var err error
	if old == nil {
		models, err = model.NewRegistry(providers, "")
	} else {
		models, err = old.models.Renew(providers, "")
	}
	if err != nil {
		return err
	}
	if err := models.AddBackend(config.Offline, offlineLimit, &offline{d}); err != nil {
		return err
	}
	if err := models.Switch(c.Model); err != nil {
		return err
	}
	s := &setup{config: c, models: models}
	hooks := agent.Hooks{RegisterTools: func(set *tool.Set) { d.registerTools(set, c) }}.Then(d.hooks()).Then(d.opts.Hooks)
	s.runner = agent.NewRunner(models, hooks)
	s.runner.BeforeSummary, s.runner.Archive = d.loaded.BeforeSummary, d.loaded.Archive
	d.mcp.Set(d.mcpServers(c))
	d.buildAgents(s)
	d.current.Store(s)
	return nil
}

// buildAgents makes the agents of a setup.
func (d *Daemon) buildAgents(s *setup) {
	c := s.config
	s.agents = make(map[string]*agent.Agent)
	for _, a := range c.Agents {
		scope := Scope(c, &a)
		s.agents[a.Name] = s.runner.Build(agent.Agent{
			Name: a.Name, Description: a.Description, Prompt: a.Prompt, Model: modelOf(a, c), Thinking: a.Thinking,
			MaxIterations: a.MaxIterations, CompactThreshold: a.CompactThreshold, CompactPrompt: a.CompactPrompt, CompactTokens: a.CompactTokens,
			Memory: c.Memory && a.Memory, Scope: scope, Resources: d.resources(scope),
		})
	}
}

// refresh rebuilds the agents with the connected servers. Active runs keep their
// agents.
func (d *Daemon) refresh() {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	if old := d.setup(); old != nil { // otherwise it was never built
		s := *old
		d.buildAgents(&s)
		d.current.Store(&s)
	}
}

// isTool reports whether a tool of the daemon's own has the name.
func (d *Daemon) isTool(name string) bool {
	s := d.setup()
	if s == nil {
		return false
	}
	_, ok := s.runner.Tools.Get(name)
	return ok
}

// mcpServers are the servers of a configuration.
func (d *Daemon) mcpServers(c *config.Config) []mcp.Server {
	list := make([]mcp.Server, len(c.MCPs))
	for i, m := range c.MCPs {
		s := mcp.Server{
			Name: m.Name, Command: m.Command, URL: m.URL, Token: string(m.Token), Timeout: m.Timeout, Once: !m.AutoRestart,
		}
		for _, a := range m.Args {
			s.Args = append(s.Args, string(a))
		}
		if m.Command != "" {
			s.Dir = d.dir
			env := make(map[string]config.Secret)
			maps.Copy(env, c.Env)
			maps.Copy(env, m.Env)
			for _, name := range slices.Sorted(maps.Keys(env)) {
				s.Env = append(s.Env, name+"="+string(env[name]))
			}
		}
		if m.Auth && m.Token == "" {
			d.log.Warn("MCP server requires a token: set token_file to the file that contains it", "server", m.Name)
		}
		list[i] = s
	}
	return list
}

// resources returns the part of an agent's prompt that lists skills and servers.
func (d *Daemon) resources(scope tool.Scope) string {
	parts := slices.DeleteFunc([]string{d.mcp.Resources(scope), d.skills.Resources(scope)}, func(text string) bool { return text == "" })
	if len(parts) == 0 {
		return ""
	}
	return "<resources>\n" + strings.Join(parts, "\n\n") + "\n</resources>"
}

// modelOf returns an agent's model; "" is the active one, so that switching it
// switches the agents that have no other.
func modelOf(a config.Agent, c *config.Config) string {
	if a.Model == c.Model {
		return ""
	}
	return a.Model
}

func (d *Daemon) registerTools(set *tool.Set, c *config.Config) {
	set.Add(d.mcp.Tool(), d.skills.Tool(func(c tool.Call, sk *skill.Skill) {
		if c.Narrow != nil {
			c.Narrow(sk.Bound(c.Scope))
		}
	}))
	set.Add(d.loaded.Tools()...)
	set.Add(d.memoryTools()...)
	hidden := d.hidden(c)
	d.files.Hide(hidden)
	set.Add(d.files.Tools()...)
	env := make(map[string]string, len(c.Env))
	for name, value := range c.Env {
		env[name] = string(value)
	}
	set.Add(tool.NewBash(tool.BashOptions{
		Timeout: c.Bash.Timeout, MaxTimeout: c.Bash.MaxTimeout, MaxOutput: c.Bash.MaxOutput, Env: env, Hidden: hidden,
	}))
}

// hidden returns the paths that file tools never access: the home, the store,
// and key files outside the home.
func (d *Daemon) hidden(c *config.Config) []string {
	list := append([]string{d.home}, c.SecretFiles...)
	if p := d.store.Path(); filepath.Dir(p) != d.home {
		list = append(list, p, p+"-id", p+"-wal", p+"-wal.held", p+"-lock", p+"-reserve")
	}
	return list
}

// reload reads the configuration again. It keeps sessions, subscribers, pending
// questions, and active runs.
func (d *Daemon) reload() error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	c, err := d.readConfig()
	if err != nil {
		return err
	}
	if err := d.build(c); err != nil {
		return err
	}
	d.firing.reset()
	return nil
}

// sessionIndex returns the index of the sessions, which the first search
// builds.
func (d *Daemon) sessionIndex() (*search.Index, error) {
	d.indexing.Lock()
	defer d.indexing.Unlock()
	if d.index == nil {
		x, err := search.NewIndex(d.sessions, nil)
		if err != nil {
			return nil, err
		}
		d.index = x
	}
	return d.index, nil
}

// stop ends every run, and waits for them until ctx ends.
func (d *Daemon) stop(ctx context.Context) {
	if d.loaded != nil {
		d.loaded.Stop(ctx, errStopping)
	}
}

var errStopping = errors.New("the daemon is stopping")

// Close cancels runs and closes the sessions and the store. The daemon must not
// be used afterwards.
func (d *Daemon) Close() error {
	var errs []error
	d.stop(context.Background())
	if d.mcp != nil {
		d.mcp.Close()
	}
	if s := d.setup(); s != nil {
		s.models.Close()
	}
	if d.index != nil {
		errs = append(errs, d.index.Close())
	}
	if d.sessions != nil {
		errs = append(errs, d.sessions.Close())
	}
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Unlock())
	}
	return errors.Join(errs...)
}
