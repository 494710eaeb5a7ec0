package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/tool"

	"github.com/spf13/cobra"
)

func agentsCommand(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "agents",
		GroupID: groupAgents,
		Short:   "list the agents of the daemon",
		Long: `List the daemon's agents with their models and tools. Agents come from
config.toml and agents/*.md in the home directory, and from a trusted workspace
in or above the working directory. The agent crab always exists.`,
		Example: `  crabmem agents
  crabmem agents --json`,
	}
	cmd.Args, cmd.ValidArgsFunction = noArgs, cobra.NoFileCompletions
	addCommands(cmd, agentsShowCommand(c))
	return resultCommand(c, cmd, func(ctx context.Context, _ []string) ([]op.Agent, error) {
		return ask(ctx, c, op.ListAgents, op.AgentNames{Dir: absPath(".")})
	}, func(agents []op.Agent) {
		rows := [][]string{{"NAME", "MODEL", "TOOLS", "DESCRIPTION", "FROM"}}
		for _, a := range agents {
			model, from := cmp.Or(a.Model, "(the active one)"), "home"
			if a.Workspace != "" {
				from = "workspace"
			}
			if a.Hides {
				from += ", hides the home's"
			}
			rows = append(rows, []string{display.Label(a.Name), display.Printable(model), cli.Fit(display.Printable(strings.Join(a.Tools, ", ")), 40), cli.FirstLine(a.Description), from})
		}
		if !slices.ContainsFunc(agents, func(a op.Agent) bool { return a.Workspace != "" }) {
			for i := range rows {
				rows[i] = rows[i][:4]
			}
		}
		c.fitTable(rows, "", "")
	})
}

// promptLines is the number of lines of a prompt that agents show prints.
const promptLines = 8

// shownAgent is the output of agents show --json. A list is null if it permits all
// names.
type shownAgent struct {
	Name        string                   `json:"name"`
	Description string                   `json:"description"`
	Model       string                   `json:"model"`
	Models      []config.RoleModel       `json:"models"` // in its roles
	Memory      bool                     `json:"memory"`
	Inject      string                   `json:"inject"` // off, recall, or context
	Scoped      bool                     `json:"scoped"` // a list restricts it
	Tools       []string                 `json:"tools"`  // that it may call
	Skills      []string                 `json:"skills" op:"null"`
	SkillTags   []string                 `json:"skill_tags"` // whose skills are in Skills
	MCPs        []string                 `json:"mcps" op:"null"`
	Members     []string                 `json:"members" op:"null"`
	File        string                   `json:"file"`   // of the prompt; "" is built in
	Prompt      string                   `json:"prompt"` // its first lines
	PromptBytes int                      `json:"prompt_bytes"`
	Origins     map[string]config.Origin `json:"origins"` // of the keys that are set
}

func agentsShowCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "show NAME",
		Short: "show an agent and the origin of its settings",
		Long: `Show an agent of the configuration: its model in each role, the tools and other
names that it may use, the first lines of its prompt, and the file and line of
each setting. show reads the files of the home directory and needs no daemon.
"default" means that no file contains the setting. If no agent has the name, the
exit code is 3.`,
		Example: `  crabmem agents show crab
  crabmem agents show crab --json`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: completeAgents(c),
	}, func(_ context.Context, args []string) (*shownAgent, error) {
		conf, err := c.loadConfig()
		if err != nil {
			return nil, err
		}
		agent, ok := conf.Agent(args[0])
		if !ok {
			return nil, unknownAgent(conf, args[0])
		}
		return c.describeAgent(conf, &agent)
	}, c.showAgent)
}

// loadConfig reads the configuration of the home.
func (c *app) loadConfig() (*config.Config, error) {
	return config.Load(c.fs, c.homeDir(), c.Getenv)
}

// loadStructure reads the configuration of the home without variables and secrets.
func (c *app) loadStructure() (*config.Config, error) {
	return config.LoadStructure(c.fs, c.absHome(), c.Getenv)
}

