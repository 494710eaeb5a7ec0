package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func loadCommand(c *app) *cobra.Command {
	var merge, replace, dry bool
	var accept []string
	cmd := &cobra.Command{
		Use:     "load DIR",
		GroupID: groupMove,
		Short:   "load a tree of Markdown pages",
		Long: `Validate the pages under DIR/notes and DIR/archives, then replace the store with
them atomically. load removes entries that have no page. An entry that keeps its
name keeps its ID and, unless you edited the date, its creation time.

If the store changed since its last dump or load of DIR, load changes nothing
and exits with 4. --merge applies the changes of DIR since then and keeps the
store's. If both changed an entry, the store keeps its text, load copies that
text to DIR/conflicts, and the exit code is 4. At the first exchange with DIR,
--merge removes no entry. --replace replaces the store even if it changed.

load refuses a page that a program seems to have damaged since the last
exchange: empty, cut within a line, without its metadata block, or with new
conflict markers. It also refuses placeholders of cloud drives. Conflict copies
of sync programs are listed and ignored. --accept FILE loads such a page as it
is, such as --accept notes/deploy.md.`,
		Example: `  crabmem dump book && crabmem load book --dry-run
  crabmem load book
  crabmem load book --merge --json`,
		Args:              oneDir,
		ValidArgsFunction: completeFirst(cobra.ShellCompDirectiveFilterDirs),
	}
	cmd.Flags().BoolVar(&merge, "merge", false, "merge with the changes of the store")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace the store, even if it changed")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the changes, change nothing")
	cmd.Flags().StringArrayVar(&accept, "accept", nil, "load this page `file` although it looks damaged; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := atMostOne(cmd, "merge", "replace"); err != nil {
			return err
		}
		dir := args[0]
		var r *op.LoadAnswer
		in := op.TreeLoad{Dir: dir, Merge: merge, Guard: !replace && !merge, DryRun: dry, Accept: pagePaths(dir, accept)}
		load := func(s op.Memory) error {
			p := c.Progress("loading " + dir)
			return p.During(func() error {
				return op.LoadTree.Each(cmd.Context(), s, in, func(part op.LoadPart) error {
					switch r = part.Report; {
					case part.Total > 0:
						p.Step(part.Done, part.Total)
					case r == nil:
						p.Clear()
						return c.announce(part.Removes, dry)
					}
					return nil
				})
			})
		}
		var err error
		if dry {
			err = c.read(func(s *crmem.Store) error { return load(op.Store{Store: s}) })
			if errors.Is(err, crmem.ErrNoStore) {
				err = load(op.Store{Store: crmem.New(&crmem.Options{FS: c.fs, Now: c.now})})
			}
		} else {
			err = c.write(cmd.Context(), "load", true, load)
		}
		if err != nil {
			return treeFailure(dir, err)
		}
		for _, w := range r.Warnings {
			c.Warn(w)
		}
		if c.JSON && len(r.Conflicts) == 0 {
			return c.PrintJSON(r)
		}
		verb := onDry(dry, "would load", "loaded")
		c.Say("%s %s: added %d, changed %d, removed %d, kept %d", verb, display.Plural(r.Pages, "page", "pages"),
			len(r.Added), len(r.Changed), len(r.Removed), r.Kept)
		if len(r.Conflicts) == 0 {
			return nil
		}
		for _, k := range r.Conflicts {
			c.Say("conflict: %s: the tree's text is %s, the store's %s", display.Label(k.Name), display.Printable(k.Page), display.Printable(k.File))
		}
		return &cli.Failure{Code: cli.ExitConflict, Kind: "conflicts", Path: dir, More: *r,
			Message: fmt.Sprintf("load tree: %s in conflict; the store kept its text and copied it to conflicts/", display.Plural(len(r.Conflicts), "entry", "entries")),
			Remedy:  "edit each page, remove its file under conflicts/, then load again"}
	}
	return c.outputs(cmd, of[op.LoadAnswer]())
}

// pagePaths returns paths of pages relative to a tree, with slashes. A path is relative to
// the tree, or begins with the path of the tree.
func pagePaths(dir string, files []string) []string {
	var paths []string
	for _, file := range files {
		if rel, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(rel) {
			file = rel
		}
		paths = append(paths, filepath.ToSlash(filepath.Clean(file)))
	}
	return paths
}

// announce prints the entries that a load will remove.
func (c *app) announce(names []string, dry bool) error {
	verb := onDry(dry, "would remove", "removes")
	for _, n := range names {
		c.Say("%s %s", verb, display.Label(n))
	}
	return c.Out.Flush()
}
