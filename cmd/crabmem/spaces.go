package main

import (
	"context"
	"path/filepath"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
	"crabmem/daemon/gateway"
	"crabmem/daemon/space"

	"github.com/spf13/cobra"
)

// checkSpace checks --space for a command.
func (c *app) checkSpace(cmd *cobra.Command) error {
	if err := atMostOne(cmd, "space", "db"); err != nil {
		return err
	}
	label := c.space
	c.space = space.Named(c.fs, c.absHome(), label)
	if err := space.Check(c.space); err != nil {
		return cli.Usagef("--space: %v", err)
	}
	return space.Relabel(space.Exists(c.fs, c.absHome(), c.space), c.space, label)
}

// spaceLabel returns a space as people read it.
func (c *app) spaceLabel(name string) string {
	label, _ := gateway.Owners(c.fs, c.absHome()).Describe(name)
	return label
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
trusted sender of another service has its own space: that of the key NAME is
api:NAME. A write creates no other space.`,
		Example: `  crabmem spaces create team
  crabmem spaces list`,
	}, spacesList(c), spacesCreate(c), spacesRename(c), spacesRemove(c), spacesAdopt(c))
}

// spacesHome returns the spaces of the home.
func (c *app) spacesHome(command string) *space.Home {
	return &space.Home{FS: c.fs, Path: c.absHome(), Command: "crabmem spaces " + command, Wait: c.lockWait, Warn: c.Warn}
}

// spaceInfo is a space in the output of spaces list --json.
type spaceInfo struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"` // of the snapshot and the log
}

func spacesList(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "list",
		Short: "list the spaces",
		Long: `List the spaces of the home: main, then the others by name, each with the size
of its snapshot and log, and its path. The space of the key NAME is api:NAME,
also after the key is removed; that of another sender begins with sender:.
--space and the other commands accept these names. --json has the names of the
directories. list takes no lock.`,
		Example: `  crabmem spaces list
  crabmem spaces list --json`,
	}, func(context.Context, []string) (a spaceList, err error) {
		home := c.absHome()
		names, err := space.Names(c.fs, home)
		a.Spaces = make([]spaceInfo, len(names))
		for i, name := range names {
			s := spaceInfo{Name: name, Path: space.File(home, name)}
			s.Bytes = c.fileSize(s.Path) + c.fileSize(s.Path+"-wal")
			a.Spaces[i] = s
		}
		return a, err
	}, func(a spaceList) {
		rows, owners := [][]string{{"NAME", "SIZE", "PATH"}}, gateway.Owners(c.fs, c.absHome())
		for _, s := range a.Spaces {
			name, path := s.Name, s.Path
			if label, owner := owners.Describe(name); owner != "" {
				name, path = label, "("+owner+")"
			}
			rows = append(rows, []string{name, display.Size(s.Bytes), display.Printable(path)})
		}
		c.Table(c.Out, rows, "")
	})
}

func spacesCreate(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "create NAME",
		Short: "create an empty space",
		Long: `Create the space NAME. If it exists, the exit code is 4. [memory] max_spaces in
config.toml limits the number of spaces; the default is 1000, without main.`,
		Example:           `  crabmem spaces create team`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}, func(_ context.Context, args []string) (createdSpace, error) {
		h := c.spacesHome("create")
		conf, err := c.loadStructure()
		if err != nil {
			return createdSpace{}, err
		}
		if err := h.Create(args[0], conf.MaxSpaces); err != nil {
			return createdSpace{}, err
		}
		_, err = vfs.MakePrivate(h.Path)
		return createdSpace{args[0], space.File(h.Path, args[0])}, err
	}, func(s createdSpace) { c.Say("created %s", s.Created) })
}

func spacesRename(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "rename NAME NEW",
		Short: "rename a space",
		Long: `Rename the space NAME to NEW. rename writes the log of the space into its
snapshot, and then renames the directory. If another process has the space
open, rename changes nothing, names the process, and exits with 4; a daemon
keeps the spaces open that it used. If NEW exists, the exit code is 4; if NAME
does not, it is 3. rename does not change config.toml.`,
		Example:           `  crabmem spaces create team && crabmem spaces rename team crew`,
		Args:              exactly(2, "NAME and NEW"),
		ValidArgsFunction: completeSpaces(c),
	}, func(_ context.Context, args []string) (renamedSpace, error) {
		h := c.spacesHome("rename")
		from, to := space.Named(c.fs, h.Path, args[0]), args[1]
		if strings.Contains(to, ":") {
			to = space.Named(c.fs, h.Path, to)
		}
		return renamedSpace{space.File(h.Path, to), from, to}, space.Relabel(space.Relabel(h.Rename(from, to), from, args[0]), to, args[1])
	}, func(s renamedSpace) { c.Say("renamed %s to %s", c.spaceLabel(s.Renamed), c.spaceLabel(s.To)) })
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
		ValidArgsFunction: completeSpaces(c),
	}
	cmd.Flags().BoolVar(&force, "force", false, "also remove a space that has entries")
	return resultCommand(c, cmd, func(_ context.Context, args []string) (removedSpace, error) {
		h := c.spacesHome("rm")
		name := space.Named(c.fs, h.Path, args[0])
		entries, err := h.Remove(name, force)
		return removedSpace{entries, name}, space.Relabel(err, name, args[0])
	}, func(s removedSpace) {
		c.Say("removed %s, %s", c.spaceLabel(s.Removed), display.Plural(s.Entries, "entry", "entries"))
	})
}

func spacesAdopt(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
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
		ValidArgsFunction: completeFirst(cobra.ShellCompDirectiveDefault),
	}, func(_ context.Context, args []string) (s adoptedSpace, err error) {
		h := c.spacesHome("adopt")
		conf, err := c.loadStructure()
		if err != nil {
			return s, err
		}
		file, err := filepath.Abs(args[0])
		if err != nil {
			return s, err
		}
		s.Adopted, s.Path = args[1], space.File(h.Path, args[1])
		s.Entries, s.Kept, err = h.Adopt(file, args[1], conf.MaxSpaces)
		return s, c.about(file, err)
	}, func(s adoptedSpace) {
		c.Say("adopted %s, %s; the old file is %s", s.Adopted, display.Plural(s.Entries, "entry", "entries"), display.Printable(s.Kept))
	})
}

// completeSpaces completes the name of a space, without main.
func completeSpaces(c *app) cobra.CompletionFunc {
	return completeWith(1, func(_ context.Context, found *candidates) {
		all, _ := space.Names(c.fs, c.absHome()) // an unreadable home has no names
		owners := gateway.Owners(c.fs, c.absHome())
		for _, name := range all[min(1, len(all)):] {
			label, _ := owners.Describe(name)
			found.add(label)
		}
	})
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
