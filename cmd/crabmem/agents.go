package main

import (
	"cmp"
	"context"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
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
	cmd.Args, cmd.ValidArgsFunction = noArgs, cobra.NoFileCompletions
	addCommands(cmd, agentsShowCommand(c))
	return resultCommand(c, cmd, func(ctx context.Context, _ []string) ([]op.Agent, error) {
		return ask(ctx, c, op.ListAgents, op.AgentNames{})
	}, func(agents []op.Agent) {
		rows := [][]string{{"NAME", "MODEL", "TOOLS", "DESCRIPTION"}}
		for _, a := range agents {
			model := cmp.Or(a.Model, "(the active one)")
			rows = append(rows, []string{display.Label(a.Name), display.Printable(model), cli.Fit(display.Printable(strings.Join(a.Tools, ", ")), 40), cli.FirstLine(a.Description)})
		}
		c.fitTable(rows, "", "")
	})
}

// listOf is a list that JSON writes as an array.
func listOf(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
