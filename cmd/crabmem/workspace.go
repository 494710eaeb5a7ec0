package main

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/workspace"

	"github.com/spf13/cobra"
)

func workspaceCommand(c *app) *cobra.Command {
	return family(&cobra.Command{
		Use:     "workspace COMMAND",
		GroupID: groupAgents,
		Short:   "manage trust in the workspaces of projects",
		Long: `A workspace is a directory with crabmem.toml, and agents, skills, MCP servers,
and cron entries of a project. crabmem init NAME makes one. The files of a
workspace have no effect until you trust it. A change of a file that takes
effect ends the trust, until you trust the workspace again.

A conversation that begins in a trusted workspace has its agents, skills, and
servers; the agent default answers if there is one. Another conversation has
only those of the home.`,
		Example: `  crabmem workspace list
  crabmem init shop -q && crabmem workspace show shop`,
	}, workspaceList(c), workspaceShow(c), workspaceTrust(c), workspaceUntrust(c))
}

// workspaceStore returns the store of the workspace in or above the directory of the command.
// It returns "" without a workspace whose store the user permits, and with --space. A problem
// is a warning, once.
func (c *app) workspaceStore() string {
	if c.space != "" || !c.inWorkspace {
		return ""
	}
	c.ofWorkspace.Do(func() {
		file := workspace.Find(c.fs, cmp.Or(c.dir, absPath(".")), c.absHome())
		if file == "" {
			return
		}
		var trusts workspace.Trusts
		w, err := workspace.Load(c.fs, file)
		if err == nil {
			trusts, err = workspace.ReadTrusts(c.fs, c.absHome())
		}
		switch {
		case err != nil:
			c.Warn("the workspace has no effect: " + err.Error())
		case trusts.UsesStore(w):
			c.store = w.Store()
		case w.Memory:
			c.Note("the workspace is not trusted, and its memory is not used: run crabmem workspace trust " + errtable.ShellWord(w.Root))
		}
	})
	return c.store
}

// trustedWorkspace returns the path of the workspace in or above the working directory, or "" if
// its files have no effect.
func (c *app) trustedWorkspace() string {
	file := workspace.Find(c.fs, absPath("."), c.absHome())
	if file == "" {
		return ""
	}
	w, err := workspace.Load(c.fs, file)
	if err != nil {
		return ""
	}
	if trusts, err := workspace.ReadTrusts(c.fs, c.absHome()); err != nil || trusts.State(w) != workspace.Trusted {
		return ""
	}
	return w.Root
}

// workspaceInfo is a workspace in the output of the commands.
type workspaceInfo struct {
	Path    string          `json:"path"`
	File    string          `json:"file"` // its main file; empty: the directory is no workspace any more
	State   string          `json:"state" op:"words=untrusted|changed|trusted|broken|missing"`
	Problem string          `json:"problem,omitempty"` // of a broken workspace
	Memory  bool            `json:"memory"`            // its notes are in data/memory.db
	Crons   bool            `json:"crons"`             // the user permits its cron entries
	Agents  []string        `json:"agents,omitempty"`
	Skills  []string        `json:"skills,omitempty"`
	Servers []workspacePart `json:"servers,omitempty"`
	Entries []workspacePart `json:"cron,omitempty"`
}

// workspacePart is a server or a cron entry: its name, and what it runs.
type workspacePart struct {
	Name    string `json:"name"`
	Runs    string `json:"runs"`
	Outside bool   `json:"outside,omitempty"` // it names a path outside the workspace, or an address
}

// workspaceOf returns the main file of the workspace in or above dir.
func (c *app) workspaceOf(args []string) (string, error) {
	dir := "."
	if len(args) > 0 {
		dir = args[0]
	}
	dir = absPath(dir)
	if file := workspace.Find(c.fs, dir, c.absHome()); file != "" {
		return file, nil
	}
	return "", &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Path: dir, Message: "find workspace in " + dir + ": no " + workspace.File + " there or above", Remedy: "run crabmem init ."}
}

