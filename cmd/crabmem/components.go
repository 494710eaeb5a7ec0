package main

import (
	"context"
	"path/filepath"
	"strconv"

	"crabmem/daemon/display"
	"crabmem/daemon/mcp"

	"github.com/spf13/cobra"
)

func componentsCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "components",
		GroupID: groupAgents,
		Short:   "list programs that provide tools to agents",
		Long: `List the components of the home directory. A component is a separate program
that provides tools to agents over the Model Context Protocol. It writes its
port to run/NAME.port, where the daemon finds it. Start order does not matter.

A component is "running" if a program answers on the port. It is "stale" if no
program answers: a killed component leaves its file.

Component NAME is a program crabmem-NAME, or crabtalk-NAME, on the PATH.
"crabmem NAME start" runs it with the argument start, which installs it as a
user service.`,
		Example: `  crabmem components
  crabmem components --json`,
	}, func(ctx context.Context, _ []string) ([]mcp.Component, error) {
		return mcp.Components(ctx, c.fs, filepath.Join(c.absHome(), "run"), func(file string, err error) {
			c.Warn(file + ": not a component: " + err.Error())
		})
	}, func(list []mcp.Component) {
		rows := [][]string{{"NAME", "PORT", "STATE"}}
		for _, p := range list {
			rows = append(rows, []string{display.Label(p.Name), strconv.Itoa(p.Port), p.State})
		}
		c.fitTable(rows, "", "no components")
	})
}
