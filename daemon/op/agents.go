package op

import (
	"context"
	"net/http"
	"slices"

	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
)

// Agent is an agent of the daemon.
type Agent struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Model       string   `json:"model" jsonschema:"empty: the active one"`
	Tools       []string `json:"tools"`
	Skills      []string `json:"skills" op:"owner"`
	MCPs        []string `json:"mcps" op:"owner"`
	Members     []string `json:"members" op:"owner"`
	Scoped      bool     `json:"scoped" op:"owner"` // permits only the listed names
	Memory      bool     `json:"memory" op:"owner"`
	SkillTags   []string `json:"skill_tags"` // skills with one of these tags are permitted, too
	Workspace   string   `json:"workspace,omitempty" op:"owner" jsonschema:"path of the workspace that has the agent"`
	Hides       bool     `json:"hides,omitempty" op:"owner" jsonschema:"an agent of the home has the same name"`
}

// AgentNames are names of agents.
type AgentNames struct {
	Only []string `json:"only,omitempty" op:"key"`  // empty: all
	Dir  string   `json:"dir,omitempty" op:"owner"` // absolute; also the agents of a trusted workspace there or above
}

// AgentName names an agent.
type AgentName struct {
	Name string `json:"name" op:"path=id"`
	AgentNames
}

// permitNames checks that the request names no directory.
func permitNames(d Daemon, in *AgentNames) error {
	if in.Dir != "" {
		return d.As.Refused("choose a working directory")
	}
	return nil
}

var ListAgents = Add(errtable.Other, Op[Daemon, AgentNames, []Agent]{
	Name: "agents.list", Does: "List the agents.", Effect: Reads, Need: NeedNothing, Permit: permitNames, Path: "GET /v1/agents",
	Run: func(ctx context.Context, d Daemon, in *AgentNames) ([]Agent, error) { return d.agents(ctx, in) },
})

var ShowAgent = Add(errtable.Other, Op[Daemon, AgentName, Agent]{
	Name: "agents.show", Does: "Describe an agent.", Effect: Reads, Need: NeedNothing,
	Permit: func(d Daemon, in *AgentName) error { return permitNames(d, &in.AgentNames) }, Path: "GET /v1/agents/{id}",
	Run: func(ctx context.Context, d Daemon, in *AgentName) (Agent, error) {
		all, err := d.agents(ctx, &in.AgentNames)
		if err != nil {
			return Agent{}, err
		}
		for _, a := range all {
			if a.Name == in.Name {
				return a, nil
			}
		}
		return Agent{}, &errtable.Error{HTTP: http.StatusNotFound, Kind: "unknown_agent", Exit: errtable.ExitNotFound,
			Message: "no agent " + display.Short(in.Name, shownName), Fix: "run crabmem agents to list the agents"}
	},
})

// shownName limits a name in a message, in bytes.
const shownName = 80

func (d *Daemon) agents(ctx context.Context, in *AgentNames) ([]Agent, error) {
	d.NoticeAgents()
	s, root, err := d.SetupAt(ctx, in.Dir)
	if err != nil {
		return nil, err
	}
	list := []Agent{}
	for _, a := range s.Config.Agents {
		if len(in.Only) > 0 && !slices.Contains(in.Only, a.Name) {
			continue
		}
		built := s.Agents[a.Name]
		agent := Agent{Name: a.Name, Description: a.Description, Model: built.Model, Tools: []string{}, Skills: some(a.Skills), MCPs: some(a.MCPs),
			Members: some(a.Members), Scoped: built.Scope.Confined, Memory: built.Memory, SkillTags: some(a.SkillTags)}
		for _, t := range s.Runner.Tools.Schemas(built.Scope, built.Offers) {
			agent.Tools = append(agent.Tools, t.Name)
		}
		if _, ok := s.InWorkspace[a.Name]; ok {
			agent.Workspace, agent.Hides = root, s.InWorkspace[a.Name]
		}
		list = append(list, agent)
	}
	return list, nil
}

// some returns a list that JSON writes as an array.
func some[T any](list []T) []T { return append([]T{}, list...) }
