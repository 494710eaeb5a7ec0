package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/importer"
	"crabmem/crmem"

	"github.com/spf13/cobra"
)

// imported is the answer of import.
type imported struct {
	From     string              `json:"from"`
	DryRun   bool                `json:"dry_run"`
	Added    int                 `json:"added"`
	Replaced int                 `json:"replaced"`
	Skipped  int                 `json:"skipped"` // are there as they are
	Kept     int                 `json:"kept"`    // are there, and differ
	LeftOut  []importer.Left     `json:"left_out"`
	Told     []string            `json:"told"`      // what is left to do by hand
	Sessions []importedChat      `json:"sessions"`  // of an export of conversations
	Conflict []importer.Conflict `json:"conflicts"` // under an error's details; else empty
}

func (c *app) importCommand() *cobra.Command {
	var replace, skip, dry bool
	var from string
	cmd := &cobra.Command{
		Use:     "import PATH|-",
		GroupID: groupMove,
		Short:   "add the entries that export wrote, or what another program keeps",
		Long: `Take in what is in a file or a directory. What it is, is told by what is in it,
and said; --from says it instead:

  crabmem       one line of JSON an entry, as crabmem export writes them
  rfc0038       a directory with entries/*.md, MEMORY.md and Crab.md beside
  basic-memory  a directory of Markdown with front matter
  memory-json   the file of the reference memory server
  mem0          a list of memories in JSON
  chatgpt       conversations.json of an export, or its archive
  claude        the same of Claude

Notes are added all or none, with the times that the source has. Importing twice
is importing once. An entry that is there already is skipped. One of the same
name that differs is exit code 4 and nothing is written, unless --replace takes
the new one or --skip keeps the old one. What is left out, or not taken as it
stands, is counted and named.

Of crabmem only "name" is required: a missing kind is note, a missing created_at
is now; the id is kept if it is still free above the others or the store is
empty. A line that is wrong is exit code 1, with its number. Of memory-json each
entity becomes a note of its name, with its observations and the relations that
start there, as crabmem mcp --compat reference keeps them.

The notes of rfc0038, basic-memory and mem0 end in a line that says where they
came from:

  Imported from basic-memory: "brain/coffee.md" (0f3c5a7d9b1e2468)

By it a note is known again, whatever its name is by then. One whose source has
changed is replaced; one that was changed here too is a conflict, as above. An
entry of rfc0038 is its description and its content; Crab.md is no memory, and
is pointed at. A page of basic-memory is its text as it is, its permalink and
tags are aliases, and the rest of the front matter stands below. A memory of
mem0 has no name: its first words are it.

Conversations become sessions that can be shown, searched and exported, and are
never written to (see crabmem sessions import): of ChatGPT's the branch that
ends in the current message.`,
		Example: `  crabmem export > memory.jsonl && crabmem import memory.jsonl
  crabmem --db copy.db import memory.jsonl
  echo '{"name":"coffee","content":"black, 93 °C"}' | crabmem import - --dry-run
  echo '[{"id":"7","memory":"Likes tea","user_id":"ada"}]' | crabmem import --from mem0 -
  echo '{"type":"entity","name":"Ada","entityType":"person","observations":[]}' | crabmem import -`,
		Args: exactly(1, "PATH (or -)"),
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "take the new entry where one of its name differs")
	cmd.Flags().BoolVar(&skip, "skip", false, "keep the old entry where one of its name differs")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be done, and change nothing")
	cmd.Flags().StringVar(&from, "from", "", "what `kind` of source it is; without it, what it looks like")
	completeWords(cmd, "from", importer.Kinds...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := atMostOne(cmd, "replace", "skip"); err != nil {
			return err
		}
		if from != "" && !slices.Contains(importer.Kinds, from) {
			return cli.Usagef("--from %q: want %s", from, strings.Join(importer.Kinds, ", "))
		}
		in := &importer.Source{FS: c.fs, Path: args[0], Kind: from}
		if err := c.detectSource(cmd.Context(), in); err != nil {
			return err
		}
		if from == "" && in.Kind != importer.Crabmem {
			c.Say("%s looks like %s", cli.Printable(inputName(args[0])), in.Kind)
		}
		mode := importer.Refuse
		switch {
		case replace:
			mode = importer.Replace
		case skip:
			mode = importer.Keep
		}
		a := &imported{From: in.Kind, DryRun: dry, LeftOut: []importer.Left{}, Told: []string{}, Sessions: []importedChat{}, Conflict: []importer.Conflict{}}
		var err error
		switch {
		case importer.IsChats(in.Kind):
			err = c.importChats(cmd.Context(), in, a)
		case importer.IsTree(in.Kind), in.Kind == importer.Mem0:
			err = c.importMemory(cmd.Context(), in, mode, a)
		default:
			err = c.importEntries(cmd.Context(), in, mode, a)
		}
		if err != nil {
			return err
		}
		c.importedLeft(a)
		if c.JSON {
			return c.PrintJSON(a)
		}
		verb := "imported"
		if dry {
			verb = "would import"
		}
		what := cli.Plural(a.Added, "entry", "entries")
		if importer.IsChats(in.Kind) {
			what = cli.Plural(a.Added, "session", "sessions")
		}
		c.Say("%s %s, replaced %d, skipped %d equal, kept %d that differ", verb, what, a.Replaced, a.Skipped, a.Kept)
		return nil
	}
	return cmd
}

