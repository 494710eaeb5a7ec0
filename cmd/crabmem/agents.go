package main

import (
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/client"
	"crabmem/daemon/display"

	"github.com/spf13/cobra"
)

// listedAgent is an agent of agents --json.
type listedAgent struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Model       string   `json:"model"` // "" = the active model
	Tools       []string `json:"tools"`
	Skills      []string `json:"skills"`
	MCPs        []string `json:"mcps"`
	Members     []string `json:"members"`
	Scoped      bool     `json:"scoped"` // permits only the listed names
	Memory      bool     `json:"memory"`
}

func (c *app) agentsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "agents",
		GroupID: groupAgents,
		Short:   "list the agents of the daemon",
		Long: `List the daemon's agents with their models and tools. Agents come from
config.toml and agents/*.md in the home directory. The agent crab always exists.`,
		Example: `  crabmem agents
  crabmem agents --json`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.withDaemon(cmd.Context(), func(d *client.Client) error {
			agents, err := d.Agents(cmd.Context())
			if err != nil {
				return err
			}
			if c.JSON {
				list := make([]listedAgent, len(agents))
				for i, a := range agents {
					list[i] = listedAgent{a.Name, a.Description, a.Model, listOf(a.Tools), listOf(a.Skills), listOf(a.MCPs), listOf(a.Members), a.Scoped, a.Memory}
				}
				return c.PrintJSON(list)
			}
			rows := [][]string{{"NAME", "MODEL", "TOOLS", "DESCRIPTION"}}
			for _, a := range agents {
				model := a.Model
				if model == "" {
					model = "(the active one)"
				}
				rows = append(rows, []string{display.Label(a.Name), display.Printable(model), cli.Fit(display.Printable(strings.Join(a.Tools, ", ")), 40), cli.FirstLine(a.Description)})
			}
			c.fitTable(rows, "")
			return nil
		})
	}
	cmd.Args, cmd.ValidArgsFunction = noArgs, cobra.NoFileCompletions
	addCommands(cmd, c.agentsShowCommand())
	return cmd
}

// listOf is a list that JSON writes as an array.
func listOf(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
