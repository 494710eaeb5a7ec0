package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/importer"
	"crabmem/cmd/crabmem/internal/vault"
	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func dumpCommand(c *app) *cobra.Command {
	var force, dry bool
	cmd := &cobra.Command{
		Use:     "dump DIR",
		GroupID: groupMove,
		Short:   "write the store as Markdown pages",
		Long: `Write each entry to a page under DIR/notes or DIR/archives. Write SUMMARY.md
and, if they are missing, book.toml and crabmem.css, so that mdBook can build
DIR. dump never changes an existing book.toml; to use the style, add
additional-css = ["crabmem.css"] to [output.html]. crabmem load reads the pages
back byte for byte. dump writes only pages that differ.

dump overwrites and deletes only pages that this store dumped or loaded. It
lists edited pages and other files and exits with 4. Use crabmem load --merge to
load the edits, or --force to move the files aside. mdBook renders page content
as is, including HTML.

Several stores can share DIR, for example with git: on each machine, run crabmem
load --merge DIR after git pull, and crabmem dump DIR before git commit.`,
		Example: `  crabmem dump book --dry-run
  crabmem dump book
  crabmem dump book --json`,
		Args:              oneDir,
		ValidArgsFunction: completeFirst(cobra.ShellCompDirectiveFilterDirs),
	}
	cmd.Flags().BoolVar(&force, "force", false, "move edited pages and other files aside")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the pages to write, change nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.dumpTo(args[0], "dumping", &tree.DumpOptions{Force: force, DryRun: dry})
	}
	return c.outputs(cmd, of[op.DumpAnswer]())
}

// dumpTo writes the store as a tree, and reports the changes.
func (c *app) dumpTo(dir, doing string, o *tree.DumpOptions) error {
	return c.read(func(s *crmem.Store) error {
		p := c.Progress(doing)
		defer p.End()
		o.Progress = p.Step
		r, err := tree.Dump(s, dir, o)
		p.End()
		if err != nil {
			return dumpFailure(dir, o, err)
		}
		for _, w := range r.Warnings {
			c.Warn(w)
		}
		return c.printResult(op.Dumped(r, o.DryRun), func() {
			wrote, deleted, moved := "wrote", "deleted", "moved aside"
			if o.DryRun {
				wrote, deleted, moved = "would write", "would delete", "would move aside"
				for _, n := range r.Written {
					c.Say("%s %s", wrote, display.Printable(n))
				}
				for _, n := range r.Deleted {
					c.Say("%s %s", deleted, display.Printable(n))
				}
			}
			for _, n := range r.Aside {
				c.Say("%s: %s", moved, display.Printable(n))
			}
			c.Say("%s %s, %s %d, left %d unchanged: %s", wrote, display.Plural(len(r.Written), "page", "pages"), deleted, len(r.Deleted), r.Unchanged, display.Printable(dir))
		})
	})
}

// dumpFailure returns an error of a dump, or of an export to a directory, as a failure.
func dumpFailure(dir string, o *tree.DumpOptions, err error) error {
	f := treeFailure(dir, err)
	switch {
	case strings.HasSuffix(f.Message, ", not a directory"):
		f.Remedy = "choose another path: dump creates a missing directory"
		if o.Format != nil {
			f.Remedy = "choose another path: export creates a missing directory"
		}
	case o.Format != nil && errors.Is(err, tree.ErrEdited):
		dir = errtable.ShellWord(dir)
		f.Remedy = "run crabmem import --replace " + dir + " to import the edits, or crabmem export --format " + o.Format.Name + " --force " + dir + " to move them aside"
	}
	return f
}

