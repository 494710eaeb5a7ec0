package main

import (
	"path/filepath"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/space"

	"github.com/spf13/cobra"
)

// spaceCommands are the commands that open the store, and so accept --space.
var spaceCommands = []string{
	"alias", "append", "checkpoint", "diff", "dump", "edit", "export", "forget", "graph", "identity", "import", "inspect", "links", "lint", "list", "load", "log",
	"mcp", "metadata", "prune", "recall", "remember", "rename", "repair", "restore", "show", "stats", "undo", "verify",
}

// checkSpace checks --space for a command.
func (c *app) checkSpace(cmd *cobra.Command) error {
	top := cmd
	for top.HasParent() && top.Parent().HasParent() {
		top = top.Parent()
	}
	if !slices.Contains(spaceCommands, top.Name()) || top != cmd && top.Name() == "mcp" {
		return cli.Usagef("%s does not use --space: remove it", cmd.CommandPath())
	}
	if err := atMostOne(cmd, "space", "db"); err != nil {
		return err
	}
	if err := space.Check(c.space); err != nil {
		return cli.Usagef("--space: %v", err)
	}
	return nil
}

func spacesCommand(c *app) *cobra.Command {
	return family(&cobra.Command{
		Use:     "spaces COMMAND",
		GroupID: groupCare,
		Short:   "manage separate stores of the home",
		Long: `A space is a separate store. The space main is memory.db in the home
directory; the space NAME is spaces/NAME/memory.db. No search, score, or
spelling correction of one space depends on another. NAME has 1 to 64 of the
characters a to z, 0 to 9, and "-", and does not begin with "-". Names of
devices on Windows are refused.

Commands that open the store use a space with --space NAME. An agent writes the
space memory and also reads the spaces memory_read of its configuration. A
trusted sender of another service has its own space, whose name begins with
sender-. A write creates no other space.`,
		Example: `  crabmem spaces create team
  crabmem spaces list`,
	}, spacesList(c), spacesCreate(c), spacesRename(c), spacesRemove(c), spacesAdopt(c))
}

// spacesHome returns the spaces of the home.
func (c *app) spacesHome(command string) (*space.Home, error) {
	home, err := c.absHome()
	return &space.Home{FS: c.fs, Path: home, Command: "crabmem spaces " + command, Wait: c.lockWait, Warn: c.Warn}, err
}

// spaceInfo is a space in the output of spaces list --json.
type spaceInfo struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"` // of the snapshot and the log
}

func spacesList(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list the spaces",
		Long: `List the spaces of the home: main, then the others by name, each with the size
of its snapshot and log, and its path. list takes no lock.`,
		Example: `  crabmem spaces list
  crabmem spaces list --json`,
		Args: noArgs,
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		home, err := c.absHome()
		if err != nil {
			return err
		}
		names, err := space.Names(c.fs, home)
		if err != nil {
			return err
		}
		list := make([]spaceInfo, len(names))
		rows := [][]string{{"NAME", "SIZE", "PATH"}}
		for i, name := range names {
			list[i] = spaceInfo{Name: name, Path: space.File(home, name)}
			for _, suffix := range []string{"", "-wal"} {
				if fi, err := c.fs.Lstat(list[i].Path + suffix); err == nil {
					list[i].Bytes += fi.Size()
				}
			}
			rows = append(rows, []string{name, display.Size(list[i].Bytes), display.Printable(list[i].Path)})
		}
		if c.JSON {
			return c.PrintJSON(spaceList{list})
		}
		c.Table(c.Out, rows, "")
		return nil
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

func spacesCreate(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "create an empty space",
		Long: `Create the space NAME. If it exists, the exit code is 4. [memory] max_spaces in
config.toml limits the number of spaces; the default is 1000, without main.`,
		Example:           `  crabmem spaces create team`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		h, err := c.spacesHome("create")
		if err != nil {
			return err
		}
		conf, err := config.LoadStructure(c.fs, h.Path, c.Getenv)
		if err != nil {
			return err
		}
		if err := h.Create(args[0], conf.MaxSpaces); err != nil {
			return err
		}
		if _, err := vfs.MakePrivate(h.Path); err != nil {
			return err
		}
		if c.JSON {
			return c.PrintJSON(createdSpace{args[0], space.File(h.Path, args[0])})
		}
		c.Say("created %s", args[0])
		return nil
	}
	return cmd
}

