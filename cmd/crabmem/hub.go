package main

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/hub"
	"crabmem/daemon/op"
	"crabmem/daemon/workspace"

	"github.com/spf13/cobra"
)

func hubCommand(c *app) *cobra.Command {
	return family(&cobra.Command{
		Use:     "hub COMMAND",
		GroupID: groupAgents,
		Short:   "install skills, agents, servers, and workspaces",
		Long: `A hub is a git repository with manifests of resources: skills, agents, MCP
servers, and workspaces. add-source adds a hub. Resources are installed into
.crabmem/managed of the workspace, or of the home with --in-home. Your own files
of the same name take precedence. hub.lock lists what is installed. Git runs
from the PATH. No file of a repository runs when you install it.`,
		Example: `  crabmem hub update && crabmem hub search deploy
  crabmem hub list`,
	}, hubSearch(c), hubInfo(c), hubInstall(c), hubRemove(c), hubUpdate(c), hubUpgrade(c), hubList(c), hubAddSource(c), hubRemoveSource(c))
}

// hub returns the hub of the home.
func (c *app) hub() (*hub.Hub, error) {
	conf, err := config.LoadStructure(c.fs, c.absHome(), c.Getenv)
	if err != nil {
		return nil, err
	}
	return &hub.Hub{FS: c.fs, Home: c.absHome(), Sources: conf.HubSources}, nil
}

// hubIndex returns the hub, and the index of the copies. Refused manifests are warnings.
func (c *app) hubIndex(ctx context.Context) (*hub.Hub, *hub.Index, error) {
	h, err := c.hub()
	if err != nil {
		return nil, nil, err
	}
	x, err := h.Index(ctx)
	if err != nil {
		return h, nil, err
	}
	for _, text := range x.Warnings {
		c.Warn(text)
	}
	return h, x, nil
}

func (c *app) hubLocked(change func() error) error {
	return hub.Locked(c.fs, c.absHome(), c.lockWait, change)
}

// firstError returns first, and prints next as a warning, or returns next if first is nil.
func (c *app) firstError(first, next error) error {
	if first != nil && next != nil {
		c.Warn(next.Error())
	}
	return cmp.Or(first, next)
}

// hubPlace are the flags that select a root.
type hubPlace struct {
	dir    string
	inHome bool
}

func (p *hubPlace) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.dir, "dir", "", "use the workspace in or above this `directory`, not the working directory")
	cmd.Flags().BoolVar(&p.inHome, "in-home", false, "use the home, even in a workspace")
}

// hubRoot returns the workspace, or the home without a workspace.
func (c *app) hubRoot(p hubPlace) *hub.Root {
	if file := workspace.Find(c.fs, absPath(cmp.Or(p.dir, ".")), c.absHome()); file != "" && !p.inHome {
		return &hub.Root{FS: c.fs, Dir: filepath.Dir(file)}
	}
	return &hub.Root{FS: c.fs, Dir: c.absHome(), IsHome: true}
}

// completeHub completes a resource of the hubs, or with installed one of the working directory.
func completeHub(c *app, installed bool) cobra.CompletionFunc {
	return completeWith(1, func(ctx context.Context, found *candidates) {
		if installed {
			list, _ := c.hubRoot(hubPlace{}).Installed()
			for _, e := range list {
				found.describe(e.Name, e.Type)
			}
			return
		}
		h, err := c.hub()
		if err != nil {
			return
		}
		if x, err := h.Index(ctx); err == nil {
			for _, r := range x.Resources {
				found.describe(r.Name, display.Printable(r.Description))
			}
		}
	})
}

func hubSearch(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "search TEXT",
		Short: "search the copies of the hubs",
		Long: `List the resources whose name, tags, description, or author contains TEXT,
ignoring case: first the one with this name, then those with this tag. search
reads the copies that hub update made, and needs no network.`,
		Example:           `  crabmem hub search deploy`,
		Args:              exactly(1, "TEXT"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}, func(ctx context.Context, args []string) ([]hub.Resource, error) {
		_, x, err := c.hubIndex(ctx)
		if err != nil {
			return nil, err
		}
		return append([]hub.Resource{}, x.Search(args[0])...), nil
	}, func(list []hub.Resource) {
		rows := [][]string{{"NAME", "TYPE", "VERSION", "SOURCE", "DESCRIPTION"}}
		for _, r := range list {
			rows = append(rows, []string{r.Name, r.Type, display.Printable(r.Version), r.Source, display.Printable(r.Description)})
		}
		c.fitTable(rows, "", "no resources")
	})
}

