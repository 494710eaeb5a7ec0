package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The groups of the command list.
const (
	groupUse    = "use"
	groupTalk   = "talk"
	groupAgents = "agents"
	groupMove   = "move"
	groupCare   = "care"
	groupShell  = "shell"
)

// command is a row of the command table.
type command struct {
	name  string
	build func(*app) *cobra.Command
	needs need
}

// need is what a command uses.
type need uint8

const (
	needsNothing need = iota
	needsHome
	needsStore // --space or --db may select it
)

// commandTable returns the command table. Help, man pages, and completion come from it.
func commandTable() []command {
	return []command{
		{"demo", demoCommand, needsNothing},
		{"remember", rememberCommand, needsStore},
		{"append", appendCommand, needsStore},
		{"recall", recallCommand, needsStore},
		{"forget", forgetCommand, needsStore},
		{"alias", aliasCommand, needsStore},
		{"rename", renameCommand, needsStore},
		{"tags", tagsCommand, needsStore},
		{"tag", tagCommand, needsStore},
		{"pin", pinCommand, needsStore},
		{"unpin", unpinCommand, needsStore},
		{"context", contextCommand, needsStore},
		{"tasks", tasksCommand, needsStore},
		{"cortex", cortexCommand, needsStore},
		{"list", listCommand, needsStore},
		{"show", showCommand, needsStore},
		{"edit", editCommand, needsStore},
		{"log", logCommand, needsStore},
		{"diff", diffCommand, needsStore},
		{"undo", undoCommand, needsStore},
		{"restore", restoreCommand, needsStore},
		{"links", linksCommand, needsStore},
		{"graph", graphCommand, needsStore},

		{"sessions", sessionsCommand, needsHome},
		{"skills", skillsCommand, needsHome},

		{"init", initCommand, needsHome},
		{"workspace", workspaceCommand, needsHome},
		{"hub", hubCommand, needsHome},
		{"daemon", daemonCommand, needsHome},
		{"service", serviceCommand, needsHome},
		{"attach", attachCommand, needsHome},
		{"chat", chatCommand, needsHome},
		{"send", sendCommand, needsHome},
		{"cron", cronCommand, needsHome},
		{"work", workCommand, needsHome},
		{"ping", pingCommand, needsHome},
		{"events", eventsCommand, needsHome},
		{"compact", compactCommand, needsHome},
		{"agents", agentsCommand, needsHome},
		{"usage", usageCommand, needsHome},
		{"models", modelsCommand, needsHome},
		{"model", modelCommand, needsHome},
		{"config", configCommand, needsHome},
		{"secret", secretCommand, needsHome},
		{"mcp", mcpCommand, needsStore},
		{"hook", hookCommand, needsStore},
		{"hooks", hooksCommand, needsStore},
		{"plugin", pluginCommand, needsStore},
		{"gateway", gatewayCommand, needsHome},
		{"telegram", telegramCommand, needsHome},
		{"channels", channelsCommand, needsHome},
		{"open", openCommand, needsHome},
		{"components", componentsCommand, needsHome},

		{"dump", dumpCommand, needsStore},
		{"load", loadCommand, needsStore},
		{"export", exportCommand, needsStore},
		{"import", importCommand, needsStore},

		{"doctor", doctorCommand, needsHome},
		{"uninstall", uninstallCommand, needsHome},
		{"verify", verifyCommand, needsStore},
		{"lint", lintCommand, needsStore},
		{"repair", repairCommand, needsStore},
		{"inspect", inspectCommand, needsStore},
		{"checkpoint", checkpointCommand, needsStore},
		{"spaces", spacesCommand, needsHome},
		{"identity", identityCommand, needsStore},
		{"metadata", metadataCommand, needsStore},
		{"prune", pruneCommand, needsStore},
		{"stats", statsCommand, needsStore},
		{"bench", benchCommand, needsNothing},

		{"completion", completionCommand, needsNothing},
		{"man", manCommand, needsNothing},
		{"schema", schemaCommand, needsNothing},
		{"version", versionCommand, needsNothing},
	}
}

// commands returns every command.
func (c *app) commands() []*cobra.Command {
	var all []*cobra.Command
	for _, row := range commandTable() {
		all = append(all, row.build(c))
	}
	return all
}

// commandsFor returns the commands that a command line may use: one if its first
// argument names a command that does not read the others, or else all. Building
// all takes a tenth of the time of a short command.
func (c *app) commandsFor(args []string) []*cobra.Command {
	if len(args) == 0 || args[0] == "completion" || args[0] == "man" || args[0] == "schema" {
		return c.commands()
	}
	for _, row := range commandTable() {
		if row.name == args[0] {
			return []*cobra.Command{row.build(c)}
		}
	}
	return c.commands()
}

