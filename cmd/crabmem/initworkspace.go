package main

import (
	"path/filepath"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/workspace"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// madeWorkspace is the output of init NAME.
type madeWorkspace struct {
	Path string   `json:"path"`
	Made []string `json:"made"` // relative to path; directories end with a slash
}

// workspaceFiles are the files of a new workspace. A name that ends with a slash is a directory.
var workspaceFiles = [][2]string{
	{"agents/", ""}, {"skills/", ""}, {"mcp/", ""}, {"cron/", ""},
	{"agents/default.toml", "description = \"answers questions about this project\"\nprompt = \"You help with this project. You answer briefly and plainly.\"\n"},
	{".gitignore", workspace.Ignored + "/\n"},
	// The main file is last: without it, the directory is no workspace.
	{workspace.File, "# A workspace of crabmem. Agents are in agents/, skills in skills/NAME/SKILL.md, MCP\n# servers in mcp/, and cron entries in cron/.\n\n[memory]\nproject = true # the notes of this project are in data/memory.db\n"},
}

// orWorkspace returns the command init: configure without NAME, else initNamed.
func (c *app) orWorkspace(configure func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return configure(cmd, args)
		}
		return c.initNamed(cmd, args[0])
	}
}

// initNamed is the command init NAME. It refuses the flags of init without NAME.
func (c *app) initNamed(cmd *cobra.Command, name string) (err error) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && cmd.InheritedFlags().Lookup(f.Name) == nil {
			err = wrongArgs(cmd, "init NAME makes a workspace, which does not use --%s", f.Name)
		}
	})
	if err != nil {
		return err
	}
	a, err := c.initWorkspace(name)
	if err != nil {
		return err
	}
	return c.printResult(a, func() {
		c.Say("made the workspace %s: %s", display.Printable(a.Path), strings.Join(a.Made, ", "))
		c.Say("next: edit %s, then run crabmem workspace trust %s", workspace.File, errtable.ShellWord(name))
	})
}

// initWorkspace makes a workspace in the directory dir. If one of its files exists, it writes
// no file.
func (c *app) initWorkspace(dir string) (a madeWorkspace, err error) {
	a = madeWorkspace{Path: absPath(dir), Made: []string{}}
	var taken []string
	for _, f := range append([][2]string{{workspace.OldFile, ""}}, workspaceFiles...) {
		path := filepath.Join(a.Path, f[0])
		fi, err := c.fs.Lstat(path)
		if err == nil && !(strings.HasSuffix(f[0], "/") && fi.IsDir()) {
			taken = append(taken, f[0])
		} else if err != nil && !missing(err) {
			return a, err
		}
	}
	if len(taken) > 0 {
		return a, &cli.Failure{Code: cli.ExitConflict, Kind: "exists", Path: a.Path, Message: "create workspace " + a.Path + ": files exist: " + strings.Join(taken, ", "),
			Remedy: "move these files, or use another directory"}
	}
	if err := vfs.MkdirAll(c.fs, a.Path, 0o755); err != nil {
		return a, err
	}
	for _, f := range workspaceFiles {
		path := filepath.Join(a.Path, f[0])
		if strings.HasSuffix(f[0], "/") {
			err = vfs.MkdirAll(c.fs, path, 0o755)
		} else {
			err = vfs.WriteFile(c.fs, path, 0o644, []byte(f[1]))
		}
		if err != nil {
			return a, err
		}
		a.Made = append(a.Made, f[0])
	}
	return a, nil
}
