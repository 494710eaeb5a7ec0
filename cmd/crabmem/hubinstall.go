package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/hub"

	"github.com/spf13/cobra"
)

// hubInstalled is an installed resource in the output of hub install and hub upgrade.
type hubInstalled struct {
	Name    string   `json:"name"`
	Type    string   `json:"resource_type" op:"words=skill|agent|mcp|workspace"`
	Version string   `json:"version"`
	Path    string   `json:"path"`   // of the workspace or the home
	Repo    string   `json:"repo"`   // of the files
	Commit  string   `json:"commit"` // of the files
	Grants  []string `json:"grants"` // what the files permit and run
	Files   []string `json:"files"`

	pkg *hub.Package
}

// fetchHub returns a resource that can be installed into the root.
func (c *app) fetchHub(ctx context.Context, h *hub.Hub, r *hub.Resource, root *hub.Root) (a hubInstalled, err error) {
	p, err := h.Fetch(ctx, r)
	if err != nil {
		return a, err
	}
	grants, err := p.Check()
	if err != nil {
		return a, &cli.Failure{Code: cli.ExitFailure, Kind: "invalid", Message: "install " + r.Name + " of " + r.Source + ": " + err.Error(), Remedy: "tell the author of the resource", Err: err}
	}
	a = hubInstalled{p.Name, p.Type, p.Version, root.Dir, p.FilesRepo, p.Ref, append([]string{}, grants...), []string{}, p}
	for _, f := range p.Files {
		a.Files = append(a.Files, f.Path)
	}
	return a, nil
}

func (c *app) sayHubInstalled(list []hubInstalled) {
	var rows [][]string
	for _, a := range list {
		rows = append(rows, []string{a.Type, a.Name + " " + a.Version}, []string{"from", a.Repo + " " + a.Commit[:min(12, len(a.Commit))]}, []string{"into", a.Path})
		for i, lines := range [][]string{a.Grants, a.Files} {
			for j, line := range lines {
				rows = append(rows, []string{[]string{"permits", "files"}[i], line})
				if j > 0 {
					rows[len(rows)-1][0] = ""
				}
			}
		}
	}
	for _, row := range rows {
		row[1] = display.Printable(row[1])
	}
	c.Table(c.Out, rows, "")
}

// installHub shows resources, asks, and installs them. It returns those that are installed.
func (c *app) installHub(list []hubInstalled, root *hub.Root, how hub.How, yes bool) ([]hubInstalled, error) {
	if len(list) == 0 {
		return list, nil
	}
	action := "install " + list[0].Name + " into " + root.Dir
	if root.IsHome {
		action += ", the home"
	}
	if how == hub.Upgrade {
		action = "upgrade these resources"
	}
	if err := c.accept(yes, action, func() { c.sayHubInstalled(list) }); err != nil {
		return nil, err
	}
	done := list[:0:0]
	err := c.hubLocked(func() (err error) {
		for _, a := range list {
			ierr := root.Install(a.pkg, how)
			if err = c.firstError(err, ierr); ierr == nil {
				done = append(done, a)
			}
		}
		return err
	})
	return done, err
}

func (c *app) sayHubDone(verb string, list []hubInstalled, yes, inWorkspace bool) {
	if yes {
		c.sayHubInstalled(list)
	}
	for _, a := range list {
		c.Say("%s %s %s", verb, a.Name, display.Printable(a.Version))
		switch {
		case a.Type == hub.Workspace:
			c.Note("next: run crabmem workspace trust " + errtable.ShellWord(filepath.Join(a.Path, a.Name)))
		case inWorkspace:
			c.Note("next: run crabmem workspace trust " + errtable.ShellWord(a.Path) + ": the change ended any trust")
		}
	}
}