func spacesRename(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rename NAME NEW",
		Short: "rename a space",
		Long: `Rename the space NAME to NEW. rename writes the log of the space into its
snapshot, and then renames the directory. If another process has the space
open, rename changes nothing, names the process, and exits with 4; a daemon
keeps the spaces open that it used. If NEW exists, the exit code is 4; if NAME
does not, it is 3. rename does not change config.toml.`,
		Example:           `  crabmem spaces create team && crabmem spaces rename team crew`,
		Args:              exactly(2, "NAME and NEW"),
		ValidArgsFunction: c.completeSpaces,
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		h, err := c.spacesHome("rename")
		if err == nil {
			err = h.Rename(args[0], args[1])
		}
		if err != nil {
			return err
		}
		if c.JSON {
			return c.PrintJSON(renamedSpace{space.File(h.Path, args[1]), args[0], args[1]})
		}
		c.Say("renamed %s to %s", args[0], args[1])
		return nil
	}
	return cmd
}

func spacesRemove(c *app) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "remove a space",
		Long: `Remove the space NAME and its files. If it has entries, rm changes nothing and
exits with 4, unless --force is set. If another process has the space open, rm
changes nothing, names the process, and exits with 4; a daemon keeps the spaces
open that it used. If there is no such space, the exit code is 3. rm cannot be
undone, and does not change config.toml.`,
		Example:           `  crabmem spaces create draft && crabmem spaces rm draft`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: c.completeSpaces,
	}
	cmd.Flags().BoolVar(&force, "force", false, "also remove a space that has entries")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		h, err := c.spacesHome("rm")
		if err != nil {
			return err
		}
		entries, err := h.Remove(args[0], force)
		if err != nil {
			return err
		}
		if c.JSON {
			return c.PrintJSON(removedSpace{entries, args[0]})
		}
		c.Say("removed %s, %s", args[0], display.Plural(entries, "entry", "entries"))
		return nil
	}
	return cmd
}

func spacesAdopt(c *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adopt FILE NAME",
		Short: "make another store a space",
		Long: `Make the store FILE the space NAME: for example, a store that crabmem mcp
--namespace FILE served. adopt copies the store to the space, and then renames
FILE to FILE.adopted. IDs and creation times stay. The copy includes the log.

If another process has FILE open, adopt changes nothing, names the process, and
exits with 4. If NAME or FILE.adopted exists, the exit code is 4; if FILE does
not exist, it is 3. After a crash, FILE, the space, or both contain all entries.`,
		Example:           `  crabmem remember a b --db work.db && crabmem spaces adopt work.db work`,
		Args:              exactly(2, "FILE and NAME"),
		ValidArgsFunction: completeFirstFile,
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		h, err := c.spacesHome("adopt")
		if err != nil {
			return err
		}
		conf, err := config.LoadStructure(c.fs, h.Path, c.Getenv)
		if err != nil {
			return err
		}
		file, err := filepath.Abs(args[0])
		if err != nil {
			return err
		}
		entries, kept, err := h.Adopt(file, args[1], conf.MaxSpaces)
		if err != nil {
			return c.about(file, err)
		}
		if c.JSON {
			return c.PrintJSON(adoptedSpace{args[1], entries, kept, space.File(h.Path, args[1])})
		}
		c.Say("adopted %s, %s; the old file is %s", args[1], display.Plural(entries, "entry", "entries"), display.Printable(kept))
		return nil
	}
	return cmd
}

// completeFirstFile completes the first argument with files.
func completeFirstFile(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeSpaces completes the name of a space, without main.
func (c *app) completeSpaces(_ *cobra.Command, args []string, toComplete string) (names []string, _ cobra.ShellCompDirective) {
	home, err := c.absHome()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _ := space.Names(c.fs, home) // an unreadable home has no names
	for _, name := range all[min(1, len(all)):] {
		if strings.HasPrefix(name, toComplete) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// The outputs of the commands under --json.
type (
	spaceList struct {
		Spaces []spaceInfo `json:"spaces"`
	}
	createdSpace struct {
		Created string `json:"created"`
		Path    string `json:"path"`
	}
	renamedSpace struct {
		Path    string `json:"path"`
		Renamed string `json:"renamed"`
		To      string `json:"to"`
	}
	removedSpace struct {
		Entries int    `json:"entries"`
		Removed string `json:"removed"`
	}
	adoptedSpace struct {
		Adopted string `json:"adopted"`
		Entries int    `json:"entries"`
		Kept    string `json:"kept"`
		Path    string `json:"path"`
	}
)