// workspaceInfo describes the workspace of a main file. The error is why it is broken.
func (c *app) workspaceInfo(file string, trusts workspace.Trusts) (a workspaceInfo, w *workspace.Workspace, err error) {
	a = workspaceInfo{Path: filepath.Dir(file), File: file, Crons: trusts[filepath.Dir(file)].Crons}
	if w, err = workspace.Load(c.fs, file); err != nil {
		a.State, a.Problem = "broken", err.Error()
		return a, nil, err
	}
	a.State, a.Memory, a.Skills = string(trusts.State(w)), w.Memory, w.Skills
	for _, of := range w.Agents {
		a.Agents = append(a.Agents, of.Name)
	}
	for i := range w.MCPs {
		m := &w.MCPs[i]
		p := workspacePart{Name: m.Name, Runs: m.Describe(), Outside: m.URL != "" || leadsOut(w.Root, m.Command)}
		for _, arg := range m.Args {
			p.Outside = p.Outside || leadsOut(w.Root, string(arg))
		}
		a.Servers = append(a.Servers, p)
	}
	for i := range w.Crons {
		a.Entries = append(a.Entries, workspacePart{Name: w.Crons[i].Name, Runs: w.Crons[i].Schedule + ": " + w.Crons[i].Message()})
	}
	return a, w, nil
}

// leadsOut reports whether a word of a command is a path outside root, or an address.
func leadsOut(root, word string) bool {
	if filepath.IsAbs(word) {
		rel, err := filepath.Rel(root, word)
		return err != nil || !filepath.IsLocal(rel)
	}
	return strings.Contains(word, "://") || strings.HasPrefix(word, "~") || strings.Contains(word, "/") && !filepath.IsLocal(word)
}

func (c *app) sayWorkspace(a workspaceInfo) {
	rows := [][]string{{"workspace", display.Printable(a.Path)}, {"state", a.State}}
	add := func(name string, words ...string) {
		for i, word := range words {
			if i > 0 {
				name = ""
			}
			rows = append(rows, []string{name, display.Printable(word)})
		}
	}
	if a.Problem != "" {
		add("problem", a.Problem)
	}
	if a.Memory {
		add("memory", filepath.Join(workspace.Ignored, "memory.db"))
	}
	add("agents", a.Agents...)
	add("skills", a.Skills...)
	for _, list := range []struct {
		name  string
		parts []workspacePart
	}{{"servers", a.Servers}, {"cron", a.Entries}} {
		var lines []string
		for _, p := range list.parts {
			if p.Outside {
				p.Runs += "  (outside the workspace)"
			}
			lines = append(lines, p.Name+": "+p.Runs)
		}
		add(list.name, lines...)
	}
	c.Table(c.Out, rows, "")
}

func workspaceList(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "list",
		Short: "list the trusted workspaces",
		Long: `List the workspaces that you trust, and the one of the working directory. The
state is trusted, changed, untrusted, broken, or missing.`,
		Example: `  crabmem workspace list`,
		Args:    noArgs,
	}, func(context.Context, []string) ([]workspaceInfo, error) {
		trusts, err := workspace.ReadTrusts(c.fs, c.absHome())
		if err != nil {
			return nil, err
		}
		list, paths := []workspaceInfo{}, trusts.Paths()
		if file, err := c.workspaceOf(nil); err == nil && !slices.Contains(paths, filepath.Dir(file)) {
			paths = append(paths, filepath.Dir(file))
		}
		for _, path := range paths {
			if file := workspace.Find(c.fs, path, c.absHome()); file != "" && filepath.Dir(file) == path {
				a, _, _ := c.workspaceInfo(file, trusts)
				list = append(list, a)
			} else {
				list = append(list, workspaceInfo{Path: path, State: "missing", Crons: trusts[path].Crons})
			}
		}
		return list, nil
	}, func(list []workspaceInfo) {
		rows := [][]string{{"STATE", "WORKSPACE"}}
		for _, a := range list {
			rows = append(rows, []string{a.State, display.Printable(a.Path)})
		}
		if len(list) == 0 {
			c.Say("no workspaces; crabmem init NAME makes one")
			return
		}
		c.Table(c.Out, rows, "")
	})
}

