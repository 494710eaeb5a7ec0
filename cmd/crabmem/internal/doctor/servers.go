package doctor

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
)

// checkServers reports the states of the configured MCP servers in the daemon. For a
// server without a state it looks for the program, which it does not start.
func (d *doctor) checkServers(c *config.Config, states []op.MCPServer) {
	for _, m := range c.MCPs {
		name, fix := "server "+m.Name, "install it, or fix command in [mcps."+m.Name+"] of config.toml"
		path, absent := exec.LookPath(m.Command)
		i := slices.IndexFunc(states, func(s op.MCPServer) bool { return s.Name == m.Name })
		switch {
		case i < 0 && m.Command == "": // an address
		case i < 0 && absent != nil:
			d.fail(name, fix, "program %s not found", m.Command)
		case i < 0:
			d.ok(name, "%s", path)
		case states[i].State == "connected":
			d.ok(name, "connected, %s; checked by the daemon", display.Plural(states[i].Tools, "tool", "tools"))
		case states[i].State == "connecting":
			d.ok(name, "connecting; checked by the daemon")
		default:
			if m.Command == "" || absent == nil {
				fix = "fix [mcps." + m.Name + "] of config.toml; see crabmem daemon logs"
			}
			if absent == nil && strings.Contains(states[i].Error, exec.ErrNotFound.Error()) {
				fix = "run crabmem daemon restart from this shell, or crabmem service install if the daemon is a service: its PATH has no " + m.Command
			}
			d.fail(name, fix, "disconnected: %s; checked by the daemon", states[i].Error)
		}
	}
}

// checkService compares the PATH of the installed service with that of this process. It
// reports programs of MCP servers that only this process finds.
func (d *doctor) checkService(context.Context) {
	home, err := d.Service.InstalledEnv("CRABTALK_HOME")
	if missing(err) || err == nil && home != d.Home {
		return // no service, one of another home, or a system whose services have the user's PATH
	}
	path, perr := d.Service.InstalledEnv("PATH")
	if err = errors.Join(err, perr); err != nil {
		d.broken("service", err)
		return
	}
	const fix = "run crabmem service install from this shell"
	dirs := filepath.SplitList(path)
	if c, err := config.LoadStructure(d.FS, d.Home, d.Getenv); err == nil {
		for _, m := range c.MCPs {
			found, err := exec.LookPath(m.Command)
			if err == nil && found != m.Command && !slices.Contains(dirs, filepath.Dir(found)) {
				d.warn("service", fix, "the PATH of the service has no %s, the program of the MCP server %s: %s", m.Command, m.Name, found)
				return
			}
		}
	}
	var lacks []string
	for _, dir := range filepath.SplitList(d.Getenv("PATH")) {
		if filepath.IsAbs(dir) && !slices.Contains(dirs, dir) {
			lacks = append(lacks, dir)
		}
	}
	if len(lacks) > 0 {
		d.ok("service", "installed; its PATH has no %s; %s to add them", strings.Join(lacks, ", "), fix)
		return
	}
	d.ok("service", "installed, with the PATH of this shell")
}
