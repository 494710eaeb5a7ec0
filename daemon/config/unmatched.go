package config

import (
	"slices"
	"strings"
)

// UnmatchedTools returns a warning for each pattern in an agent's tools that
// unmatched returns, and for each tool of an MCP server that the agent may not use.
// unmatched is a function such as tool.Unmatched.
func (c *Config) UnmatchedTools(unmatched func(patterns, names []string) []string, names []string) Problems {
	var found Problems
	for _, a := range c.Agents {
		at := a.Origins["tools"]
		p := place{&file{found: &found, path: at.Path}, at.Line}
		for _, pattern := range unmatched(a.Tools, names) {
			hint := suggest(pattern, names)
			switch {
			case hint == "" && !strings.Contains(pattern, "/") && (len(a.MCPs) > 0 || strings.HasSuffix(pattern, "*") && len(c.MCPs) > 0 && a.mayUse("")):
				continue // a server may have the tool
			case hint == "" && !strings.Contains(pattern, "/"):
				hint = "; for a tool of an MCP server, write SERVER/" + short(pattern)
			}
			p.add("agent '%s': '%s' in tools matches no tool%s", a.Name, short(pattern), hint)
		}
		for _, name := range a.Tools {
			if server, _, ok := strings.Cut(name, "/"); ok && server != "" && !a.mayUse(server) {
				p.add("agent '%s': '%s' in tools has no effect; add '%s' to mcps", a.Name, short(name), short(server))
			}
		}
	}
	found.sort()
	return found
}

// mayUse reports whether the lists of an agent permit an MCP server.
func (a *Agent) mayUse(server string) bool {
	if len(a.MCPs) == 0 {
		return len(a.Skills)+len(a.SkillTags)+len(a.Members) == 0
	}
	return slices.ContainsFunc(a.MCPs, func(name string) bool {
		prefix, isPattern := strings.CutSuffix(name, "*")
		return name == server || isPattern && strings.HasPrefix(server, prefix)
	})
}
