package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// The groups of the command list.
const (
	groupUse   = "use"
	groupMove  = "move"
	groupCare  = "care"
	groupShell = "shell"
)

// commands is the command table: help, README, man pages and completion all
// come from it.
func (c *cli) commands() []*cobra.Command {
	return []*cobra.Command{
		c.demoCommand(),
		c.rememberCommand(),
		c.recallCommand(),
		c.forgetCommand(),
		c.aliasCommand(),
		c.listCommand(),
		c.showCommand(),
		c.editCommand(),

		c.dumpCommand(),
		c.loadCommand(),
		c.exportCommand(),
		c.importCommand(),

		c.verifyCommand(),
		c.repairCommand(),
		c.inspectCommand(),
		c.checkpointCommand(),
		c.pruneCommand(),
		c.statsCommand(),

		c.completionCommand(),
		c.manCommand(),
		c.versionCommand(),
	}
}

const rootLong = `crabmem is the memory of AI agents: notes, and archives of past conversations,
in one file that survives a crash, found again in microseconds.

The store is --db (or CRABMEM_DB); without it memory.db in --home (or
CRABTALK_HOME), which is ~/.crabtalk. The first write creates it.
Names are exact; where there is no entry of the name, an alias with one owner
is taken. "-" stands for standard input or output.

Exit codes: 0 done; 1 something else went wrong; 2 wrong flags or arguments;
3 no such entry or store; 4 conflict: name taken, wrong kind, store in use or
changed; 5 not a valid store; 6 outcome unknown: the disk failed during a
write; 7 not allowed; 130 and 143 ended by a signal.
With --json an error is one line on standard error: {"error":{"code":…,
"kind":…,"message":…,"path":…,"offset":…,"remedy":…}}.`

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "crabmem COMMAND",
		Short: "the memory of AI agents: one file, exact recall",
		Long:  rootLong,
		Example: `  crabmem demo
  crabmem remember deploy "build, tag, push, then watch the canary" --alias ship
  crabmem recall "how do we ship?"`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
	}
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		f := &failure{Code: exitUsage, Kind: "usage", Message: fmt.Sprintf("unknown command %q", args[0]), Remedy: "crabmem --help lists the commands"}
		if like := root.SuggestionsFor(args[0]); len(like) > 0 {
			f.Remedy = "crabmem " + strings.Join(like, ", crabmem ")
		}
		return f
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if errors.As(err, new(*failure)) {
			return err
		}
		return &failure{Code: exitUsage, Kind: "usage", Message: err.Error(), Remedy: cmd.CommandPath() + " --help", err: err}
	})
	p := root.PersistentFlags()
	p.StringVar(&c.db, "db", "", "the store's `file` (CRABMEM_DB; default: memory.db in the home)")
	p.StringVar(&c.home, "home", "", "the home `directory` (CRABTALK_HOME; default: ~/.crabtalk)")
	p.DurationVar(&c.lockWait, "lock-wait", defaultLockWait, "how long a write waits for another process, 0 = not at all")
	p.BoolVar(&c.json, "json", false, "answer in JSON")
	p.BoolVarP(&c.quiet, "quiet", "q", false, "no confirmations and no progress")
	p.BoolVar(&c.noColor, "no-color", false, "no colours (NO_COLOR)")
	root.AddGroup(
		&cobra.Group{ID: groupUse, Title: "Remember and recall:"},
		&cobra.Group{ID: groupMove, Title: "In and out:"},
		&cobra.Group{ID: groupCare, Title: "Look after the store:"},
		&cobra.Group{ID: groupShell, Title: "Around it:"},
	)
	root.SetHelpCommandGroupID(groupShell)
	root.AddCommand(c.commands()...)
	return root
}

// noArgs, oneArg and atLeast check the arguments of a command.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return wrongArgs(cmd, "unexpected argument %q", args[0])
	}
	return nil
}

func exactly(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return wrongArgs(cmd, "missing argument: want %s", names)
		case len(args) > n:
			return wrongArgs(cmd, "too many arguments: want %s; quote what belongs together", names)
		}
		return nil
	}
}

func atLeast(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return wrongArgs(cmd, "missing argument: want %s", names)
		}
		return nil
	}
}

func wrongArgs(cmd *cobra.Command, format string, args ...any) error {
	return &failure{Code: exitUsage, Kind: "usage", Message: fmt.Sprintf(format, args...), Remedy: cmd.CommandPath() + " --help"}
}

// atMostOne refuses flags that exclude each other.
func atMostOne(cmd *cobra.Command, names ...string) error {
	var given []string
	for _, n := range names {
		if cmd.Flags().Changed(n) {
			given = append(given, "--"+n)
		}
	}
	if len(given) > 1 {
		return wrongArgs(cmd, "%s exclude each other", strings.Join(given, " and "))
	}
	return nil
}
