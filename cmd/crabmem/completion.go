package main

import (
	"bytes"
	"io"

	"github.com/spf13/cobra"
)

// completeWords completes the value of a flag with one of the words.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completeDirs completes the argument with directories.
func completeDirs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func (c *app) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	cmd := &cobra.Command{
		Use:     "completion bash|zsh|fish|powershell",
		GroupID: groupShell,
		Short:   "print a completion script for a shell",
		Long: `Print a script that completes commands, flags, and the names of entries.

bash:        source <(crabmem completion bash)
zsh:         crabmem completion zsh > "${fpath[1]}/_crabmem"
fish:        crabmem completion fish > ~/.config/fish/completions/crabmem.fish
powershell:  crabmem completion powershell | Out-String | Invoke-Expression`,
		Example: `  crabmem completion bash > crabmem.bash
  crabmem completion zsh > _crabmem`,
		Args:      exactly(1, "a shell: bash, zsh, fish, or powershell"),
		ValidArgs: shells,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		generate, ok := map[string]func(io.Writer) error{
			"bash":       func(w io.Writer) error { return cmd.Root().GenBashCompletionV2(w, true) },
			"zsh":        cmd.Root().GenZshCompletion,
			"fish":       func(w io.Writer) error { return cmd.Root().GenFishCompletion(w, true) },
			"powershell": cmd.Root().GenPowerShellCompletionWithDesc,
		}[args[0]]
		if !ok {
			return wrongArgs(cmd, "unknown shell %q: want bash, zsh, fish, or powershell", args[0])
		}
		if !c.JSON {
			return generate(c.Out)
		}
		var b bytes.Buffer
		if err := generate(&b); err != nil {
			return err
		}
		return c.PrintJSON(map[string]string{"shell": args[0], "script": b.String()})
	}
	return cmd
}
