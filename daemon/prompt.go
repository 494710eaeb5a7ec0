package daemon

import (
	"fmt"
	"strings"

	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/sessionlog"
)

// hooks are what the daemon does at each point of an agent's life (RFC 0075).
func (d *Daemon) hooks() agent.Hooks {
	return agent.Hooks{
		BeforeRun: d.beforeRun,
		Event: func(t *agent.Turn, e agent.Event) {
			if e.Kind == agent.Refused {
				v := e.Refused
				d.log.Warn("outside its scope", "security", true, "agent", v.Agent, "session", v.Session, "kind", v.Kind, "name", v.Name)
			}
			d.publish(t, e)
		},
	}
}

// beforeRun returns what stands before the user's newest message, in this order
// (D25): the instructions of the home and of the working directory, the agents
// that may be given tasks, and where the work is done.
func (d *Daemon) beforeRun(t *agent.Turn) []sessionlog.Message {
	var ms []sessionlog.Message
	add := func(text string) { ms = append(ms, sessionlog.Message{Role: sessionlog.RoleUser, Content: text}) }
	text, err := config.Instructions(d.fs, d.home, t.Session.Dir, t.Agent.Name)
	if err != nil {
		d.log.Warn("Crab.md", "error", err)
	}
	if text != "" {
		add("<instructions>\n" + text + "\n</instructions>")
	}
	if text := d.members(t); text != "" {
		add("<agents>\n" + text + "</agents>")
	}
	if t.Session.Dir != "" {
		add("<environment>\nworking_directory: " + t.Session.Dir + "\n</environment>")
	}
	return ms
}

func (d *Daemon) members(t *agent.Turn) string {
	var b strings.Builder
	for _, a := range d.setup().config.Agents {
		if a.Name != t.Agent.Name && t.Scope.Members.Allows(a.Name) {
			fmt.Fprintf(&b, "- %s: %s\n", a.Name, oneLine(a.Description))
		}
	}
	return b.String()
}
