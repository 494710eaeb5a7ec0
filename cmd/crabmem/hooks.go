package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"

	"crabmem/cmd/crabmem/internal/agenthook"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/mcpclient"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/sessionlog"

	"github.com/spf13/cobra"
)

func hooksCommand(c *app) *cobra.Command {
	return family(&cobra.Command{
		Use:     "hooks COMMAND",
		GroupID: groupAgents,
		Short:   "install and remove hooks of coding agents",
		Long: `Manage the hooks with which Claude Code, Codex, and Gemini CLI run crabmem hook
at the start of a session, before a compaction, after a response, and at the end
of a session. crabmem hook --help states what a hook does, and what it excludes.`,
		Example: `  crabmem hooks install claude-code --yes
  crabmem hooks uninstall claude-code --forget --yes`,
	}, hooksInstallCommand(c), hooksUninstallCommand(c))
}

func hooksInstallCommand(c *app) *cobra.Command {
	f := clientFlags{family: "hooks"}
	cmd := &cobra.Command{
		Use:   "install [CLIENT...]",
		Short: "add the hooks to the configuration of agents",
		Long: `Add crabmem hook to the configuration file of each CLIENT: claude-code
(~/.claude/settings.json), codex (~/.codex/hooks.json), or gemini-cli
(~/.gemini/settings.json). Without CLIENT, install selects the clients of this
machine. Codex runs a hook only after you trust it in /hooks.

On a terminal, install asks for the projects that the hooks apply to; --project
and --all answer. [hooks] only of the configuration contains them, for all
clients. Otherwise hooks apply to the projects set before, or to all, but not
to those that crabmem hook excludes. In Claude Code and Codex
the events are SessionStart, PreCompact, Stop, and SessionEnd; in Gemini CLI
SessionStart, PreCompress, AfterAgent, and SessionEnd.

install shows the change and asks before it writes; --yes does not ask. It keeps
all other bytes of the file, including comments and other hooks, and a copy of
the previous file with the suffix .before-crabmem. A file with a syntax error is
not changed. --print prints the configuration for a new file and writes nothing.`,
		Example: `  crabmem hooks install claude-code --yes
  crabmem hooks install codex gemini-cli --print`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.FixedCompletions(mcpclient.IDs(mcpclient.HookClients()), cobra.ShellCompDirectiveNoFileComp),
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&f.print, "print", false, "print the configuration and write nothing")
	var projects []string
	var all bool
	cmd.Flags().StringArrayVar(&projects, "project", nil, "apply the hooks only to the projects in this `directory` (repeatable)")
	cmd.Flags().BoolVar(&all, "all", false, "apply the hooks to all projects")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		command, err := c.hookCommandLine()
		if err == nil {
			err = atMostOne(cmd, "project", "all", "print")
		}
		if err == nil && !f.print {
			err = c.setHookProjects(cmd.Context(), projects, all, f.yes)
		}
		if err != nil {
			return err
		}
		return c.printEdits(c.editClients(mcpclient.HookClients(), args, &f, func(cl *mcpclient.Client, _ string, text []byte) ([]byte, error) {
			return cl.SetHooks(text, command)
		}))
	}
	return c.outputs(cmd, of[clientEdits]())
}

// setHookProjects writes the projects to the configuration. Without projects, all, or
// yes, it asks on a terminal.
func (c *app) setHookProjects(ctx context.Context, projects []string, all, yes bool) error {
	if len(projects) == 0 && !all {
		if yes || c.JSON || !c.IsTerminal(c.Stdin) {
			return nil
		}
		f := initFlags{in: bufio.NewReader(io.LimitReader(c.Stdin, 64<<10))}
		if answer := f.ask(c, "projects: directories with commas between them, or all", "all"); answer != "all" {
			projects = strings.Split(answer, ",")
		}
	}
	m, err := c.clientMachine()
	if err != nil {
		return err
	}
	for i, dir := range projects {
		dir = m.Expand(strings.TrimSpace(dir))
		root, err := c.fs.Resolve(dir)
		if err == nil {
			_, err = c.fs.ReadDir(root)
		}
		if err != nil {
			return cli.Usagef("--project %s: %v; use a directory", display.Quoted(dir), err)
		}
		projects[i] = root
	}
	value, err := json.Marshal(projects) // null without projects: all
	if err != nil {
		return err
	}
	_, err = c.writeConfig(ctx, op.ConfigChange{Keys: []config.Pair{{Key: "hooks.only", Value: string(value)}}})
	return err
}

