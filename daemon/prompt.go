package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// hooks returns the daemon's hooks for runs (RFC 0075).
func (d *Daemon) hooks() agent.Hooks {
	return agent.Hooks{
		Preprocess: d.preprocess,
		BeforeRun:  d.beforeRun,
		Event: func(t *agent.Turn, e agent.Event) {
			if e.Kind == agent.Refused {
				v := e.Refused
				d.log.Warn("rejected a call outside the agent's scope", "security", true, "agent", v.Agent, "session", v.Session, "kind", v.Kind, "name", v.Name)
			}
			d.metrics.event(t, e)
			d.publish(t, e)
		},
	}
}

// preprocess replaces /NAME ARGS with the text of that skill, and restricts the
// run to the skill's tools. It returns the text unchanged if the scope lacks
// the skill, or if the text is literal.
func (d *Daemon) preprocess(t *agent.Turn) string {
	if t.Literal {
		return t.Content
	}
	text, sk, err := d.setupIn(t.Session.Workspace).skills.Preprocess(t.Scope(), t.Content)
	if v, ok := errors.AsType[*tool.Violation](err); ok {
		v.Agent, v.Session = t.Agent.Name, t.Session.ID
		d.hooks().Event(t, agent.Event{Kind: agent.Refused, Refused: v})
	} else if err != nil {
		d.log.Warn("a skill was not loaded", "error", err)
	}
	if sk != nil {
		t.Narrow(sk.Bound(t.Scope()))
	}
	return text
}

// beforeRun returns the messages before the user's newest one, in this order:
// the instructions of the home and of the working directory, the agents for
// delegated tasks, the environment, and skills whose triggers the message
// contains. Memories follow only if the agent's configuration injects them.
func (d *Daemon) beforeRun(ctx context.Context, t *agent.Turn) []sessionlog.Message {
	d.narrowContinued(t)
	var ms []sessionlog.Message
	add := func(text string) { ms = append(ms, sessionlog.Message{Role: record.RoleUser, Content: text}) }
	text := ""
	if !d.roles.IsWorker(t) { // its task is all that it knows
		var err error
		if text, err = config.Instructions(d.fs, d.home, t.Session.Dir, t.Agent.Name); err != nil {
			d.log.Warn("Crab.md", "error", err)
		}
	}
	if text != "" {
		add("<instructions>\n" + text + "\n</instructions>")
	}
	if text := d.members(t); text != "" {
		add("<agents>\n" + text + "</agents>")
	}
	add(environment(d.now(), t))
	if !strings.Contains(t.Content, "<skill name=") { // one that was named is enough
		for _, sk := range d.setupIn(t.Session.Workspace).skills.Triggered(t.Scope(), t.Content) {
			t.Narrow(sk.Bound(t.Scope()))
			add(sk.Block())
		}
	}
	if text, err := d.memories(ctx, t); err != nil {
		d.log.Warn("inject", "agent", t.Agent.Name, "error", err)
	} else if text != "" {
		add(text)
		agent.Emit(ctx, agent.Event{Kind: agent.Injected, Content: text})
	}
	return ms
}

const (
	injectedHits = 5
	maxInjected  = 8 << 10 // bytes of a message that recall searches for
)

// memories returns the text of memory that the agent's configuration adds to a run: only
// what the agent's own tools return. It is empty without one.
func (d *Daemon) memories(ctx context.Context, t *agent.Turn) (string, error) {
	a, _ := d.setupIn(t.Session.Workspace).config.Agent(t.Agent.Name)
	c := tool.Call{Agent: t.Agent.Name, Session: t.Session.ID, Workspace: t.Session.Workspace, Requester: t.Sender, Scope: t.Scope()}
	if c.Scope.Tool(tool.Recall) != nil {
		return "", nil
	}
	var text string
	var err error
	switch a.Inject {
	case "recall":
		text, err = d.recallTool(ctx, c, recallArgs{Query: clip.Bytes(t.Content, maxInjected), Limit: injectedHits})
		if strings.HasPrefix(text, noMemories) {
			text = ""
		}
	case "context":
		text, err = d.contextOf(t, c)
	}
	if text == "" || err != nil {
		return "", err
	}
	tag := a.Inject + ">"
	return "<" + tag + "\n" + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "</"+a.Inject, `<\/`+a.Inject) + "\n</" + tag, nil
}

