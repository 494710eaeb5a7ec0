package main

import (
	"context"
	"fmt"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/importer"
	"crabmem/cmd/crabmem/internal/vault"
	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

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
		ValidArgsFunction: completeDirs,
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