func workspaceShow(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "show [DIR]",
		Short:   "show what a workspace contains",
		Long:    `Show the workspace in or above DIR; the default is the working directory.`,
		Example: `  crabmem init shop -q && crabmem workspace show shop`,
		Args:    atMost(1, "DIR"),
	}, func(_ context.Context, args []string) (a workspaceInfo, err error) {
		file, err := c.workspaceOf(args)
		if err != nil {
			return a, err
		}
		trusts, err := workspace.ReadTrusts(c.fs, c.absHome())
		if err != nil {
			return a, err
		}
		a, _, _ = c.workspaceInfo(file, trusts)
		return a, nil
	}, c.sayWorkspace)
}

func workspaceTrust(c *app) *cobra.Command {
	var yes, crons bool
	cmd := &cobra.Command{
		Use:   "trust [DIR]",
		Short: "let the files of a workspace take effect",
		Long: `Show the agents, skills, commands, addresses, and cron entries of the workspace
in or above DIR, ask, and store the path and a digest of the files. --crons also
permits its cron entries. A change of a file that takes effect, as by git pull,
ends the trust. Without a terminal, trust needs --yes.`,
		Example: `  crabmem init shop -q && crabmem workspace trust shop --yes`,
		Args:    atMost(1, "DIR"),
	}
	yesFlag(cmd, &yes)
	cmd.Flags().BoolVar(&crons, "crons", false, "permit its cron entries")
	return resultCommand(c, cmd, func(_ context.Context, args []string) (a workspaceInfo, err error) {
		file, err := c.workspaceOf(args)
		if err != nil {
			return a, err
		}
		a, w, err := c.workspaceInfo(file, nil)
		if err != nil {
			return a, err
		}
		if err := c.accept(yes, "trust the workspace "+a.Path, func() { c.sayWorkspace(a) }); err != nil {
			return a, err
		}
		if err := vfs.MkdirAll(c.fs, c.absHome(), 0o700); err != nil {
			return a, err
		}
		a.State, a.Crons = string(workspace.Trusted), crons
		// The digest is that of the files that the user saw.
		_, err = workspace.SetTrust(c.fs, c.absHome(), w.Root, &workspace.Trust{Digest: w.Digest, Crons: crons, Memory: w.Memory}, c.lockWait)
		return a, err
	}, func(a workspaceInfo) {
		if yes {
			c.sayWorkspace(a)
		}
		c.Say("trusted %s", display.Printable(a.Path))
	})
}

// untrusted is the output of workspace untrust.
type untrusted struct {
	Path string `json:"untrusted"`
}

func workspaceUntrust(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "untrust [DIR]",
		Short: "end the trust in a workspace",
		Long: `End the trust in the workspace in or above DIR, or at DIR if that is missing. If
it is not trusted, the exit code is 3. untrust removes no file.`,
		Example: `  crabmem workspace untrust shop || crabmem workspace list`,
		Args:    atMost(1, "DIR"),
	}, func(_ context.Context, args []string) (a untrusted, err error) {
		if file, err := c.workspaceOf(args); err == nil {
			a.Path = filepath.Dir(file)
		} else if len(args) == 0 {
			return a, err
		} else {
			a.Path = absPath(args[0])
		}
		was, err := workspace.SetTrust(c.fs, c.absHome(), a.Path, nil, c.lockWait)
		if err == nil && !was {
			err = &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Path: a.Path, Message: "untrust " + a.Path + ": not trusted", Remedy: "run crabmem workspace list"}
		}
		return a, err
	}, func(a untrusted) { c.Say("untrusted %s", display.Printable(a.Path)) })
}
