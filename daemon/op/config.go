package op

import (
	"context"
	"time"

	"crabmem/daemon/errtable"
	"crabmem/daemon/model"
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
}

// maxProbeTimeout limits the time that a client may request for a check of providers.
const maxProbeTimeout = time.Minute

// CheckConfig uses the daemon's environment. The problems of the configuration are an error
// of kind config.
var CheckConfig = Add(errtable.Other, Op[Daemon, ConfigToCheck, CheckedConfig]{
	Name: "config.check", Does: "Check the configuration files, and change nothing.", Effect: Reads, Files: true,
	Run: func(ctx context.Context, d Daemon, in *ConfigToCheck) (out CheckedConfig, err error) {
		c, err := d.ReadConfig()
		if err != nil {
			return out, err
		}
		out = CheckedConfig{Model: c.Model, Providers: []string{}, Agents: []string{}}
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
			out.Probes = model.ProbeAll(ctx, c.Models(), limit)
		}
		return out, nil
	},
})
