package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/mcpclient"

	"github.com/spf13/cobra"
)

type clientFlags struct {
	yes, print, readOnly bool
	name                 string
	family               string // of the commands: mcp or hooks
}

func mcpInstallCommand(c *app) *cobra.Command {
	f := clientFlags{family: "mcp"}
	cmd := &cobra.Command{
		Use:   "install [CLIENT...]",
		Short: "add the MCP server to the configuration of clients",
		Long: `Add the server crabmem to the configuration file of each CLIENT: claude-code,
claude-desktop, cline, codex, copilot-cli, cursor, gemini-cli, opencode, vscode,
windsurf, or zed. Without CLIENT, install selects the clients of this machine.

install shows the change and asks before it writes; --yes does not ask. It keeps
all other bytes of the file, including comments, and a copy of the previous file
with the suffix .before-crabmem. A file with a syntax error is not changed.
--print prints the configuration for a new file and writes nothing.

The entry starts this program with an absolute path, because applications do not
search PATH as a shell does. It contains --home and --db unless they are the
defaults, and --gateway if that or CRABMEM_GATEWAY is set.`,
		Example: `  crabmem mcp install cursor --yes
  crabmem mcp install claude-desktop zed --yes
  crabmem mcp install codex --print`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.FixedCompletions(mcpclient.IDs(mcpclient.Clients()), cobra.ShellCompDirectiveNoFileComp),
	}
	f.register(cmd)
	f.registerName(cmd)
	cmd.Flags().BoolVar(&f.print, "print", false, "print the configuration and write nothing")
	cmd.Flags().BoolVar(&f.readOnly, "read-only", false, "offer only tools that read")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		e, err := c.mcpEntry(f.readOnly)
		if err != nil {
			return err
		}
		return c.printEdits(c.editClients(mcpclient.Clients(), args, &f, func(cl *mcpclient.Client, _ string, text []byte) ([]byte, error) {
			return cl.Set(text, f.name, e)
		}))
	}
	return c.outputs(cmd, of[clientEdits]())
}

func mcpUninstallCommand(c *app) *cobra.Command {
	f := clientFlags{family: "mcp"}
	cmd := &cobra.Command{
		Use:   "uninstall [CLIENT...]",
		Short: "remove the MCP server from clients",
		Long: `Remove the server crabmem from the configuration file of each CLIENT:
claude-code, claude-desktop, cline, codex, copilot-cli, cursor, gemini-cli,
opencode, vscode, windsurf, or zed. Without CLIENT, uninstall selects the
clients of this machine.

uninstall shows the change and asks before it writes; --yes does not ask. It
keeps all other bytes of the file, and a copy of the previous file with the
suffix .before-crabmem. If the file is as install left it, uninstall restores
the bytes before install, or removes a file that install created. If the file
does not contain the server, uninstall changes nothing.`,
		Example: `  crabmem mcp uninstall cursor --yes
  crabmem mcp uninstall claude-code codex --yes`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.FixedCompletions(mcpclient.IDs(mcpclient.Clients()), cobra.ShellCompDirectiveNoFileComp),
	}
	f.register(cmd)
	f.registerName(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.printEdits(c.editClients(mcpclient.Clients(), args, &f, func(cl *mcpclient.Client, path string, text []byte) ([]byte, error) {
			return c.withoutServer(cl, path, text, f.name)
		}))
	}
	return c.outputs(cmd, of[clientEdits]())
}

func (f *clientFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "write without asking")
}

func (f *clientFlags) registerName(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "name", serviceName, "use this `name` for the server in the client")
}

// mcpEntry returns a server entry with the home and the store of this command line.
func (c *app) mcpEntry(readOnly bool) (e mcpclient.Entry, err error) {
	if e.Command, err = c.programPath(); err != nil {
		return e, err
	}
	e.Args = []string{"mcp"}
	home := c.absHome()
	if m, err := c.clientMachine(); err == nil && home != filepath.Join(m.Home, ".crabtalk") {
		e.Args = append(e.Args, "--home", home)
	}
	store, err := filepath.Abs(c.storePath())
	if err != nil {
		return e, err
	}
	if url := c.gatewayURL(); url != "" {
		e.Args = append(e.Args, "--gateway", url)
	} else if store != filepath.Join(home, "memory.db") {
		e.Args = append(e.Args, "--db", store)
	}
	if readOnly {
		e.Args = append(e.Args, "--read-only")
	}
	return e, nil
}

// clientMachine returns the machine of this user, on which clients are installed.
func (c *app) clientMachine() (m mcpclient.Machine, err error) {
	variable := "HOME"
	if runtime.GOOS == "windows" {
		variable = "USERPROFILE"
	}
	m = mcpclient.Machine{OS: runtime.GOOS, Getenv: c.Getenv, Home: c.Getenv(variable)}
	if m.Home == "" {
		m.Home, err = os.UserHomeDir()
	}
	return m, err
}

// programPath returns the absolute path of this program. It prefers the name in
// PATH: package managers keep that name when they install another version.
func (c *app) programPath() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if tool, fix := temporary(self); tool != "" {
		return "", &cli.Failure{Code: cli.ExitUsage, Kind: "usage", Path: self, Message: "the program is temporary: " + tool + " removes " + self,
			Remedy: "run " + fix + ", then crabmem from PATH"}
	}
	name, err := exec.LookPath(serviceName)
	if err != nil || !filepath.IsAbs(name) {
		return self, nil
	}
	found, err := c.fs.Resolve(name)
	if err != nil {
		return self, nil
	}
	if real, err := c.fs.Resolve(self); err == nil && real == found {
		return name, nil
	}
	return self, nil
}

// temporary returns the tool that made a program and removes it later, and the command that
// installs one that stays; "" if the program stays.
func temporary(program string) (tool, fix string) {
	dir := filepath.Dir(program)
	switch {
	case filepath.Base(dir) == "exe" && strings.Contains(filepath.ToSlash(dir), "/go-build"):
		return "go run", "go install ./cmd/crabmem"
	case strings.HasPrefix(filepath.Base(filepath.Dir(filepath.Dir(dir))), "archive-v"): // of the cache, as in archive-v0/ID/bin
		return "uv", "uv tool install crabmem"
	}
	return "", ""
}