const rootLong = `crabmem stores what LLM agents remember, in one file. When a write succeeds,
it is on disk. Search takes microseconds and can explain each score.

The store is --db, CRABMEM_DB, that of the workspace, or memory.db in the home
directory; --space main is that of the home. See crabmem workspace. The home is
--home, CRABTALK_HOME, or ~/.crabtalk. The first write creates the store. A home
may contain other stores, called spaces: see crabmem spaces and --space.
Sessions, the logs of conversations, are in sessions/ in the home.

With --gateway or CRABMEM_GATEWAY, remember, append, recall, forget, list, show,
log, tags, tag, pin, unpin, context, tasks, cron, work, mcp, hook, send, and
chat use a gateway; see crabmem gateway. Its key is a secret of this home.

Names are exact. If no entry has the given name, crabmem uses the entry with
that alias, if exactly one entry has the alias, or else the entry of an ID, as
#5. "-" means standard input or output. If the first word is not a command,
crabmem runs the program crabmem-WORD, or crabtalk-WORD, on the PATH.

Exit codes:
  0    success
  1    any other error
  2    invalid flags or arguments
  3    entry, session, skill, secret, or store not found
  4    conflict: name taken, wrong kind, in use, read-only, or changed
  5    not a valid store, session, skill, or file of secrets
  6    outcome unknown: the disk failed during a write
  7    permission denied
  8    no daemon or no gateway answers
  130  stopped by SIGINT; 143 by SIGTERM

With --json, an error is one line on standard error: {"error":{"code":…,
"kind":…,"message":…,"path":…,"offset":…,"remedy":…}}.`

// rootCommand returns the root command, with the commands that a command line may use.
func rootCommand(c *app, args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "crabmem COMMAND",
		Short: "store and search the memory of AI agents",
		Long:  rootLong,
		Example: `  crabmem demo
  crabmem remember deploy "build, tag, push, then watch the canary" --alias ship
  crabmem recall "how do we ship?"`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
	}
	var version bool
	root.Flags().BoolVar(&version, "version", false, "print the version")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if version {
			v := thisVersion()
			return c.printResult(v, func() { c.versionText(v) })
		}
		if len(args) == 0 {
			c.Out.WriteString(startPage)
			return nil
		}
		return unknownCommand(root, args[0])
	}
	root.SuggestionsMinimumDistance = 2
	root.PersistentPreRunE = c.checkGlobal
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(wrongFlag)
	root.SetHelpFunc(printHelp)
	p := root.PersistentFlags()
	p.StringVar(&c.db, "db", "", "use the store in this `file` (CRABMEM_DB; default: memory.db in the home)")
	p.StringVar(&c.space, "space", "", "use the space of this `name` in the home instead of --db")
	p.StringVar(&c.home, "home", "", "use this home `directory` (CRABTALK_HOME; default: ~/.crabtalk)")
	p.StringVar(&c.gateway, "gateway", "", "use the memory of the gateway at this `URL` (CRABMEM_GATEWAY)")
	p.DurationVar(&c.lockWait, "lock-wait", defaultLockWait, "wait this long for the lock of another process, 0 = do not wait")
	p.BoolVar(&c.JSON, "json", false, "print JSON")
	p.BoolVarP(&c.Quiet, "quiet", "q", false, "print no confirmations and no progress")
	p.BoolVar(&c.NoColor, "no-color", false, "print no colors (NO_COLOR)")
	root.AddGroup(
		&cobra.Group{ID: groupUse, Title: "Remember and recall:"},
		&cobra.Group{ID: groupTalk, Title: "Conversations:"},
		&cobra.Group{ID: groupAgents, Title: "Run agents:"},
		&cobra.Group{ID: groupMove, Title: "Import and export:"},
		&cobra.Group{ID: groupCare, Title: "Maintain the store:"},
		&cobra.Group{ID: groupShell, Title: "Other commands:"},
	)
	root.SetHelpCommand(helpCommand(root))
	addCommands(root, c.commandsFor(args)...)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		unquoteFlags(root)
	}
	return root
}

// checkGlobal refuses global flags without a value: a variable that is not set
// must not lead to another store. It also refuses a command that needs a home if
// no directory is known.
func (c *app) checkGlobal(cmd *cobra.Command, args []string) error {
	top := cmd
	for top.HasParent() && top.Parent().HasParent() {
		top = top.Parent()
	}
	var needs need
	for _, row := range commandTable() {
		if row.name == top.Name() {
			needs = row.needs
		}
	}
	for _, name := range []string{"db", "home", "space", "gateway"} {
		if f := cmd.Root().PersistentFlags().Lookup(name); f.Changed && f.Value.String() == "" {
			return cli.Usagef("--%s is empty", name)
		}
	}
	// The other commands of these families configure the home.
	c.inWorkspace = needs == needsStore && (top == cmd || !slices.Contains([]string{"mcp", "hooks", "plugin", "identity"}, top.Name()))
	named := needs == needsStore && c.namedStore() != "" || top.Name() == "inspect" && len(args) > 0
	if _, err := os.UserHomeDir(); needs != needsNothing && !named && c.homeDir() == unknownHome {
		return &cli.Failure{Code: cli.ExitUsage, Kind: "usage", Message: "no home directory: " + err.Error(), Remedy: "set --db FILE or --home DIR", Err: err}
	}
	if err := c.chooseGateway(cmd, top); err != nil {
		return err
	}
	if c.space != "" && c.remote == nil {
		if needs != needsStore || top != cmd && top.Name() == "mcp" {
			return cli.Usagef("%s does not use --space: remove it", cmd.CommandPath())
		}
		if err := c.checkSpace(cmd); err != nil {
			return err
		}
	}
	if c.lockWait < 0 {
		return cli.Usagef("--lock-wait %v: want 0 or more", c.lockWait)
	}
	return nil
}

