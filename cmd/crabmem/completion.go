package main

import "github.com/spf13/cobra"

func (c *cli) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	cmd := &cobra.Command{
		Use:     "completion bash|zsh|fish|powershell",
		GroupID: groupShell,
		Short:   "print a completion script for your shell",
		Long: `Print a script that completes commands, flags and the names of entries.

bash:        source <(crabmem completion bash)
zsh:         crabmem completion zsh > "${fpath[1]}/_crabmem"
fish:        crabmem completion fish > ~/.config/fish/completions/crabmem.fish
powershell:  crabmem completion powershell | Out-String | Invoke-Expression`,
		Example: `  crabmem completion bash > crabmem.bash
  crabmem completion zsh > _crabmem`,
		Args:      exactly(1, "a shell: bash, zsh, fish or powershell"),
		ValidArgs: shells,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		root := cmd.Root()
		switch args[0] {
		case "bash":
			return root.GenBashCompletionV2(c.out, true)
		case "zsh":
			return root.GenZshCompletion(c.out)
		case "fish":
			return root.GenFishCompletion(c.out, true)
		case "powershell":
			return root.GenPowerShellCompletionWithDesc(c.out)
		}
		return wrongArgs(cmd, "unknown shell %q: want bash, zsh, fish or powershell", args[0])
	}
	return cmd
}