// hookCommandLine returns each event's command, with this command line's home and store.
func (c *app) hookCommandLine() (func(event string) string, error) {
	e, err := c.mcpEntry(false)
	if err != nil {
		return nil, err
	}
	return func(event string) string {
		words := []string{errtable.ShellWord(e.Command), "hook", event}
		for _, a := range e.Args[1:] { // flags, each with a path
			if !strings.HasPrefix(a, "-") {
				a = errtable.ShellWord(a)
			}
			words = append(words, a)
		}
		return strings.Join(words, " ")
	}, nil
}

// hooksRemoved is the result of hooks uninstall.
type hooksRemoved struct {
	clientEdits
	Deleted []op.SessionFile `json:"deleted"` // with --forget
}

func hooksUninstallCommand(c *app) *cobra.Command {
	f := clientFlags{family: "hooks"}
	var forget bool
	cmd := &cobra.Command{
		Use:   "uninstall [CLIENT...]",
		Short: "remove the hooks from agents",
		Long: `Remove the hooks that run crabmem hook from the configuration file of each
CLIENT: claude-code, codex, or gemini-cli. Without CLIENT, uninstall selects the
clients of this machine.

uninstall shows the change and asks before it writes; --yes does not ask. It
keeps all other bytes of the file, and a copy of the previous file with the
suffix .before-crabmem. If the file is as install left it, uninstall restores
the bytes before install, or removes a file that install created.

--forget also moves the sessions that hooks imported to the trash, as crabmem
sessions delete does: those of all clients. Sessions that you imported stay.`,
		Example: `  crabmem hooks uninstall claude-code --yes
  crabmem hooks uninstall codex --forget --yes`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.FixedCompletions(mcpclient.IDs(mcpclient.HookClients()), cobra.ShellCompDirectiveNoFileComp),
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&forget, "forget", false, "move the sessions that hooks imported to the trash")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := c.editClients(mcpclient.HookClients(), args, &f, c.withoutHooks)
		if err != nil {
			return err
		}
		out := hooksRemoved{clientEdits: *a, Deleted: []op.SessionFile{}}
		if forget {
			out.Deleted, err = c.forgetHooked(cmd.Context(), f.yes)
		}
		if err != nil {
			return err
		}
		return c.printResult(out, func() {
			for _, s := range out.Deleted {
				c.Say("deleted %s", display.SessionLabel(s.ID, s.Title))
			}
		})
	}
	return c.outputs(cmd, of[hooksRemoved]())
}

// withoutHooks returns a client's file without the hooks that run crabmem.
func (c *app) withoutHooks(cl *mcpclient.Client, path string, text []byte) ([]byte, error) {
	if !strings.Contains(string(text), "crabmem") {
		return text, nil // also with a syntax error
	}
	has := func(text []byte) (bool, error) {
		programs, err := mcpclient.HookPrograms(text)
		return len(programs) > 0, err
	}
	if ok, err := has(text); err != nil || !ok {
		return text, err
	}
	if command, err := c.hookCommandLine(); err == nil {
		before, ok := c.beforeInstall(path, text, has, func(text []byte) ([]byte, error) { return cl.SetHooks(text, command) })
		if ok {
			return before, nil
		}
	}
	return cl.RemoveHooks(text)
}

// forgetHooked moves the sessions that hooks created to the trash. It removes the records
// of all imports, so that hooks import a transcript again.
func (c *app) forgetHooked(ctx context.Context, yes bool) (gone []op.SessionFile, err error) {
	gone = []op.SessionFile{}
	list, err := c.hookHome().Records()
	if err != nil || len(list) == 0 {
		return gone, err
	}
	if !yes {
		if ok, err := c.confirm("move the sessions that hooks imported to the trash"); err != nil || !ok {
			return gone, err
		}
	}
	return gone, c.writeSessions("delete", false, func(d *sessionlog.Dir) error {
		for _, r := range list {
			if err := c.forgetRecord(ctx, d, r, &gone); err != nil {
				return afterOthers(err, "deleted", gone)
			}
		}
		return nil
	})
}

func (c *app) forgetRecord(ctx context.Context, d *sessionlog.Dir, r agenthook.Record, gone *[]op.SessionFile) error {
	if r.Created {
		found, err := c.chosenSessions(ctx, d, []string{r.Session})
		if err == nil {
			err = c.deleteSession(ctx, d, r.Session)
		}
		switch {
		case err == nil:
			*gone = append(*gone, found...)
		case classify(err).Code != cli.ExitNotFound:
			return err
		}
	}
	return c.hookHome().Remove(r.Transcript)
}