func helpCommand(root *cobra.Command) *cobra.Command {
	help := &cobra.Command{Use: "help [COMMAND]", GroupID: groupShell, Short: "explain a command"}
	help.ValidArgsFunction = completeCommands
	help.RunE = func(cmd *cobra.Command, args []string) error {
		of, rest, err := root.Find(args)
		switch {
		case err != nil:
			return unknownCommand(root, args[0])
		case len(rest) > 0 && of != root && !of.HasSubCommands():
			return wrongArgs(cmd, "too many arguments: %s has no subcommands", of.Name())
		case len(rest) > 0:
			return unknownCommand(of, rest[0])
		}
		of.InitDefaultHelpFlag()
		return of.Help()
	}
	return help
}

// printHelp prints the help of a command. It is cobra's without the second line
// of the usage of a family, and with one line for the global flags. A usage template of
// cobra would link text/template, and with it every method of every type that is reachable.
func printHelp(cmd *cobra.Command, _ []string) {
	usage := strings.Replace(cmd.UsageString(), "\n  "+cmd.CommandPath()+" [command]", "", 1)
	if own, global, ok := strings.Cut(usage, "\nGlobal Flags:\n"); ok {
		names := ""
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { names += " --" + f.Name })
		_, rest, _ := strings.Cut(global, "\n")
		for strings.HasPrefix(rest, " ") {
			_, rest, _ = strings.Cut(rest, "\n")
		}
		usage = own + "\nGlobal flags:" + names + "\n" + rest
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s", strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)), usage)
}

// subcommands returns the direct subcommands, without help and hidden ones.
func subcommands(cmd *cobra.Command) []*cobra.Command {
	var subs []*cobra.Command
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			subs = append(subs, sub)
		}
	}
	return subs
}

// family makes a command a group of others: alone it is its help.
func family(cmd *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = cobra.ArbitraryArgs
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
	addCommands(cmd, subs...)
	return cmd
}

// addCommands adds subcommands. Those without Args take no arguments: cobra's
// default accepts any, and completes files.
func addCommands(of *cobra.Command, subs ...*cobra.Command) {
	for _, cmd := range subs {
		if cmd.Args == nil && cmd.ValidArgsFunction == nil {
			cmd.Args, cmd.ValidArgsFunction = noArgs, cobra.NoFileCompletions
		}
	}
	of.AddCommand(subs...)
}

// unknownCommand returns the error for an unknown subcommand.
func unknownCommand(of *cobra.Command, name string) error {
	path := of.CommandPath()
	f := &cli.Failure{Code: cli.ExitUsage, Kind: "usage", Message: fmt.Sprintf("unknown command %q", name), Remedy: "run " + path + " --help to list the commands"}
	if of.HasParent() {
		f.Message = fmt.Sprintf("unknown command %q of %s", name, path)
	}
	if like := suggestions(of, name); len(like) > 0 {
		f.Remedy = strings.Join(like, ", ")
	}
	return f
}

// wrongFlag returns the error for an invalid flag, with a similar flag if there
// is one.
func wrongFlag(cmd *cobra.Command, err error) error {
	if errors.As(err, new(*cli.Failure)) {
		return err
	}
	f := &cli.Failure{Code: cli.ExitUsage, Kind: "usage", Message: err.Error(), Remedy: cmd.CommandPath() + " --help", Err: err}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if like := likeFlags(cmd, e.GetSpecifiedName()); len(like) > 0 {
			f.Remedy = "--" + strings.Join(like, ", --")
		} else if strings.Contains(cmd.Use, "TEXT") || strings.Contains(cmd.Use, "QUERY") || strings.Contains(cmd.Use, "NAME") {
			f.Remedy += "; put arguments that begin with - after --"
		}
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := e.GetFlag()
		want := map[string]string{"bool": "true or false", "int": "an integer", "duration": "a number and a unit, such as 10s or 500ms"}[flag.Value.Type()]
		if want != "" {
			f.Message = fmt.Sprintf("--%s %q: want %s", flag.Name, e.GetValue(), want)
		}
	}
	return f
}

// likeFlags returns the flags of a command that are similar to name. Cobra
// suggests only commands.
func likeFlags(cmd *cobra.Command, name string) []string {
	if len(name) < 3 {
		return nil
	}
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return flags.SuggestionsFor(name)
}
