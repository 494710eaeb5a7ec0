package main

import (
	"context"
	"os"
	"strings"

	"crabmem/cmd/crabmem/internal/mcpclient"
	"crabmem/daemon/box"
	"crabmem/daemon/display"
	"crabmem/daemon/service"

	"github.com/spf13/cobra"
)

// integration is a place outside the home in which crabmem is installed.
type integration struct {
	Kind    string `json:"kind" op:"words=service|mcp|hooks"`
	Name    string `json:"name"`
	Path    string `json:"path"` // of the file
	Removed bool   `json:"removed"`

	remove func(context.Context) error
}

// uninstallation is the output of uninstall --json.
type uninstallation struct {
	Found    []*integration `json:"found"`
	Problems []string       `json:"problems,omitempty"` // parts that cannot be read or removed
	Home     string         `json:"home"`               // which stays
	Program  string         `json:"program"`            // which stays
}

func uninstallCommand(c *app) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:     "uninstall",
		GroupID: groupCare,
		Short:   "remove services, hooks, and entries in MCP clients",
		Long: `List what crabmem installed outside its home directory: the services of daemon
and gateway, the servers in the configuration files of MCP clients, and the
hooks of coding agents. On a terminal, uninstall asks and then removes all of
it. --yes does not ask. Without --yes and a terminal, uninstall only lists.

Services are removed as crabmem service uninstall does it, servers as crabmem
mcp uninstall does it, and hooks as crabmem hooks uninstall does it. The home
directory, with all notes and sessions, and the program stay; uninstall prints
their paths. If a part cannot be removed, uninstall removes the others and exits
with 1.`,
		Example: `  crabmem uninstall --json
  crabmem uninstall --yes`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "remove without asking")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return c.uninstall(cmd.Context(), yes) }
	return c.outputs(cmd, of[uninstallation]())
}

func (c *app) uninstall(ctx context.Context, yes bool) error {
	u := uninstallation{Found: []*integration{}, Home: c.absHome()}
	check := func(err error) bool {
		if err != nil {
			u.Problems = append(u.Problems, err.Error())
			if !c.JSON {
				c.Warn(err.Error())
			}
		}
		return err == nil
	}
	for _, s := range []*service.Service{c.daemonService(), c.sideService("gateway"), c.sideService(box.Telegram)} {
		if file, ok, err := s.Installed(); check(err) && ok {
			u.Found = append(u.Found, &integration{Kind: "service", Name: s.Label(), Path: file, remove: func(ctx context.Context) error {
				return c.Wait(ctx, func() error { return s.Stop(ctx) })
			}})
		}
	}
	m, err := c.clientMachine()
	if err != nil {
		return err
	}
	find := func(cl mcpclient.Client, f clientFlags, edit func(*mcpclient.Client, string, []byte) ([]byte, error)) {
		e, err := c.planEdit(cl, m, &f, edit)
		if check(err) && string(e.before) != string(e.after) {
			u.Found = append(u.Found, &integration{Kind: f.family, Name: cl.ID, Path: e.Path, remove: func(context.Context) error {
				e, err := c.planEdit(cl, m, &f, edit) // a file may contain servers and hooks
				if err != nil {
					return err
				}
				return c.writeEdit(e, true)
			}})
		}
	}
	for _, cl := range mcpclient.Clients() {
		find(cl, clientFlags{family: "mcp"}, c.withoutServers)
	}
	for _, cl := range mcpclient.HookClients() {
		find(cl, clientFlags{family: "hooks"}, c.withoutHooks)
	}
	if u.Program, err = os.Executable(); err != nil {
		return err
	}
	for _, i := range u.Found {
		c.Say("%s %s: %s", i.Kind, i.Name, display.Printable(i.Path))
	}
	switch {
	case len(u.Found) == 0:
		c.Say("found no services, MCP clients, and hooks with crabmem")
	case !yes && (!c.IsTerminal(c.Stdin) || c.JSON):
		c.Say("run crabmem uninstall --yes to remove them")
	case !yes:
		if yes, err = c.confirm("remove " + display.Plural(len(u.Found), "part", "parts")); err != nil {
			return err
		}
	}
	for _, i := range u.Found {
		if yes {
			i.Removed = check(c.aboutService(i.remove(ctx)))
		}
	}
	return c.printFailing(u, len(u.Problems) > 0, func() {
		c.Say("kept the home: %s", display.Printable(u.Home))
		c.Say("kept the program: %s", display.Printable(u.Program))
	})
}

// withoutServers returns a client's file without the servers that start crabmem.
func (c *app) withoutServers(cl *mcpclient.Client, path string, text []byte) ([]byte, error) {
	if !strings.Contains(strings.ToLower(string(text)), "crabmem") {
		return text, nil // also with a syntax error
	}
	servers, err := cl.Servers(text)
	if err != nil {
		return nil, err
	}
	for _, name := range mcpclient.Own(servers) {
		if text, err = c.withoutServer(cl, path, text, name); err != nil {
			return nil, err
		}
	}
	return text, nil
}