// hubShown is the output of hub info.
type hubShown struct {
	hub.Resource
	Installed []hubEntry `json:"installed"` // in the workspace and the home
}

// hubEntry is an installed resource in the output of commands.
type hubEntry struct {
	hub.Installed
	Path      string   `json:"path"`                // of the workspace or the home
	Available string   `json:"available,omitempty"` // version of the source, if it differs
	Changed   []string `json:"changed,omitempty"`   // files that differ from hub.lock
}

// hubEntries returns what is installed in the workspace and the home, or in one of them.
func (c *app) hubEntries(p hubPlace, both bool, x *hub.Index) ([]hubEntry, error) {
	roots, list := []*hub.Root{c.hubRoot(p)}, []hubEntry{}
	if home := c.hubRoot(hubPlace{inHome: true}); both && !roots[0].IsHome {
		roots = append(roots, home)
	}
	for _, r := range roots {
		all, err := r.Installed()
		if err != nil {
			return nil, err
		}
		for _, e := range all {
			a := hubEntry{Installed: e, Path: r.Dir}
			if a.Changed, err = r.Changed(e); err != nil {
				return nil, err
			}
			if x != nil && e.Type != hub.Workspace {
				if of, err := x.Find(e.Source + "/" + e.Name); err == nil && of.Version != e.Version && of.Type == e.Type {
					a.Available = of.Version
				}
			}
			list = append(list, a)
		}
	}
	return list, nil
}

func hubInfo(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "info NAME",
		Short: "show a resource of a hub",
		Long: `Show the manifest of a resource, its source, and whether it is installed in the
workspace or the home. If two sources have NAME, use SOURCE/NAME.`,
		Example:           `  crabmem hub info deploy`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: completeHub(c, false),
	}, func(ctx context.Context, args []string) (a hubShown, err error) {
		_, x, err := c.hubIndex(ctx)
		if err != nil {
			return a, err
		}
		r, err := x.Find(args[0])
		if err != nil {
			return a, err
		}
		a.Resource = *r
		list, err := c.hubEntries(hubPlace{}, true, x)
		a.Installed = slices.DeleteFunc(list, func(e hubEntry) bool { return e.Name != r.Name || e.Source != r.Source })
		return a, err
	}, func(a hubShown) {
		rows := [][]string{{"name", a.Name}, {"type", a.Type}, {"description", a.Description}, {"version", a.Version}, {"author", a.Author}, {"tags", strings.Join(a.Tags, ", ")},
			{"source", a.Source + " (" + a.Repo + ")"}, {"files", strings.TrimSpace(cmp.Or(a.From.GitHub, a.Repo) + " " + a.From.Path + " " + a.From.Ref)}}
		for _, e := range a.Installed {
			rows = append(rows, []string{"installed", e.Version + " in " + e.Path})
		}
		rows = slices.DeleteFunc(rows, func(row []string) bool { row[1] = display.Printable(row[1]); return row[1] == "" })
		c.Table(c.Out, rows, "")
	})
}

func (c *app) sayHubEntries(list []hubEntry, none string) {
	rows := [][]string{{"NAME", "TYPE", "VERSION", "STATE", "SOURCE", "PLACE"}}
	for _, e := range list {
		state := "current"
		if e.Available != "" {
			state = "outdated: " + e.Available
		}
		if len(e.Changed) > 0 {
			state = "changed"
		}
		rows = append(rows, []string{e.Name, e.Type, display.Printable(e.Version), display.Printable(state), display.Printable(e.Source), display.Printable(e.Path)})
	}
	c.fitTable(rows, "", none)
}

func hubList(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "list",
		Short: "list the installed resources",
		Long: `List the resources of hubs in the workspace and the home. The state is current,
outdated if the source has another version, or changed if a file differs from
hub.lock, is missing, or is not in it.`,
		Example: `  crabmem hub list`,
		Args:    noArgs,
	}, func(ctx context.Context, _ []string) ([]hubEntry, error) {
		h, err := c.hub()
		if err != nil {
			return nil, err
		}
		x, _ := h.Index(ctx) // without copies, no resource is outdated
		return c.hubEntries(hubPlace{}, true, x)
	}, func(list []hubEntry) { c.sayHubEntries(list, "no installed resources") })
}

// hubUpdated is the output of hub update.
type hubUpdated struct {
	Sources  []string   `json:"sources"` // with a new copy
	Outdated []hubEntry `json:"outdated"`
}

