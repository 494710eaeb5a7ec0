package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"crabmem/daemon/space"
)

// An agentSource is a partly read agent and the places of values that are checked later.
type agentSource struct {
	agent   Agent
	model   place
	compact place   // of agent.CompactModel
	members []place // of agent.Members
	broken  bool    // its file is invalid
}

// agents reads agents/*.md, [agents.*], [system.crab] and Crab.md.
func (l *loader) agents(c *Config, top *section, models, workers map[string]place) {
	all := map[string]*agentSource{Crab: {agent: newAgent(Crab, c)}}
	l.agentFiles(c, all)
	for name, s := range top.tables("agents") {
		if name == Crab {
			s.at("").add("agent name 'crab' is reserved: it is configured by [system.crab]")
			new(agentSource).read(s)
			continue
		}
		if why := badAgent(name); why != "" {
			s.at("").add("agent name '%s' %s", short(name), why)
		}
		a := all[name]
		if a == nil {
			a = &agentSource{agent: newAgent(name, c)}
			all[name] = a
		}
		a.read(s, a.agent.promptRow())
		if s.has("prompt") {
			a.agent.File = s.f.path
		}
	}
	l.crab(c, all[Crab], top)
	addWorker(c, all)

	names := slices.Sorted(maps.Keys(all))
	if n := len(all) - 1; n > maxAgents {
		l.file(File).add(0, "%d agents besides crab exceed the limit of %d", n, maxAgents)
	}
	for _, name := range names {
		if at := workers[name]; at.f != nil {
			at.add("worker '%s' has the name of an agent: rename one", name)
		}
	}
	known, members := append(modelNames(c), Offline), slices.AppendSeq(slices.Clone(names), maps.Keys(workers))
	for _, name := range names {
		a, broken := all[name], len(l.broken)
		for _, m := range []struct {
			name, key string
			at        place
		}{{a.agent.Model, "", a.model}, {a.agent.CompactModel, "compact_model: ", a.compact}} {
			if m.name != "" && m.name != Offline && models[m.name].f == nil && !a.broken {
				m.at.unknown(m.name, known, "agent '%s': %sno provider has the model '%s'", name, m.key, short(m.name))
			}
		}
		for i, m := range a.agent.Members {
			if all[m] == nil && workers[m].f == nil && !a.broken {
				a.members[i].unknown(m, members, "agent '%s': unknown agent '%s' in members", name, short(m))
			}
		}
		a.broken = a.broken || len(l.broken) > broken
	}
	for _, name := range names {
		a := all[name]
		if a.broken {
			continue
		}
		usable := slices.DeleteFunc(slices.Clone(a.agent.Members), func(m string) bool { return all[m] != nil && all[m].broken })
		if len(usable) > 0 { // an empty list would permit all agents
			a.agent.Members = usable
		}
		a.agent.FollowsActive = a.agent.Model == "" || name == Crab
		a.agent.Model = cmp.Or(a.agent.Model, c.Model)
		a.agent.Memory = a.agent.Memory && c.Memory
		c.Agents = append(c.Agents, a.agent)
	}
}

// BrokenAgent returns the problem of the file agents/NAME.md, or nil.
func (c *Config) BrokenAgent(name string) *Problem {
	path := filepath.Join(c.Home, "agents", name+".md")
	if i := slices.IndexFunc(c.Broken, func(p Problem) bool { return p.Path == path }); i >= 0 {
		return &c.Broken[i]
	}
	return nil
}

func newAgent(name string, c *Config) Agent {
	a := Agent{Name: name, Memory: c.Memory, TokensPerDay: c.Limits.TokensPerDay, RunsPerMinute: c.Limits.RunsPerMinute}
	setDefaults(a.rows())
	return a
}

// crab reads the agent that is always there, and with it the active model: the
// one it names, or the first of the provider with the greatest weight.
func (l *loader) crab(c *Config, a *agentSource, top *section) {
	a.read(top.table("system.crab"))
	c.Model = cmp.Or(a.agent.Model, activeModel(c.Providers))
	text, err := l.read(crabFile, maxFile)
	switch f := l.file(crabFile); {
	case err != nil:
		f.add(0, "%s", reason(err))
	case text == nil:
		a.agent.Prompt = DefaultPrompt
	default:
		a.agent.Prompt, a.agent.File = strings.ToValidUTF8(string(text), "\ufffd"), f.path
	}
	l.identity(c, a)
}

