package daemon

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"crabmem/crmem/tree"
	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
	"crabmem/daemon/mcp"
	"crabmem/daemon/model"
	"crabmem/daemon/skill"
	"crabmem/daemon/tool"
	"crabmem/daemon/workspace"
)

// setup is a configuration and the objects built from it. A reload builds
// another setup; active runs keep the old one.
type setup struct {
	config *config.Config
	models *model.Registry
	runner *agent.Runner
	agents map[string]*agent.Agent

	skills  *skill.Set
	servers *mcp.Manager
	agent   string          // of requests without one; empty: crab
	own     map[string]bool // agents of the workspace: whether each hides one of the home
}

func (d *Daemon) setup() *setup { return d.current.Load() }

// readConfig reads the configuration.
func (d *Daemon) readConfig() (*config.Config, error) {
	return config.Load(d.fs, d.home, d.opts.Getenv)
}

// build builds the setup of a configuration and makes it current. On an error
// the setup does not change.
func (d *Daemon) build(c *config.Config) error {
	providers := c.Models()
	old := d.setup()
	var models *model.Registry
	var err error
	if old == nil {
		models, err = model.NewRegistry(d.opts.Network, providers, "")
	} else {
		models, err = old.models.Renew(providers, "")
	}
	if err != nil {
		return err
	}
	models.Spent, models.Cooldown = d.spent, c.Limits.Cooldown
	builtin := d.opts.Offline
	if builtin == nil {
		builtin = &offline{d}
	}
	if err := models.AddBackend(config.Offline, offlineLimit, builtin); err != nil {
		return err
	}
	if err := models.Switch(c.Model); err != nil {
		return err
	}
	s := &setup{config: c, models: models, servers: d.mcp}
	if old != nil {
		s.skills = old.skills
		s.skills.Use(SkillDirs(c))
	} else {
		s.skills = skill.Load(d.fs, SkillDirs(c), func(err error) { d.log.Warn("ignored a skill", "error", err) })
	}
	d.mcp.Set(d.mcpServers(c))
	d.buildRunner(s)
	d.buildAgents(s)
	d.current.Store(s)
	d.warnOfSetup(s)
	return nil
}

// buildRunner makes the runner of a setup.
func (d *Daemon) buildRunner(s *setup) {
	c := s.config
	hooks := agent.Hooks{RegisterTools: func(set *tool.Set) { d.registerTools(set, s) }}.Then(d.hooks()).Then(d.roles.Hooks()).Then(d.opts.Hooks)
	s.runner = agent.NewRunner(s.models, hooks)
	s.runner.KeepResult = d.loaded.KeepResult
	s.runner.Background, s.runner.Tiers = d.summing, agent.Tiers(c.Compaction)
	s.runner.BeforeSummary, s.runner.Archive, s.runner.Record, s.runner.Redact = d.loaded.BeforeSummary, d.loaded.Archive, d.record, d.redaction
	s.runner.BeginFlush, s.runner.EndFlush = d.loaded.BeginFlush, d.loaded.EndFlush
}

// SkillDirs returns the directories of skills: the home's first, whose links
// are followed.
func SkillDirs(c *config.Config) []skill.Dir {
	dirs := []skill.Dir{{Path: filepath.Join(c.Home, "skills"), Tier: skill.Workspace, Links: true}}
	for _, dir := range c.SkillDirs {
		dirs = append(dirs, skill.Dir{Path: dir, Tier: skill.Workspace})
	}
	return append(dirs, skill.Installed(c.Home), skill.BundledDir)
}

// SkillDirsIn returns the directories of skills for sessions in the workspace at root.
func SkillDirsIn(root string, c *config.Config) []skill.Dir {
	own := []skill.Dir{{Path: filepath.Join(root, "skills"), Tier: skill.Workspace}, skill.Installed(root)}
	return append(own, SkillDirs(c)...)
}

// warnOfSetup logs a warning for each setting that has no effect.
func (d *Daemon) warnOfSetup(s *setup) {
	tools := s.runner.Tools.Names()
	for _, p := range s.config.Broken {
		d.log.Error("configuration: this part is not in use", "error", p.String(), "fix", p.Repair())
	}
	for _, w := range append(slices.Clone(s.config.Warnings), s.config.UnmatchedTools(tool.Unmatched, tools)...) {
		d.log.Warn("configuration", "warning", w.String())
	}
	for _, name := range d.missingSpaces(s.config) {
		d.log.Warn("space does not exist: run crabmem spaces create "+name, "space", name)
	}
	all := s.skills.Skills(tool.Unbounded())
	for i := range all {
		for _, w := range all[i].Unmatched(tools) {
			d.log.Warn("skill", "warning", w.Error())
		}
	}
}

