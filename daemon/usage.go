package daemon

import (
	"context"
	"path/filepath"

	"crabmem/daemon/config"
	"crabmem/daemon/trust"
	"crabmem/daemon/usage"
)

// UsageFile returns the file with a home's usage.
func UsageFile(home string) string { return filepath.Join(home, "run", "usage.json") }

// admit returns an error if a configured limit refuses a run, or else counts it
// if begins is set.
func (d *Daemon) admit(p usage.Payer, begins bool) error {
	c := d.setup().config
	a, _ := c.Agent(p.Agent)
	runs := map[trust.Level]int{trust.Untrusted: c.Limits.UntrustedRuns, trust.Trusted: c.Limits.TrustedRuns}
	return d.usage.Admit(p, usage.Limits{Tokens: a.TokensPerDay, Runs: a.RunsPerMinute, OriginRuns: runs[c.Origins.Level(p.Origin)]}, begins)
}

// spent counts the tokens of a model call. The model offline has no tokens.
func (d *Daemon) spent(ctx context.Context, model string, prompt, completion int) {
	if model != config.Offline {
		d.usage.Add(usage.PayerOf(ctx), model, prompt, completion)
	}
}