func hubInstall(c *app) *cobra.Command {
	var place hubPlace
	var yes, force bool
	cmd := &cobra.Command{
		Use:   "install NAME",
		Short: "install a resource of a hub",
		Long: `Fetch a resource, show what it permits and runs and its files, ask, and write
the files to .crabmem/managed of the workspace. Without a workspace, install
uses the home, which takes only skills. A workspace becomes a new directory
NAME. In a workspace, files take effect after crabmem workspace trust.

install refuses to replace files; --force replaces them. If two sources have
NAME, use SOURCE/NAME. Without a terminal, install needs --yes.`,
		Example:           `  crabmem hub install deploy --in-home --yes`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: completeHub(c, false),
	}
	place.add(cmd)
	yesFlag(cmd, &yes)
	cmd.Flags().BoolVar(&force, "force", false, "replace all files in the place of the resource")
	var inWorkspace bool
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (a hubInstalled, err error) {
		root := c.hubRoot(place)
		err = c.hubLocked(func() error {
			h, x, err := c.hubIndex(ctx)
			if err != nil {
				return err
			}
			r, err := x.Find(args[0])
			if err != nil {
				return err
			}
			if r.Type == hub.Workspace {
				if place.inHome || force {
					return wrongArgs(cmd, "a workspace is a new directory, without --in-home and --force")
				}
				root = &hub.Root{FS: c.fs, Dir: absPath(place.dir)}
			}
			a, err = c.fetchHub(ctx, h, r, root)
			return err
		})
		if err != nil {
			return a, err
		}
		inWorkspace = !root.IsHome
		how := hub.New
		if force {
			how = hub.Force
		}
		_, err = c.installHub([]hubInstalled{a}, root, how, yes)
		return a, err
	}, func(a hubInstalled) { c.sayHubDone("installed", []hubInstalled{a}, yes, inWorkspace) })
}

func hubUpgrade(c *app) *cobra.Command {
	var place hubPlace
	var yes bool
	cmd := &cobra.Command{
		Use:   "upgrade [NAME]",
		Short: "install new versions of resources",
		Long: `Install the version of the source for each outdated resource of the workspace,
or only for NAME, after the question of hub install. Without a workspace,
upgrade uses the home. Run crabmem hub update before. upgrade refuses to replace
files that differ from hub.lock. Without a terminal, it needs --yes.`,
		Example:           `  crabmem hub upgrade --yes`,
		Args:              atMost(1, "NAME"),
		ValidArgsFunction: completeHub(c, true),
	}
	place.add(cmd)
	yesFlag(cmd, &yes)
	return resultCommand(c, cmd, func(ctx context.Context, args []string) ([]hubInstalled, error) {
		root, list := c.hubRoot(place), []hubInstalled{}
		err := c.hubLocked(func() error {
			h, x, err := c.hubIndex(ctx)
			if err != nil {
				return err
			}
			all, err := c.hubEntries(place, false, x)
			if err == nil && len(args) > 0 {
				all = slices.DeleteFunc(all, func(e hubEntry) bool { return e.Name != args[0] })
				if len(all) == 0 {
					err = &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Path: root.Dir, Message: "upgrade " + args[0] + ": it is not installed in " + root.Dir, Remedy: "run crabmem hub list"}
				}
			}
			for _, e := range all {
				if err != nil || e.Available == "" {
					continue
				}
				var r *hub.Resource
				var a hubInstalled
				if r, err = x.Find(e.Source + "/" + e.Name); err == nil {
					a, err = c.fetchHub(ctx, h, r, root)
				}
				list = append(list, a)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		done, err := c.installHub(list, root, hub.Upgrade, yes)
		for _, a := range done {
			if err != nil { // the result is not printed
				c.Note("upgraded " + a.Name + " " + display.Printable(a.Version))
			}
		}
		return done, err
	}, func(list []hubInstalled) {
		if len(list) == 0 {
			c.Say("no resource is outdated")
			return
		}
		c.sayHubDone("upgraded", list, yes, !c.hubRoot(place).IsHome)
	})
}

// hubRemoved is the output of hub remove.
type hubRemoved struct {
	Name string   `json:"removed"`
	Path string   `json:"path"` // of the workspace or the home
	Kept []string `json:"kept"` // files that differ from hub.lock
}

func hubRemove(c *app) *cobra.Command {
	var place hubPlace
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "remove an installed resource",
		Long: `Remove the files of a resource that hub.lock lists, and then its entry. Files
that you changed or added stay; remove lists them. Without a workspace, remove
uses the home.`,
		Example:           `  crabmem hub remove deploy`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: completeHub(c, true),
	}
	place.add(cmd)
	return resultCommand(c, cmd, func(_ context.Context, args []string) (a hubRemoved, err error) {
		root := c.hubRoot(place)
		a = hubRemoved{args[0], root.Dir, []string{}}
		err = c.hubLocked(func() error {
			kept, err := root.Remove(a.Name)
			a.Kept = append(a.Kept, kept...)
			return err
		})
		return a, err
	}, func(a hubRemoved) {
		c.Say("removed %s", a.Name)
		if len(a.Kept) > 0 {
			c.Warn("kept changed files in " + a.Path + ": " + strings.Join(a.Kept, ", "))
		}
	})
}
