package doctor

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"sync"

	"crabmem/daemon"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/model"
	"crabmem/daemon/sandbox"
	"crabmem/daemon/tool"
)

// checkConfig reads the configuration and looks whether what it asks for can
// be had.
func (d *doctor) checkConfig(ctx context.Context) {
	c, err := config.Load(d.FS, d.Home, d.Getenv)
	if problems, ok := errors.AsType[config.Problems](err); ok {
		r := &Report{Count: len(problems)}
		for _, p := range problems {
			r.Problems = append(r.Problems, Finding{State: Fail, What: p.String(), Remedy: "fix it in " + errtable.ShellWord(p.Path)})
		}
		d.problems("config", r, Fail, "fix the configuration first")
		return
	}
	if err != nil {
		d.broken("config", err)
		return
	}
	_, err = d.FS.Lstat(filepath.Join(d.Home, config.File))
	written := err == nil
	if written {
		d.ok("config", "%s, %s", display.Plural(len(c.Agents), "agent", "agents"), display.Plural(len(c.Providers), "provider", "providers"))
	} else {
		d.ok("config", "no config.toml; run crabmem init to create it")
	}
	d.checkModel(c, written)
	d.checkProviders(ctx, c)
	d.checkServers(c)
	d.checkConfinement(ctx, c)
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
	case d.Getenv("OPENAI_API_KEY") != "":
		d.warn("model", "run crabmem init --force to write a configuration with OpenAI", "offline, but OPENAI_API_KEY is set: agents answer from memory only")
	case written || d.hello != nil:
		d.warn("model", "add a [provider.NAME] to config.toml, or set OPENAI_API_KEY and run crabmem init --force", "offline: agents answer from memory only")
	default:
		d.ok("model", "offline: agents answer from memory only")
	}
}

// checkProviders asks all providers at once whether they are there.
func (d *doctor) checkProviders(ctx context.Context, c *config.Config) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	type answer struct {
		address string
		err     error
	}
	answers := make([]answer, len(c.Providers))
	var wg sync.WaitGroup
	for i := range c.Providers {
		wg.Go(func() { answers[i].address, answers[i].err = c.Providers[i].Model().Probe(ctx) })
	}
	wg.Wait()
	for i := range c.Providers {
		p, a := &c.Providers[i], answers[i]
		name := "provider " + p.Name
		key := "no key"
		if p.APIKey != "" || p.AccessKey != "" {
			key = "the key is set"
		}
		var none *model.MissingModelError
		switch {
		case a.err == nil:
			d.ok(name, "%s answers, %s", a.address, key)
		case errors.Is(a.err, model.ErrKey):
			d.fail(name, "put a valid key into api_key, or into the variable in api_key", "%s rejects the request; %s", a.address, key)
		case errors.As(a.err, &none):
			d.fail(name, "ollama pull "+errtable.ShellWord(none.Model), "%s: %v", a.address, a.err)
		case errors.Is(a.err, context.DeadlineExceeded):
			d.fail(name, "check the network, the proxy, and base_url, or raise --timeout", "%s does not answer within %v", a.address, d.Timeout)
		case a.address == "":
			d.fail(name, "fix it in config.toml", "%v", a.err)
		default:
			d.fail(name, "check base_url, the network, and that the server runs", "%s cannot be reached: %v", a.address, a.err)
		}
	}
}

// checkServers looks whether the programs of MCP servers are there. Those are not
// started: what they do then is theirs.
func (d *doctor) checkServers(c *config.Config) {
	for _, m := range c.MCPs {
		if m.Command == "" {
			continue
		}
		if path, err := exec.LookPath(m.Command); err != nil {
			d.fail("server "+m.Name, "install it, or fix command in [mcps."+m.Name+"] of config.toml", "program %s not found", m.Command)
		} else {
			d.ok("server "+m.Name, "%s", path)
		}
	}
}

// checkConfinement looks whether commands of confined agents can be run, when
// there is such an agent.
func (d *doctor) checkConfinement(ctx context.Context, c *config.Config) {
	confined := ""
	for i := range c.Agents {
		if s := daemon.Scope(c, &c.Agents[i]); s.Confined && s.Tools.Allows(tool.Bash) {
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
