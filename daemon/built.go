package daemon

import (
	"crabmem/daemon/config"
	"crabmem/daemon/tool"
)

// Scope returns the permission set of an agent.
func Scope(c *config.Config, a *config.Agent) tool.Scope {
	return tool.For(tool.Grant{
		Tools: a.Tools, Skills: a.Skills, MCPs: a.MCPs, Members: a.Members,
		Default: a.Name == config.Crab, NoMemory: !c.Memory || !a.Memory, Bash: c.Bash.Access,
	})
}
