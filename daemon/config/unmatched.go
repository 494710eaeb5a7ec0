package config

// UnmatchedTools returns a warning for each pattern in an agent's tools that
// unmatched returns. unmatched is a function such as tool.Unmatched.
func (c *Config) UnmatchedTools(unmatched func(patterns, names []string) []string, names []string) Problems {
	var found Problems
	for _, a := range c.Agents {
		at := a.Origins["tools"]
		for _, pattern := range unmatched(a.Tools, names) {
			place{&file{found: &found, path: at.Path}, at.Line}.unknown(pattern, names, "agent '%s': '%s' in tools matches no tool", a.Name, short(pattern))
		}
	}
	found.sort()
	return found
}
