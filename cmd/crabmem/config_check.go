package main

import (
	"context"
	"path/filepath"

	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/tool"

	"github.com/spf13/cobra"
)

// configChecked is the output of config check --json.
type configChecked struct {
	Path      string   `json:"path"`
	Model     string   `json:"model"`
	Providers []string `json:"providers"`
	Agents    []string `json:"agents"`
	Daemon    bool     `json:"daemon"` // the daemon checked it, with its environment

	Identity []config.Identity `json:"identity"` // files, in the order of the prompt
	Warnings config.Problems   `json:"warnings"`
}

func configCheck(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "check",
		Short: "find problems in the configuration",
		Long: `Read config.toml, agents/*.md, Crab.md, SOUL.md, IDENTITY.md, and USER.md, as
the daemon does. The last four files, in this order, are the prompt of the agent
crab; other agents receive them as instructions.

If there are problems, check lists each with its file and line, and exits with
1. Keys and patterns without effect are warnings and do not change the exit
code. A missing config.toml is valid. While a daemon runs, it checks the files
with its own environment, which contains its keys. crabmem doctor also checks
the keys.`,
		Example: `  crabmem config check
  crabmem config check --json`,
	}, func(ctx context.Context, _ []string) (a configChecked, err error) {
		home := c.homeDir()
		r, byDaemon, err := c.checkConfig(ctx, home)
		if err != nil {
			return a, err
		}
		a = configChecked{Path: filepath.Join(home, config.File), Model: r.Model, Providers: listOf(r.Providers), Agents: listOf(r.Agents), Daemon: byDaemon}
		a.Identity, a.Warnings, err = c.configRemarks(home)
		return a, err
	}, func(a configChecked) {
		for _, w := range a.Warnings {
			c.Warn(w.String())
		}
		for _, f := range a.Identity {
			c.Say("identity: %s, %s", display.Printable(f.Path), display.Size(int64(f.Bytes)))
		}
		by := ""
		if a.Daemon {
			by = "; checked by the daemon"
		}
		c.Say("%s is valid: %s, %s, model %s%s", display.Printable(a.Path), display.Plural(len(a.Agents), "agent", "agents"),
			display.Plural(len(a.Providers), "provider", "providers"), display.Label(a.Model), by)
	})
}

// checkConfig makes the daemon of the home check the configuration. If no daemon
// runs for this home, this process checks it, with its own environment variables.
func (c *app) checkConfig(ctx context.Context, home string) (r op.CheckedConfig, byDaemon bool, err error) {
	d, h, err := c.running(ctx)
	if err == nil {
		defer d.Close() //nolint:errcheck // the response has arrived
		if real, rerr := c.fs.Resolve(home); rerr == nil && h.Home == real {
			r, err := op.CheckConfig.Do(ctx, d, op.ConfigToCheck{})
			return r, true, err
		}
	} else if kind := classify(err).Kind; kind != "no_daemon" {
		c.Warn("the daemon did not check the files; check uses the variables of its own environment: " + err.Error())
	}
	here := op.Parts{ReadConfig: func() (*config.Config, error) { return config.Load(c.fs, home, c.Getenv) }}
	r, err = op.CheckConfig.Do(ctx, op.Local{On: op.Daemon{Parts: &here}}, op.ConfigToCheck{})
	return r, false, err
}

// configWarnings returns a warning for each setting of the configuration and of the
// skills that has no effect.
func (c *app) configWarnings(conf *config.Config) (config.Problems, error) {
	list := append(config.Problems{}, conf.Warnings...)
	list = append(list, conf.UnmatchedTools(tool.Unmatched, tool.BuiltIn())...)
	set, err := c.loadSkills(nil)
	if err != nil {
		return nil, err
	}
	for _, s := range set.Skills(tool.Unbounded()) {
		for _, w := range s.Unmatched(tool.BuiltIn()) {
			list = append(list, config.Problem{Path: w.File, Line: w.Line, Message: w.Text + "; " + w.Remedy})
		}
	}
	return list, nil
}

// configRemarks returns the identity files and the warnings of a valid configuration.
// It does not read variables and secrets: only the daemon may have them, and the
// result does not depend on them.
func (c *app) configRemarks(home string) ([]config.Identity, config.Problems, error) {
	conf, err := config.LoadStructure(c.fs, home, c.Getenv)
	if err != nil {
		return nil, nil, err
	}
	warnings, err := c.configWarnings(conf)
	return append([]config.Identity{}, conf.Identity...), warnings, err
}
