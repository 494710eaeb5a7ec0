package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"crabmem/daemon"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/model"
	"crabmem/daemon/op"
	"crabmem/daemon/sandbox"
	"crabmem/daemon/tool"
)

// probeMargin is added to the time limit of the providers for the daemon's response.
const probeMargin = 5 * time.Second

// checkConfig checks the configuration and the providers. A daemon of the home does
// this, because its environment contains the keys. Without a daemon, this process
// does.
func (d *doctor) checkConfig(ctx context.Context) {
	load, checked := config.Load, ""
	var probes []model.Probe
	var servers []op.MCPServer
	var problems config.Problems
	if real, err := d.FS.Resolve(d.Home); err == nil && d.hello != nil && d.hello.Home == real {
		wait, cancel := context.WithTimeout(ctx, d.Timeout+probeMargin)
		defer cancel()
		reply, err := op.CheckConfig.Do(wait, d.Client, op.ConfigToCheck{Probe: true, TimeoutMS: d.Timeout.Milliseconds()})
		if err != nil {
			d.badConfig(ConfigError(err))
			return
		}
		probes, servers, checked = reply.Probes, reply.Servers, "; checked by the daemon"
		load = config.LoadStructure
		problems = ByDaemon(reply.Problems)
	}
	c, err := load(d.FS, d.Home, d.Getenv)
	if err != nil {
		d.badConfig(err)
		return
	}
	if checked == "" {
		problems = c.Broken
	}
	_, err = d.FS.Lstat(filepath.Join(d.Home, config.File))
	written := err == nil
	if len(problems) > 0 {
		d.badConfig(problems)
	} else if written {
		d.ok("config", "%s, %s%s", display.Plural(len(c.Agents), "agent", "agents"), display.Plural(len(c.Providers), "provider", "providers"), checked)
	} else {
		d.ok("config", "no config.toml; run crabmem init to create it")
	}
	d.checkModel(c, written)
	d.checkEmbedder(ctx, c.Embedder)
	if checked == "" {
		probes = model.ProbeAll(ctx, c.Models(), d.Timeout)
	}
	for _, p := range probes {
		switch name := "provider " + p.Provider; {
		case p.Missing != "":
			d.fail(name, "ollama pull "+errtable.ShellWord(p.Missing), "%s%s", p.Message, checked)
		case p.Fix != "":
			d.fail(name, p.Fix, "%s%s", p.Message, checked)
		default:
			d.ok(name, "%s%s", p.Message, checked)
		}
	}
	d.checkServers(c, servers)
	d.checkConfinement(ctx, c)
}

// DaemonVariables is added to the fix if the daemon reports an unset variable.
const DaemonVariables = "; the daemon reads variables from its own environment: after you change one, restart the daemon"

// ByDaemon adds to the fixes of unset variables that they are those of the daemon.
func ByDaemon(ps config.Problems) config.Problems {
	for i, p := range ps {
		if p.IsVariable() {
			ps[i].Fix += DaemonVariables
		}
	}
	return ps
}

// badConfig reports the problems of the configuration.
func (d *doctor) badConfig(err error) {
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		d.broken("config", err)
		return
	}
	r := &Report{Count: len(problems)}
	for _, p := range problems {
		r.Problems = append(r.Problems, Finding{State: Fail, What: p.String(), Remedy: p.Repair()})
	}
	d.problems("config", r, Fail, "fix the configuration first")
}

// ConfigError returns the [config.Problems] that an error of the daemon describes. It
// returns any other error unchanged.
func ConfigError(err error) error {
	var problems config.Problems
	if e, ok := errors.AsType[*client.Error](err); ok && e.Kind == "config" && json.Unmarshal(e.Details, &problems) == nil && len(problems) > 0 {
		return problems
	}
	return err
}

// checkModel looks which model answers.
func (d *doctor) checkModel(c *config.Config, written bool) {
	active := c.Model
	if d.hello != nil {
		active = d.hello.Model
	}
	switch {
	case active != config.Offline:
		d.ok("model", "%s", active)
	case len(c.Providers) > 0:
		d.warn("model", "set model in [system.crab] of config.toml", "offline, but a provider is configured: agents answer from memory only")
	case config.KeyVariable(d.Getenv) != "":
		d.warn("model", "run crabmem init --force to write a configuration with this key", "offline, but %s is set: agents answer from memory only", config.KeyVariable(d.Getenv))
	case written || d.hello != nil:
		d.warn("model", "add a [provider.NAME] to config.toml, or set a key such as OPENAI_API_KEY and run crabmem init --force", "offline: agents answer from memory only")
	default:
		d.ok("model", "offline: agents answer from memory only")
	}
}

// checkConfinement looks whether commands of confined agents can be run, when
// there is such an agent.
func (d *doctor) checkConfinement(ctx context.Context, c *config.Config) {
	confined := ""
	for i := range c.Agents {
		if s := daemon.Scope(c, &c.Agents[i], nil); s.Confined && s.Tools.Allows(tool.Bash) {
			confined = c.Agents[i].Name
			break
		}
	}
	if confined == "" {
		d.ok("confinement", "no agent needs it")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	err := d.Machine.Confinable(ctx)
	if err == nil {
		d.ok("confinement", "confined agents can run commands")
		return
	}
	remedy := `remove bash from confined agents: set access = "never" under [tools.bash]`
	why := err.Error()
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		why = e.Err.Error()
		remedy = e.Remedy()
	}
	d.fail("confinement", remedy, "agent %s has a scope, but this system cannot confine its commands: %s", confined, why)
}
