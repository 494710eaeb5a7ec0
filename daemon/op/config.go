package op

import (
	"context"
	"time"

	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
	"crabmem/daemon/model"
	"crabmem/daemon/space"
)

// ConfigToCheck is a check of the configuration files.
type ConfigToCheck struct {
	Probe     bool  `json:"probe,omitempty"`      // connect to the providers, without cost
	TimeoutMS int64 `json:"timeout_ms,omitempty"` // of a provider; 0: 5 s, at most 60 s
}

// CheckedConfig is a valid configuration. No text contains a key.
type CheckedConfig struct {
	Model     string        `json:"model"` // the default
	Providers []string      `json:"providers"`
	Agents    []string      `json:"agents"`
	Probes    []model.Probe `json:"probes,omitempty"` // of the providers, in their order
	// Problems are those of the parts that are not in use, as config.Config defines.
	Problems config.Problems `json:"problems,omitempty"`
	Servers  []MCPServer     `json:"servers,omitempty"` // that the daemon uses, with Probe
}

// MCPServer is the state of an MCP server or component in the daemon.
type MCPServer struct {
	Name  string `json:"name"`
	State string `json:"state" op:"words=connecting|connected|disconnected"`
	Tools int    `json:"tools"`
	Error string `json:"error,omitempty"` // why the server is disconnected
}

// maxProbeTimeout limits the time that a client may request for a check of providers.
const maxProbeTimeout = time.Minute

// CheckConfig uses the daemon's environment. Problems that concern all parts of the
// configuration are an error of kind config.
var CheckConfig = Add(errtable.Other, Op[Daemon, ConfigToCheck, CheckedConfig]{
	Name: "config.check", Does: "Check the configuration files, and change nothing.", Effect: Reads, Files: true,
	Run: func(ctx context.Context, d Daemon, in *ConfigToCheck) (out CheckedConfig, err error) {
		c, err := d.ReadConfig()
		if err != nil {
			return out, err
		}
		out = CheckedConfig{Model: c.Model, Providers: []string{}, Agents: []string{}, Problems: c.Broken}
		for _, p := range c.Providers {
			out.Providers = append(out.Providers, p.Name)
		}
		for _, a := range c.Agents {
			out.Agents = append(out.Agents, a.Name)
		}
		if in.Probe {
			limit := model.DefaultProbeTimeout
			if in.TimeoutMS > 0 {
				limit = time.Duration(min(in.TimeoutMS, maxProbeTimeout.Milliseconds())) * time.Millisecond
			}
			out.Probes, out.Servers = model.ProbeAll(ctx, c.Models(), limit), d.MCPServers()
		}
		return out, nil
	},
})

// ConfigText is a configuration as JSON.
type ConfigText struct {
	Config string `json:"config"`
}

// ReadConfig reads the configuration, without secrets.
var ReadConfig = Add(errtable.Other, Op[Daemon, None, ConfigText]{
	Name: "config.read", Does: "Read the configuration.", Effect: Reads, Files: true,
	Run: func(_ context.Context, d Daemon, _ *None) (ConfigText, error) {
		text, err := config.Get(d.Home.FS, d.Home.Path)
		return ConfigText{string(text)}, err
	},
})

// ConfigChange is a new configuration, or new values of keys. Other keys keep their
// values, even those that another client sets concurrently.
type ConfigChange struct {
	Config string        `json:"config,omitempty"`
	Keys   []config.Pair `json:"keys,omitempty"`
	// Wait limits the wait for the lock of the configuration. 0: the daemon's limit.
	Wait time.Duration `json:"wait,omitempty"`
}

// Apply makes the change in a home. The caller holds the lock of [config.Locked].
func (in *ConfigChange) Apply(home space.Home, getenv func(string) string) (*config.Change, error) {
	if len(in.Keys) > 0 {
		return config.SetKeys(home.FS, home.Path, in.Keys, getenv)
	}
	return config.Set(home.FS, home.Path, []byte(in.Config), getenv)
}

// ChangedConfig is the result of a change of the configuration.
type ChangedConfig struct {
	Used     bool            `json:"used"` // false: Problems keep it from being used
	Problems config.Problems `json:"problems,omitempty"`
}

// SetConfig validates a configuration, writes it, and uses it. A change that introduces a
// problem changes no file.
var SetConfig = Add(errtable.Other, Op[Daemon, ConfigChange, ChangedConfig]{
	Name: "config.set", Does: "Change the configuration.", Effect: Manages,
	Run: func(_ context.Context, d Daemon, in *ConfigChange) (ChangedConfig, error) { return d.ChangeConfig(in) },
})

var ReloadConfig = Add(errtable.Other, Op[Daemon, None, ChangedConfig]{
	Name: "config.reload", Does: "Read the configuration, agents, and skills again, and use them.", Effect: Manages,
	Run: func(_ context.Context, d Daemon, _ *None) (ChangedConfig, error) {
		err := d.Reload()
		return ChangedConfig{err == nil, d.Setup().Config.Broken}, err
	},
})
