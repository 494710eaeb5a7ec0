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
}

// AgentNames are names of agents.
type AgentNames struct {
	Only []string `json:"only,omitempty" op:"key"` // empty: all
}

// AgentName names an agent.
type AgentName struct {
	Name string `json:"name" op:"path=id"`
	AgentNames
}

var ListAgents = Add(errtable.Other, Op[Daemon, AgentNames, []Agent]{
	Name: "agents.list", Does: "List the agents.", Effect: Reads, Need: NeedNothing, Path: "GET /v1/agents",
	Run: func(_ context.Context, d Daemon, in *AgentNames) ([]Agent, error) { return d.agents(in), nil },
})

var ShowAgent = Add(errtable.Other, Op[Daemon, AgentName, Agent]{
	Name: "agents.show", Does: "Describe an agent.", Effect: Reads, Need: NeedNothing, Path: "GET /v1/agents/{id}",
	Run: func(_ context.Context, d Daemon, in *AgentName) (Agent, error) {
		for _, a := range d.agents(&in.AgentNames) {
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

func (d *Daemon) agents(in *AgentNames) []Agent {
	d.NoticeAgents()
	s := d.Setup()
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
		list = append(list, agent)
	}
	return list
}

// some returns a list that JSON writes as an array.
func some[T any](list []T) []T { return append([]T{}, list...) }