// read reads the keys that tables and front matter share, and more.
func (a *agentSource) read(s *section, more ...row) {
	for key := range s.t {
		if a.agent.Origins == nil {
			a.agent.Origins = make(map[string]Origin)
		}
		a.agent.Origins[key] = Origin{s.f.path, s.at(key).line}
	}
	s.read(append(a.agent.rows(), more...))
	if s.has("model") {
		a.model = s.at("model")
	}
	if s.has("compact_model") {
		a.compact = s.at("compact_model")
	}
	if s.has("members") {
		a.members = nil
		for _, at := range s.items("members") {
			a.members = append(a.members, at)
		}
	}
	s.spaces("memory_read", a.agent.ReadSpaces)
	own := cmp.Or(a.agent.Space, space.Main)
	a.agent.ReadSpaces = slices.DeleteFunc(a.agent.ReadSpaces, func(name string) bool { return name == own })
}

// readMemory reads memory, which is a boolean or the space that the agent writes.
func (a *Agent) readMemory(s *section, v any) {
	switch v := v.(type) {
	case bool:
		a.Memory = v
	case string:
		a.Memory, a.Space = true, v
		if err := space.Check(v); err != nil {
			s.add("memory", "%v", err)
		}
	default:
		s.wrong("memory", "true, false, or the name of a space")
	}
}

// agentFiles reads agents/*.md. It ignores directories, hidden files, and files
// with other names.
func (l *loader) agentFiles(c *Config, all map[string]*agentSource) {
	if l.tree == nil {
		return
	}
	entries, err := l.tree.ReadDir("agents")
	if errors.Is(err, fs.ErrNotExist) {
		return
	} else if err != nil {
		l.part(l.file("agents")).add(0, "%s", reason(err))
		return
	}
	n := 0
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".md")
		if !ok || strings.HasPrefix(name, ".") || e.IsDir() {
			continue
		}
		if n++; n > maxAgents {
			l.part(l.file("agents")).add(0, "there are more than %d agents", maxAgents)
			return
		}
		l.agentFile(c, all, name)
	}
}

func (l *loader) agentFile(c *Config, all map[string]*agentSource, name string) {
	file := path.Join("agents", name+".md")
	f, broken := l.part(l.file(file)), len(l.broken)
	text, err := l.read(file, maxFile)
	if text == nil && err == nil { // removed since the directory was read
		return
	}
	var front source
	var body string
	switch {
	case err != nil:
		f.add(0, "%s", reason(err))
	case !utf8.Valid(text):
		f.add(0, "it is not UTF-8")
	default:
		if front, body, err = splitFront(string(text)); err != nil {
			f.syntax(err)
		}
	}
	s := &section{l: l, f: f, src: &front, t: front.tree}
	s.check(frontMatter)
	a := &agentSource{agent: newAgent(name, c)}
	a.read(s, a.agent.nameRow())
	a.agent.Prompt, a.agent.File = strings.TrimSpace(body), f.path
	at := s.at("name")
	switch name := a.agent.Name; {
	case name == Crab:
		at.add("agent name 'crab' is reserved: its prompt is Crab.md in the home")
	case badAgent(name) != "":
		at.add("agent name '%s' %s", short(name), badAgent(name))
	case all[name] != nil:
		at.add("agent name '%s' is taken: see %s", name, all[name].agent.File)
	default:
		all[name] = a
	}
	a.broken = len(l.broken) > broken
}

// badAgent returns why the name of an agent is invalid, or "". The name is used
// in file names, prompts, and tables of text.
func badAgent(name string) string {
	if why := badName(name); why != "" {
		return why
	}
	if len(name) > 64 {
		return fmt.Sprintf("has %d bytes, more than the limit of 64", len(name))
	}
	if strings.IndexFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	}) >= 0 || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") {
		return "must consist of letters, digits, '-', '_', and '.', and begin with a letter, a digit, or '_'"
	}
	return ""
}