// importEntries imports entries, a line each.
func (c *app) importEntries(ctx context.Context, in *importer.Source, mode importer.Mode, a *imported) error {
	var lines []importer.Line
	err := c.readSource(ctx, in, func() (err error) {
		var warnings []string
		lines, warnings, err = in.Lines()
		for _, w := range warnings {
			c.Warn(inputName(in.Path) + ": " + w)
		}
		return err
	})
	if err != nil {
		return sourceError(in, err)
	}
	var p *importer.Plan
	err = c.planned(ctx, a.DryRun, func(s *crmem.Store) ([]crmem.Op, error) {
		if p, err = importer.PlanLines(s, lines, mode, c.now()); err != nil {
			return nil, &cli.Failure{Code: cli.ExitConflict, Kind: "exists", Path: s.Path(), Err: err, Message: err.Error() + "; nothing was written",
				Remedy: "--replace takes the new entries, --skip keeps the old ones"}
		}
		return p.Ops, nil
	})
	if errors.Is(err, crmem.ErrInvalid) {
		return invalidLine(in.Path, lines, err)
	}
	if err == nil {
		a.Added, a.Replaced, a.Skipped, a.Kept = p.Added, p.Replaced, p.Skipped, p.Kept
	}
	return err
}

// planned plans operations with the store as it is and, unless it is a dry run,
// applies them.
func (c *app) planned(ctx context.Context, dry bool, plan func(*crmem.Store) ([]crmem.Op, error)) error {
	if dry {
		only := func(s *crmem.Store) error {
			ops, err := plan(s)
			if err == nil {
				err = crmem.Valid(ops...)
			}
			return err
		}
		err := c.read(only)
		if errors.Is(err, crmem.ErrNoStore) {
			err = only(crmem.New(nil))
		}
		return err
	}
	return c.write(ctx, "import", true, func(s *writer) error {
		files, err := s.Files()
		var ops []crmem.Op
		if err == nil {
			ops, err = plan(files)
		}
		if err != nil || len(ops) == 0 {
			return err
		}
		return c.Busy("importing", func() error { return s.Apply(ops...) })
	})
}

// invalidLine is the error for the first line that no store takes.
func invalidLine(file string, lines []importer.Line, err error) error {
	at := inputName(file)
	if n, lineErr := importer.FirstInvalid(lines); n > 0 {
		at, err = fmt.Sprintf("%s: line %d", at, n), lineErr
	}
	return &cli.Failure{Code: cli.ExitFailure, Kind: "invalid", Message: at + ": " + err.Error(), Path: file,
		Remedy: "mend the line; nothing was written", Err: err}
}

func inputName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}
