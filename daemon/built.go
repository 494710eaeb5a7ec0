package daemon

import (
	"crabmem/daemon/config"
	"crabmem/daemon/model"
	"crabmem/daemon/tool"
)

// Provider is a configured provider as it is called.
func Provider(p *config.Provider) model.Provider {
	retries := p.MaxRetries
	return model.Provider{
		Name: p.Name, Kind: p.Kind, BaseURL: p.BaseURL, APIKey: string(p.APIKey), APIVersion: p.APIVersion, Region: p.Region,
		AccessKey: string(p.AccessKey), SecretKey: string(p.SecretKey), Models: p.Models, MaxRetries: &retries,
		Timeout: p.Timeout, IdleTimeout: p.IdleTimeout, ContextLimits: p.ContextLimits, Fallback: p.Fallback,
	}
}

// Scope is what an agent may use.
func Scope(c *config.Config, a *config.Agent) tool.Scope {
	return tool.For(tool.Grant{
		Tools: a.Tools, Skills: a.Skills, MCPs: a.MCPs, Members: a.Members,
		Default: a.Name == config.Crab, NoMemory: !c.Memory || !a.Memory, Bash: c.Bash.Access,
	})
}