// treeFailure adds codes to errors of dump and load.
func treeFailure(dir string, err error) *cli.Failure {
	f := classify(err)
	if f.Path == "" {
		f.Path = dir
	}
	if e, ok := errors.AsType[*tree.Error](err); ok {
		f.Kind, f.Path, f.Remedy = "tree", e.Path, e.Remedy
		if e.Path != dir {
			f.Path = filepath.Join(dir, e.Path)
		}
		at := f.Path
		if e.Line > 0 {
			at += ":" + strconv.Itoa(e.Line)
		}
		f.Message = at + ": " + e.Msg
		if strings.HasPrefix(e.Path, "conflicts/") {
			f.Code, f.Kind = cli.ExitConflict, "conflicts"
		}
	}
	dir = errtable.ShellWord(dir)
	switch {
	case errors.Is(err, tree.ErrEdited):
		f.Code, f.Kind, f.Remedy = cli.ExitConflict, "edited", "run crabmem load --merge "+dir+" to load the edits, or crabmem dump --force "+dir+" to move them aside"
	case errors.Is(err, tree.ErrChanged):
		f.Code, f.Kind, f.Remedy = cli.ExitConflict, "changed", "run crabmem load --merge "+dir+" to keep both changes, or crabmem load --replace "+dir+" to replace the store"
	}
	return f
}

// oneDir requires one argument, which must not be "-" or empty.
func oneDir(cmd *cobra.Command, args []string) error {
	if err := exactly(1, "DIR")(cmd, args); err != nil {
		return err
	}
	switch args[0] {
	case "":
		return wrongArgs(cmd, "DIR is empty")
	case "-":
		return &cli.Failure{Code: cli.ExitUsage, Kind: "usage", Message: "open tree \"-\": not a directory",
			Remedy: "use crabmem export or crabmem import - for standard streams, or ./- for a directory of that name"}
	}
	return nil
}

// jsonLines is the default format of export.
const jsonLines = "jsonl"

func exportCommand(c *app) *cobra.Command {
	var format string
	var force, dry bool
	cmd := &cobra.Command{
		Use:     "export [DIR]",
		GroupID: groupMove,
		Short:   "write each entry as a JSON line or a note",
		Long: `Write each entry as one JSON line to standard output, in order of ID:
{"id":…,"name":…,"kind":"note"|"archive","created_at":…,"content":…,
"aliases":[…]}. The output is a consistent copy, even during writes. crabmem
import reads it back.

--format obsidian writes each entry to a note in DIR, a vault of Obsidian. Front
matter is first: the entry's metadata, its aliases, and properties of crabmem,
from which crabmem import DIR restores the entry byte for byte. Links to other
names become links to the file. export ignores other files in DIR, and writes
only notes that differ. It overwrites and deletes only notes that it wrote. If
such a note was edited, it changes nothing and exits with 4: use crabmem import
--replace DIR to import the edits, or --force to move the notes aside.`,
		Example: `  crabmem export > memory.jsonl
  crabmem export | grep -c '"kind":"archive"'
  crabmem export --format obsidian vault && crabmem import vault --dry-run`,
		ValidArgsFunction: completeFirst(cobra.ShellCompDirectiveFilterDirs),
	}
	cmd.Flags().StringVar(&format, "format", jsonLines, "write this `format`: "+jsonLines+" or "+vault.Name)
	completeWords(cmd, "format", jsonLines, vault.Name)
	cmd.Flags().BoolVar(&force, "force", false, "move edited notes and other files aside")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the notes to write, change nothing")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case format == vault.Name:
			return oneDir(cmd, args)
		case format != jsonLines:
			return cli.Usagef("--format %q: want %s or %s", format, jsonLines, vault.Name)
		case force || dry:
			return cli.Usagef("--force and --dry-run need --format %s", vault.Name)
		case len(args) > 1 || len(args) == 1 && args[0] != "-":
			return &cli.Failure{Code: cli.ExitUsage, Kind: "usage", Message: fmt.Sprintf("unexpected argument %q", args[0]),
				Remedy: "crabmem export > " + errtable.ShellWord(args[0])}
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if format == vault.Name {
			return c.dumpTo(args[0], "exporting", &tree.DumpOptions{Force: force, DryRun: dry, Format: vault.Format()})
		}
		return c.exportEntries(cmd.Context())
	}
	return c.outputs(cmd, of[importer.EntryLine](), of[op.DumpAnswer]())
}

// exportEntries prints each entry as a JSON line.
func (c *app) exportEntries(ctx context.Context) error {
	return c.read(func(s *crmem.Store) error {
		for e := range s.All() {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := c.PrintJSON(importer.NewEntryLine(&e)); err != nil {
				return err
			}
		}
		return nil
	})
}
