package main

import (
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func agentsCommand(c *app) *cobra.Command {
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
			agents, err := op.ListAgents.Do(cmd.Context(), d, op.AgentNames{})
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSON(agents)
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
	addCommands(cmd, agentsShowCommand(c))
	return cmd
}

// listOf is a list that JSON writes as an array.
func listOf(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
