package op

import (
	"context"

	"crabmem/daemon/errtable"
)

// Agent is an agent of the daemon.
type Agent struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Model       string   `json:"model"` // empty: the active one
	Tools       []string `json:"tools"`
	Skills      []string `json:"skills"`
	MCPs        []string `json:"mcps"`
	Members     []string `json:"members"`
	Scoped      bool     `json:"scoped"` // permits only the listed names
	Memory      bool     `json:"memory"`
	SkillTags   []string `json:"skill_tags"` // skills with one of these tags are permitted, too
}

var ListAgents = Add(errtable.Other, Op[Daemon, None, []Agent]{
	Name: "agents.list", Does: "List the agents.", Effect: Reads, Need: NeedNothing,
	Run: func(_ context.Context, d Daemon, _ *None) ([]Agent, error) {
		s := d.Setup()
		list := []Agent{}
		for _, a := range s.Config.Agents {
			built := s.Agents[a.Name]
			agent := Agent{Name: a.Name, Description: a.Description, Model: built.Model, Tools: []string{}, Skills: some(a.Skills), MCPs: some(a.MCPs),
				Members: some(a.Members), Scoped: built.Scope.Confined, Memory: built.Memory, SkillTags: some(a.SkillTags)}
			for _, t := range s.Runner.Tools.Schemas(built.Scope) {
				agent.Tools = append(agent.Tools, t.Name)
			}
			list = append(list, agent)
		}
		return list, nil
	},
})

// some returns a list that JSON writes as an array.
func some(list []string) []string { return append([]string{}, list...) }
