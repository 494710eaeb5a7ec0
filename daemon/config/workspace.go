package config

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/cron"
)

// A Workspace is what the files of a workspace configure.
type Workspace struct {
	Memory bool // [memory] project: the notes are in the workspace
	Agents []Agent
	MCPs   []MCP
	Crons  []WorkspaceCron
}

// WorkspaceCron is a named entry of a workspace.
type WorkspaceCron struct {
	Name string
	cron.Cron
	File string
}

// WorkspaceFile is a file of a workspace. Kind is agents, mcps, or cron for a file that
// defines NAME, and empty for the main file.
type WorkspaceFile struct {
	Path, Kind, Name string
	Text             []byte
}

// workspace is the pattern of the tables of a workspace in the schema.
const workspace = "workspace"

// onlyInHome are the tables, and onlyOfHome the keys of agents and servers, that only a home
// may set.
var (
	onlyInHome = map[string]string{"provider": "providers and keys", "origins": "trust in identities", "tcp": "a listener",
		"metrics": "a listener", "gateway": "a listener", "env": "variables of all servers"}
	onlyOfHome = map[string]string{"token": "a secret", "token_file": "a secret", "auth": "a secret", "memory_read": "spaces",
		"edit_instructions": "access to Crab.md", "compact_prompt": "a file of the home", "flush_prompt": "a file of the home"}
)

// addWorkspace adds the keys of a workspace to the schema.
func addWorkspace(add func(pattern, key string, r *row)) {
	group := &row{def: tree{}, marks: isGroup}
	add(workspace, "memory", group)
	add(workspace+".memory", "project", &row{to: new(bool)})
	for kind, rows := range map[string][]row{"agents": new(Agent).workspaceRows(), "mcps": new(MCP).rows(), "cron": new(WorkspaceCron).rows()} {
		add(workspace, kind, group)
		add(workspace+"."+kind, "*", group)
		for _, r := range rows {
			add(workspace+"."+kind+".*", r.path, &r)
		}
	}
}

func (a *Agent) workspaceRows() []row {
	return append(a.rows(), a.promptRow(), a.nameRow(), row{path: "system_prompt", to: &a.Prompt})
}

func (c *WorkspaceCron) rows() []row {
	return []row{{path: "name", to: &c.Name}, {path: "schedule", to: &c.Schedule}, {path: "agent", to: &c.Agent}, {path: "message", to: &c.Prompt},
		{path: "skill", to: &c.Skill}, {path: "args", to: &c.Args}, {path: "timezone", to: &c.Timezone}, {path: "quiet_start", to: &c.QuietStart},
		{path: "quiet_end", to: &c.QuietEnd}, {path: "timeout", to: &c.Timeout}}
}

// ReadWorkspace reads the files of the workspace at root. The main file is the first one. A
// file of a kind replaces a table of the same name. All errors are [Problems].
func ReadWorkspace(fsys vfs.FS, root string, files []WorkspaceFile) (*Workspace, error) {
	l := &loader{fsys: fsys, home: root, getenv: func(string) string { return "" }, inWorkspace: true}
	w := new(Workspace)
	parts := make(map[string]map[string]*section)
	for _, kind := range []string{"agents", "mcps", "cron"} {
		parts[kind] = make(map[string]*section)
	}
	for _, in := range files {
		f := l.file(in.Path)
		d, err := parseTOML(in.Text)
		if err != nil {
			f.syntax(err)
			continue
		}
		s := &section{l: l, f: f, src: &d.source, t: d.tree}
		if in.Kind != "" {
			s.refuse(onlyOfHome)
			s.check(workspace + "." + in.Kind + ".*")
			parts[in.Kind][in.Name] = s
			continue
		}
		for kind := range parts {
			s.nameItems(kind)
		}
		s.refuse(onlyInHome)
		s.check(workspace)
		s.table("memory").read([]row{{path: "project", to: &w.Memory}})
		for kind := range parts {
			for name, of := range s.tables(kind) {
				of.refuse(onlyOfHome)
				parts[kind][name] = of
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(parts["agents"])) {
		w.Agents = append(w.Agents, parts["agents"][name].workspaceAgent(name))
	}
	for _, name := range slices.Sorted(maps.Keys(parts["mcps"])) {
		c := new(Config)
		c.server(name, parts["mcps"][name])
		w.MCPs = append(w.MCPs, c.MCPs...)
	}
	for _, name := range slices.Sorted(maps.Keys(parts["cron"])) {
		w.Crons = append(w.Crons, parts["cron"][name].workspaceCron(name))
	}
	if found := append(l.found, l.broken...); len(found) > 0 {
		found.sort()
		return nil, found
	}
	return w, nil
}

// refuse adds a problem for each key that only a home may set, and removes the key.
func (s *section) refuse(keys map[string]string) {
	for _, key := range s.src.sorted(s.path, s.t) {
		if what := keys[key]; what != "" {
			s.add(key, "a workspace cannot set %s: set it in config.toml of the home", what)
			delete(s.t, key)
		}
	}
}

// nameItems makes a table of an array of tables [[KEY]], each with a name.
func (s *section) nameItems(key string) {
	list, ok := s.t[key].([]any)
	if !ok {
		return
	}
	named := make(tree)
	for _, item := range list {
		t, _ := item.(tree)
		name, _ := t["name"].(string)
		if name == "" || named[name] != nil {
			s.add(key, "each [[%s]] must have its own name", key)
			return
		}
		named[name] = t
	}
	s.t[key] = named
}

// checkOwnName adds a problem if a name differs from that of the file or the table.
func (s *section) checkOwnName(got, want string) {
	if got != want {
		s.add("name", "it differs from the name of the file or table, '%s': remove it", short(want))
	}
}

func (s *section) workspaceAgent(name string) Agent {
	a := newAgent(name, &Config{Memory: true})
	a.File = s.f.path
	if why := badAgent(name); why != "" {
		s.at("").add("agent name '%s' %s", short(name), why)
	} else if name == Crab {
		s.at("").add("agent name 'crab' is reserved")
	}
	of := &agentSource{agent: a}
	of.read(s, of.agent.workspaceRows()[len(a.rows()):]...)
	s.checkOwnName(of.agent.Name, name)
	if of.agent.Space != "" {
		s.add("memory", "a workspace cannot set spaces: want true or false")
	}
	return of.agent
}

func (s *section) workspaceCron(name string) WorkspaceCron {
	c := WorkspaceCron{Name: name, File: s.f.path}
	s.read(c.rows())
	s.checkOwnName(c.Name, name)
	if err := c.Check(); err != nil {
		s.at("").add("cron '%s': %v", short(name), err)
	}
	return c
}

// Describe returns how a server is reached: its command and arguments, or its address, and
// its variables. Words with spaces or quotes are quoted.
func (m *MCP) Describe() string {
	words := []string{cmp.Or(m.Command, m.URL)}
	for _, a := range m.Args {
		words = append(words, string(a))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Env)) {
		words = append(words, name+"="+string(m.Env[name]))
	}
	for i, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n\"'\\") {
			words[i] = strconv.Quote(word)
		}
	}
	return strings.Join(words, " ")
}
