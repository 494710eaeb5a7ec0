package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A source is a partly read agent and the places of values that are checked later.
type source struct {
	agent   Agent
	at      place // its file or table
	model   place
	members []place // of agent.Members
}

// agents reads agents/*.md, [agents.*], [system.crab] and Crab.md.
func (l *loader) agents(c *Config, top *section, models map[string]place) {
	all := map[string]*source{Crab: {agent: newAgent(Crab, c.Memory)}}
	l.agentFiles(c, all)
	top.tables("agents", func(name string, s *section) {
		if name == Crab {
			s.at("").add("agent name 'crab' is reserved: it is configured by [system.crab]")
			l.fields(&source{}, s)
			return
		}
		if why := badAgent(name); why != "" {
			s.at("").add("agent name '%s' %s", short(name), why)
		}
		a := all[name]
		if a == nil {
			a = &source{agent: newAgent(name, c.Memory), at: s.at("")}
			all[name] = a
		}
		l.fields(a, s)
		if s.has("prompt") {
			s.str("prompt", &a.agent.Prompt)
			a.agent.File = s.f.path
		}
		s.asked["prompt"] = true
	})
	l.crab(c, all[Crab], top)

	for _, a := range all {
		c.Agents = append(c.Agents, a.agent)
	}
	slices.SortFunc(c.Agents, func(a, b Agent) int { return strings.Compare(a.Name, b.Name) })
	if n := len(c.Agents) - 1; n > maxAgents {
		l.file(File).add(0, "%d agents besides crab exceed the limit of %d", n, maxAgents)
	}
	names := make([]string, len(c.Agents))
	for i := range c.Agents {
		a := &c.Agents[i]
		names[i] = a.Name
		a.FollowsActive = a.Model == "" || a.Name == Crab
		a.Model = cmp.Or(a.Model, c.Model)
		a.Memory = a.Memory && c.Memory
	}
	known := append(modelNames(c), Offline)
	for _, name := range names {
		a := all[name]
		if m := a.agent.Model; m != "" && m != Offline && models[m].f == nil {
			a.model.unknown(m, known, "agent '%s': no provider has the model '%s'", name, short(m))
		}
		for i, m := range a.agent.Members {
			if all[m] == nil {
				a.members[i].unknown(m, names, "agent '%s': unknown agent '%s' in members", name, short(m))
			}
		}
	}
}

func newAgent(name string, memory bool) Agent {
	return Agent{Name: name, MaxIterations: 16, CompactThreshold: 100_000, Memory: memory}
}

// crab reads the agent that is always there, and with it the active model: the
// one it names, or the first of the provider with the greatest weight.
func (l *loader) crab(c *Config, a *source, top *section) {
	s := top.table("system").table("crab")
	l.fields(a, s)
	s.done()
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

// fields reads the keys that tables and front matter share.
func (l *loader) fields(a *source, s *section) {
	for key, v := range s.t.keys {
		if a.agent.Origins == nil {
			a.agent.Origins = make(map[string]Origin)
		}
		a.agent.Origins[key] = Origin{s.f.path, v.line}
	}
	s.str("description", &a.agent.Description)
	if s.has("model") {
		a.model = s.at("model")
	}
	s.str("model", &a.agent.Model)
	s.integer("max_iterations", &a.agent.MaxIterations, 1, 1000)
	s.boolean("thinking", &a.agent.Thinking)
	members, at := []string{}, []place(nil)
	if s.each("members", func(name string, line int) {
		members, at = append(members, name), append(at, place{s.f, line})
	}) {
		a.agent.Members, a.members = members, at
	}
	s.strs("skills", &a.agent.Skills)
	s.strs("skill_tags", &a.agent.SkillTags)
	s.strs("mcps", &a.agent.MCPs)
	s.strs("tools", &a.agent.Tools)
	s.integer("compact_threshold", &a.agent.CompactThreshold, 0, maxTokens)
	s.integer("compact_tokens", &a.agent.CompactTokens, 0, maxTokens)
	l.prompt(s, "compact_prompt", &a.agent.CompactPrompt)
	s.agentSpaces(&a.agent)
}

// agentFiles reads agents/*.md. It ignores directories, hidden files, and files
// with other names.
func (l *loader) agentFiles(c *Config, all map[string]*source) {
	if l.tree == nil {
		return
	}
	entries, err := l.tree.ReadDir("agents")
	if errors.Is(err, fs.ErrNotExist) {
		return
	} else if err != nil {
		l.file("agents").add(0, "%s", reason(err))
		return
	}
	n := 0
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".md")
		if !ok || strings.HasPrefix(name, ".") || e.IsDir() {
			continue
		}
		if n++; n > maxAgents {
			l.file("agents").add(0, "there are more than %d agents", maxAgents)
			return
		}
		l.agentFile(c, all, name)
	}
}

func (l *loader) agentFile(c *Config, all map[string]*source, name string) {
	file := path.Join("agents", name+".md")
	f := l.file(file)
	text, err := l.read(file, maxFile)
	if err != nil {
		f.add(0, "%s", reason(err))
		return
	}
	if text == nil { // removed since the directory was read
		return
	}
	if !utf8.Valid(text) {
		f.add(0, "it is not UTF-8")
		return
	}
	front, body, err := splitFront(string(text))
	if err != nil {
		f.syntax(err)
	}
	if front == nil {
		front = &table{line: 1}
	}
	s := newSection(f, "", front)
	a := &source{agent: newAgent(name, c.Memory), at: s.at("")}
	s.str("name", &a.agent.Name)
	l.fields(a, s)
	s.done()
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