// buildAgents makes the agents of a setup.
func (d *Daemon) buildAgents(s *setup) {
	c := s.config
	s.agents = make(map[string]*agent.Agent)
	for _, a := range c.Agents {
		scope := Scope(c, &a, s.skills.Tagged(a.SkillTags))
		flush := ""
		if a.Flush {
			flush = cmp.Or(a.FlushPrompt, agent.DefaultFlushPrompt)
		}
		own := a.Model
		if a.FollowsActive {
			own = ""
		}
		s.agents[a.Name] = s.runner.Build(agent.Agent{
			Name: a.Name, Prompt: a.Prompt, Model: own, Thinking: a.Thinking, ToolChoice: a.ToolChoice,
			MaxIterations: a.MaxIterations, CompactThreshold: a.CompactThreshold, CompactPrompt: a.CompactPrompt, CompactTokens: a.CompactTokens,
			CompactModel: cmp.Or(a.CompactModel, c.Roles.Models.Compactor), FlushPrompt: flush,
			Memory: c.Memory && a.Memory, Scope: scope, Resources: s.resources(scope),
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
	t, ok := s.runner.Tools.Get(name)
	return ok && !t.Role
}

// mcpServers are the servers of a configuration.
func (d *Daemon) mcpServers(c *config.Config) []mcp.Server {
	list := make([]mcp.Server, len(c.MCPs))
	for i, m := range c.MCPs {
		s := mcp.Server{
			Name: m.Name, Command: m.Command, URL: m.URL, Token: string(m.Token), Timeout: m.Timeout, Once: !m.AutoRestart, Secrets: m.Secrets == "allow",
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
			d.log.Warn("MCP server requires a token: set token, or set token_file to the file that contains it", "server", m.Name)
		}
		list[i] = s
	}
	return list
}

// resources returns the part of an agent's prompt that lists skills and servers.
func (s *setup) resources(scope tool.Scope) string {
	parts := slices.DeleteFunc([]string{s.servers.Resources(scope), s.skills.Resources(scope)}, func(text string) bool { return text == "" })
	if len(parts) == 0 {
		return ""
	}
	return "<resources>\n" + strings.Join(parts, "\n\n") + "\n</resources>"
}

func (d *Daemon) registerTools(set *tool.Set, s *setup) {
	c := s.config
	set.Add(s.servers.Tool(), s.skills.Tool(func(c tool.Call, sk *skill.Skill) {
		if c.Narrow != nil {
			c.Narrow(sk.Bound(c.Scope))
		}
	}))
	set.Remote, set.Ready = s.servers.Listed, s.servers.Ready
	set.Add(d.loaded.Tools()...)
	set.Add(d.cronTool(), d.sendTool())
	set.Add(d.taskTools()...)
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
		Approve: d.loaded.Approve, Leaves: d.leaves,
	}))
}

// keyFiles are the files in the home that contain keys, tokens, or the names of files
// that do. One may have another name: a hard link.
var keyFiles = []string{config.File, "secrets.json", "secrets.key", "config/gateway.toml", "config/gateway-keys.json", "mcp-token", "crons.toml"}

// hidden returns the paths that file tools never access: the home, the store,
// and key files, also those outside the home.
func (d *Daemon) hidden(c *config.Config) []string {
	list := append([]string{d.home}, c.SecretFiles...)
	for _, name := range keyFiles {
		list = append(list, filepath.Join(d.home, name))
	}
	var stores []string
	if p := d.store.Path(); filepath.Dir(p) != d.home {
		stores = append(stores, p)
	}
	trusts, _ := workspace.ReadTrusts(d.fs, d.home) // without it, no workspace has a store
	for _, root := range trusts.Paths() {
		stores = append(stores, (&workspace.Workspace{Root: root}).Store())
	}
	for _, p := range stores {
		for _, suffix := range []string{"", "-id", "-wal", "-wal.held", "-lock", "-reserve", "-history", tree.BasesSuffix,
			"-usage", "-index-plain", "-index-standard", "-vectors", "-derived-lock"} {
			list = append(list, p+suffix)
		}
	}
	return list
}

// noticeAgents adds the agents with a file that is new since the configuration was read.
func (d *Daemon) noticeAgents() {
	known := make(map[string]bool)
	for _, a := range d.setup().config.Agents {
		known[a.File] = true
	}
	dir := filepath.Join(d.home, "agents")
	entries, _ := d.fs.ReadDir(dir) // an unreadable directory has no agents
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return strings.HasSuffix(e.Name(), ".md") && !strings.HasPrefix(e.Name(), ".") && !known[filepath.Join(dir, e.Name())]
	}) {
		return
	}
	d.reloading.Lock()
	defer d.reloading.Unlock()
	c, err := d.readConfig()
	if err != nil {
		return // the configuration in use stays
	}
	s := *d.setup()
	next := *s.config
	next.Agents, next.Broken = slices.Clone(next.Agents), c.Broken
	for _, a := range c.Agents {
		if _, ok := next.Agent(a.Name); !ok {
			next.Agents = append(next.Agents, a)
			sort.Slice(next.Agents, func(i, j int) bool { return next.Agents[i].Name < next.Agents[j].Name })
		}
	}
	s.config = &next
	d.buildAgents(&s)
	d.current.Store(&s)
}

// checkAgent returns an error for an agent whose file is invalid.
func (d *Daemon) checkAgent(name string) error {
	if name == "" || d.setup().agents[name] != nil {
		return nil
	}
	d.noticeAgents()
	if p := d.setup().config.BrokenAgent(name); p != nil {
		return &errtable.Error{Kind: "unknown_agent", Exit: errtable.ExitNotFound, Path: p.Path, Message: fmt.Sprintf("agent '%s' cannot be used: %v", name, p), Fix: p.Repair()}
	}
	return nil
}

// Reload reads the configuration, agents, and skills again. It keeps sessions, subscribers,
// pending questions, and active runs.
func (d *Daemon) Reload() error {
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