// contextOf returns the context of a run: of the spaces that the agent reads, and of the
// sessions that it searches, without its own.
func (d *Daemon) contextOf(t *agent.Turn, c tool.Call) (string, error) {
	spaces, err := c.Scope.ReadSpaces(d.spacesOf(c.Workspace, c.Agent))
	if err != nil {
		return "", err
	}
	digest := op.NewDigest(op.ContextQuery{}, d.now())
	for _, name := range spaces {
		err := d.inSpace(name, func(s *crmem.Store) error {
			d.addTo(digest, name, s)
			return nil
		})
		if err != nil && !space.IsUnwritten(name, err) {
			return "", err
		}
	}
	var sessions func() ([]sessionlog.Info, error)
	if c.Scope.Tool(tool.SessionSearch) == nil {
		sessions = func() ([]sessionlog.Info, error) {
			list, err := d.readable(d.createdFor(c))
			return slices.DeleteFunc(list, func(i sessionlog.Info) bool {
				return i.Meta.Agent != c.Agent || i.Meta.Workspace != c.Workspace || i.ID == t.Session.Log.ID()
			}), err
		}
	}
	out, err := digest.Text(sessions)
	return out.Text, err
}

// environment describes where and when a turn runs. It has no time of day, so that
// the prompt stays the same and the provider can cache it, except for crons, whose
// task may depend on the time.
func environment(now time.Time, t *agent.Turn) string {
	s := "<environment>\n"
	if t.Session.Dir != "" {
		s += "working_directory: " + t.Session.Dir + "\n"
	}
	s += now.Format("date: 2006-01-02 (Monday)\n")
	if trust.IsCron(t.Sender) {
		s += now.Format("time: 15:04:05\n")
	}
	return s + now.Format("time_zone: MST (UTC-07:00)\n") + "</environment>"
}

func (d *Daemon) members(t *agent.Turn) string {
	var b strings.Builder
	for _, a := range d.setupIn(t.Session.Workspace).config.Agents {
		if a.Name != t.Agent.Name && t.Scope().Members.Allows(a.Name) {
			fmt.Fprintf(&b, "- %s: %s\n", a.Name, display.OneLine(a.Description))
		}
	}
	return b.String()
}

// Scope returns the scope of an agent. tagged lists the skills that have one of the
// agent's skill_tags.
func Scope(c *config.Config, a *config.Agent, tagged []string) tool.Scope {
	instructions := ""
	if a.EditInstructions {
		instructions = c.InstructionsFile()
	}
	return tool.For(tool.Grant{
		Instructions: instructions, Tools: a.Tools, Skills: slices.Concat(a.Skills, tagged), OnlySkills: len(a.SkillTags) > 0, MCPs: a.MCPs, Members: a.Members,
		Default: a.Name == config.Crab, NoMemory: !c.Memory || !a.Memory, Bash: c.Bash.Access,
	})
}

// narrowContinued restricts a run that continues a turn to the tools of the skills
// that the turn loaded by calls: their texts are in its context.
func (d *Daemon) narrowContinued(t *agent.Turn) {
	for _, m := range t.Continued {
		for _, call := range m.ToolCalls {
			var args struct{ Name string }
			if call.Function.Name != tool.Skill || json.Unmarshal([]byte(call.Function.Arguments), &args) != nil {
				continue
			}
			if sk, err := d.setupIn(t.Session.Workspace).skills.Get(t.Scope(), args.Name); err == nil {
				t.Narrow(sk.Bound(t.Scope()))
			}
		}
	}
}
