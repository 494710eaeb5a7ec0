package main

import (
	"crabmem/cmd/crabmem/internal/chat"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/errtable"
	"crabmem/daemon/workspace"

	"github.com/spf13/cobra"
)

func attachCommand(c *app) *cobra.Command {
	f, url := &talkFlags{}, ""
	cmd := &cobra.Command{
		Use:     "attach",
		GroupID: groupAgents,
		Short:   "talk to the agent of a workspace or a gateway",
		Long: `Talk to the first agent of the trusted workspace in or above the working
directory, as chat does. With --url, --gateway, or CRABMEM_GATEWAY, attach talks
to an agent behind that gateway, and needs no workspace. A workspace cannot name
a gateway: it could receive what you say.`,
		Example: `  echo "how do we ship?" | crabmem attach --model offline
  echo "how do we ship?" | crabmem attach --agent crab --model offline --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f.register(c, cmd)
	cmd.Flags().StringVar(&url, "url", "", "talk through the gateway at this `URL`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if cmd.Flags().Changed("url") {
			err = c.connectGateway(url, "--url")
		} else if c.remote == nil {
			err = c.attachHere(f)
		}
		if err != nil {
			return err
		}
		return c.chat(cmd.Context(), f)
	}
	return c.outputs(cmd, of[chat.Info](), of[chat.Reply]())
}

// attachHere chooses the agent of the workspace, which must be trusted.
func (c *app) attachHere(f *talkFlags) error {
	file, err := c.workspaceOf(nil)
	if err != nil {
		return &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Message: classify(err).Message, Remedy: "run crabmem init ., or pass --url URL"}
	}
	trusts, err := workspace.ReadTrusts(c.fs, c.absHome())
	if err != nil {
		return err
	}
	a, _, err := c.workspaceInfo(file, trusts)
	switch {
	case err != nil:
		return err
	case a.State != string(workspace.Trusted):
		return &cli.Failure{Code: cli.ExitPermission, Kind: "no_workspace", Path: a.Path, Message: "the workspace " + a.Path + " has no effect: it is " + a.State,
			Remedy: "run crabmem workspace trust " + errtable.ShellWord(a.Path)}
	case f.agent == "" && len(a.Agents) > 0:
		f.agent = a.Agents[0]
	}
	return nil
}