func hubUpdate(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "update",
		Short: "fetch the hubs, and list outdated resources",
		Long: `Fetch a new copy of each hub into hub/ of the home, and list the installed
resources whose version differs. update changes no installed file. If a hub
cannot be fetched, its old copy stays, and the exit code is 1.`,
		Example: `  crabmem hub update`,
		Args:    noArgs,
	}, func(ctx context.Context, _ []string) (a hubUpdated, err error) {
		h, err := c.hub()
		if err != nil {
			return a, err
		}
		a.Sources = []string{}
		err = c.hubLocked(func() (err error) {
			for _, s := range h.Sources {
				uerr := h.Update(ctx, s)
				if err = c.firstError(err, uerr); uerr == nil {
					a.Sources = append(a.Sources, s.Name)
				}
			}
			return err
		})
		if err != nil {
			return a, err
		}
		_, x, err := c.hubIndex(ctx)
		if err != nil {
			return a, err
		}
		list, err := c.hubEntries(hubPlace{}, true, x)
		a.Outdated = slices.DeleteFunc(list, func(e hubEntry) bool { return e.Available == "" })
		return a, err
	}, func(a hubUpdated) {
		c.Say("updated %s", strings.Join(a.Sources, ", "))
		if len(a.Outdated) > 0 {
			c.sayHubEntries(a.Outdated, "")
		}
	})
}

// changeSources replaces [[hub.sources]] by the list that change returns for the present one, in
// which the source of name has the index at, or -1.
func (c *app) changeSources(ctx context.Context, name string, change func(h *hub.Hub, at int) ([]config.HubSource, error)) error {
	return c.hubLocked(func() error {
		h, err := c.hub()
		if err != nil {
			return err
		}
		list, err := change(h, slices.IndexFunc(h.Sources, func(s config.HubSource) bool { return s.Name == name }))
		if err != nil {
			return err
		}
		text, err := display.JSON(list)
		if err == nil {
			_, err = c.writeConfig(ctx, op.ConfigChange{Keys: []config.Pair{{Key: "hub.sources", Value: string(text)}}})
		}
		return err
	})
}

func hubAddSource(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add-source NAME OWNER/REPO",
		Short: "add a hub",
		Long: `Fetch the repository OWNER/REPO of GitHub, and add it to [[hub.sources]] of
config.toml as NAME. file:///PATH is a repository of this machine. Git uses your
SSH keys and credential helpers.`,
		Example:           `  crabmem hub add-source team "file://$PWD/hub.git"`,
		Args:              exactly(2, "NAME and OWNER/REPO"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (s config.HubSource, err error) {
		s = config.HubSource{Name: args[0], Repo: args[1]}
		if err := config.CheckHubName(s.Name); err != nil {
			return s, wrongArgs(cmd, "NAME %s: %v", display.Quoted(s.Name), err)
		}
		if err := config.CheckHubRepo(s.Repo); err != nil {
			return s, wrongArgs(cmd, "repository %s: %v", display.Quoted(s.Repo), err)
		}
		return s, c.changeSources(ctx, s.Name, func(h *hub.Hub, at int) ([]config.HubSource, error) {
			if at >= 0 {
				return nil, &cli.Failure{Code: cli.ExitConflict, Kind: "exists", Message: "add source " + s.Name + ": the name is in use", Remedy: "use another name, or run crabmem hub remove-source " + s.Name}
			}
			return append(h.Sources, s), h.Update(ctx, s)
		})
	}, func(s config.HubSource) { c.Say("added %s; run crabmem hub search to find resources", s.Name) })
}

// hubRemovedSource is the output of hub remove-source.
type hubRemovedSource struct {
	Name string `json:"removed"`
}

func hubRemoveSource(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "remove-source NAME",
		Short: "remove a hub",
		Long: `Remove a hub from [[hub.sources]] of config.toml, and its copy. Installed
resources stay.`,
		Example: `  crabmem hub remove-source ours`,
		Args:    exactly(1, "NAME"),
		ValidArgsFunction: completeWith(1, func(_ context.Context, found *candidates) {
			if h, err := c.hub(); err == nil {
				for _, s := range h.Sources {
					found.describe(s.Name, s.Repo)
				}
			}
		}),
	}, func(ctx context.Context, args []string) (a hubRemovedSource, err error) {
		a.Name = args[0]
		return a, c.changeSources(ctx, a.Name, func(h *hub.Hub, at int) ([]config.HubSource, error) {
			if at < 0 {
				return nil, &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Message: "no source " + display.Quoted(a.Name), Remedy: "run crabmem config get hub to list the sources"}
			}
			return slices.Delete(h.Sources, at, at+1), h.Forget(a.Name)
		})
	}, func(a hubRemovedSource) { c.Say("removed %s", a.Name) })
}