func unknownAgent(conf *config.Config, name string) error {
	var names []string
	for _, a := range conf.Agents {
		names = append(names, a.Name)
	}
	f := &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Message: "no agent " + display.Quoted(name), Path: filepath.Join(conf.Home, config.File),
		Remedy: "use one of " + cli.Fit(strings.Join(names, ", "), 200)}
	if near := op.NearestName(name, names); near != "" {
		f.Remedy = "crabmem agents show " + near
	}
	return f
}

func (c *app) describeAgent(conf *config.Config, a *config.Agent) (*shownAgent, error) {
	set, err := c.loadSkills(nil)
	if err != nil {
		return nil, err
	}
	scope := daemon.Scope(conf, a, set.Tagged(a.SkillTags))
	s := &shownAgent{
		Name: a.Name, Description: a.Description, Model: a.Model, Models: conf.RoleModels(a), Memory: a.Memory, Inject: cmp.Or(a.Inject, "off"), Scoped: scope.Confined, Tools: []string{},
		Skills: permitted(scope.Skills), SkillTags: append([]string{}, a.SkillTags...), MCPs: permitted(scope.MCPs), Members: permitted(scope.Members),
		File: a.File, PromptBytes: len(a.Prompt), Origins: a.Origins,
	}
	for _, name := range tool.BuiltIn() {
		if scope.Tools.Allows(name) {
			s.Tools = append(s.Tools, name)
		}
	}
	s.Tools = append(s.Tools, scope.Listed()...)
	lines := strings.SplitAfterN(a.Prompt, "\n", promptLines+1)
	s.Prompt = strings.TrimRight(strings.Join(lines[:min(len(lines), promptLines)], ""), "\n")
	if s.Origins == nil {
		s.Origins = map[string]config.Origin{}
	}
	return s, nil
}

// permitted returns the names of a list, or nil if it permits all.
func permitted(l tool.List) []string {
	if l.All() {
		return nil
	}
	return append([]string{}, l.Names()...)
}

func (c *app) showAgent(a *shownAgent) {
	show := func(name, value string, at *config.Origin) {
		from := "default"
		if at != nil {
			from = fmt.Sprintf("%s:%d", at.Path, at.Line)
		}
		c.Out.WriteString(c.Dim(name+":") + " " + display.Printable(value) + c.Dim("  ("+display.Printable(from)+")") + "\n")
	}
	line := func(name, value string, keys ...string) {
		for _, k := range keys {
			if o, ok := a.Origins[k]; ok {
				show(name, value, &o)
				return
			}
		}
		show(name, value, nil)
	}
	list := func(names []string) string {
		switch {
		case names == nil:
			return "all"
		case len(names) == 0:
			return "none"
		}
		return strings.Join(names, ", ")
	}
	c.Out.WriteString(c.Bold(display.Label(a.Name)) + "\n")
	if a.Description != "" {
		line("description", a.Description, "description")
	}
	line("model", a.Model, "model")
	for _, m := range a.Models {
		show("model as "+display.Printable(m.Role), m.Model, m.Origin)
	}
	line("tools", list(a.Tools), "tools")
	line("skills", list(a.Skills), "skills", "skill_tags")
	line("mcps", list(a.MCPs), "mcps")
	line("members", list(a.Members), "members")
	memory := "on"
	if !a.Memory {
		memory = "off"
	}
	line("memory", memory, "memory")
	line("inject", a.Inject, "inject")
	from := "default"
	if a.File != "" {
		from = a.File
	}
	c.Out.WriteString(c.Dim("prompt:") + " " + display.Size(int64(a.PromptBytes)) + c.Dim("  ("+display.Printable(from)+")") + "\n")
	for text := range strings.Lines(a.Prompt) {
		c.Out.WriteString("  " + c.Text(strings.TrimRight(text, "\n")) + "\n")
	}
	if strings.Count(a.Prompt, "\n")+1 == promptLines && len(a.Prompt) < a.PromptBytes-1 {
		c.Out.WriteString("  …\n")
	}
}

// completeAgents completes the name of an agent.
func completeAgents(c *app) cobra.CompletionFunc {
	return completeWith(1, func(_ context.Context, found *candidates) {
		conf, err := c.loadStructure()
		if err != nil {
			return
		}
		for _, a := range conf.Agents {
			found.describe(a.Name, display.Printable(a.Description))
		}
	})
}
