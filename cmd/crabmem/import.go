package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/importer"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

// importFormat is one of the formats of package importer.
type importFormat string

// imported is the answer of import.
type imported struct {
	From     importFormat        `json:"from"`
	DryRun   bool                `json:"dry_run"`
	Added    int                 `json:"added"`
	Replaced int                 `json:"replaced"`
	Skipped  int                 `json:"skipped"` // are there as they are
	Kept     int                 `json:"kept"`    // exist with another content
	LeftOut  []importer.Left     `json:"left_out"`
	Manual   []string            `json:"told"`      // manual steps that remain
	Sessions []importedChat      `json:"sessions"`  // of an export of conversations
	Conflict []importer.Conflict `json:"conflicts"` // under an error's details; else empty

	allow    bool // secrets
	redacted importer.Tally
	announce func()   // prints the detected format, once
	warnings []string // about single records, before the omissions
}

func importCommand(c *app) *cobra.Command {
	var replace, skip, dry, allow bool
	var from string
	cmd := &cobra.Command{
		Use:     "import PATH|-",
		GroupID: groupMove,
		Short:   "import entries from a file or another program",
		Long: `Import a file or a directory. import detects the format; --from sets it:

  crabmem       JSON lines written by crabmem export
  rfc0038       a directory with entries/*.md, MEMORY.md, and Crab.md
  basic-memory  a directory of Markdown files with permalinks
  markdown      other Markdown: an Obsidian vault, a directory, or a page
  obsidian      a vault that crabmem export --format obsidian wrote
  memory-json   the file of the reference memory server
  mem0          a JSON list of memories
  chatgpt       conversations.json of a ChatGPT export, or the export archive
  claude        a Claude export: the archive, its directory, or one of the files
                conversations.json, memories.json, and projects.json
  transcripts   sessions of Claude Code, Codex, Gemini CLI: file or directory
  engram, claude-mem, walrus, spacebot
                a SQLite database; needs the program crabmem-sqlite

import adds all notes or none and keeps the source's creation times. It skips
entries that the store already contains. If an entry with the same name differs,
import writes nothing and exits with 4, unless --replace takes the new entry or
--skip keeps the old one. import counts and lists what it omits or changes. It
does not repeat warnings of the last import of PATH; --json lists all warnings.
If an entry contains a key or a password of a known form, import writes nothing,
unless --allow-secrets is set. In conversations, import replaces keys and
passwords by markers, and counts them.

crabmem: only "name" is required. kind defaults to note, created_at to now. An
ID is kept if it is not below the store's next ID, or if the store is empty. A
line with id and created_at, as export writes it, may exceed the limits of new
entries: it may have an empty name or alias, NUL, or a long text. For an invalid
line, import prints the line number and exits with 1.
memory-json: each entity becomes a note with its observations and its outgoing
relations, in the format of crabmem mcp --compat reference.
Notes of other programs end with a line that names their source:

  Imported from basic-memory: "brain/coffee.md" (0f3c5a7d9b1e2468)

import uses this line to match notes, even after a rename. It replaces a note
whose source changed. If the note changed too, that is a conflict, as above.
rfc0038 joins description and content; it skips Crab.md and prints what to do.
basic-memory, markdown: a note is named by its title or file name. permalink and
aliases become aliases, unless another entry uses them. Other front matter, such
as tags, becomes metadata, or else follows the page text. mem0 notes are named
by their first words.
obsidian: a page that crabmem wrote becomes the same entry, with its edits.
Another page becomes a note of the same bytes, named by its file. import neither
renames nor removes entries. A link to another name is as it was before export.
engram, claude-mem, walrus, spacebot: memories and summaries become notes.
import only reads the database, and omits prompts, deleted rows, and embeddings.
claude: each memory, each document of a project, and the text of each project
becomes a note.
chatgpt, claude, transcripts: conversations become read-only sessions; see
crabmem sessions import. For ChatGPT, import keeps the branch that ends in the
current message, without citation marks.`,
		Example: `  crabmem export > memory.jsonl && crabmem import memory.jsonl
  crabmem --db copy.db import memory.jsonl
  echo '{"name":"coffee","content":"black, 93 °C"}' | crabmem import - --dry-run
  echo '[{"id":"7","memory":"Likes tea","user_id":"ada"}]' | crabmem import --from mem0 -
  echo '{"type":"entity","name":"Ada","entityType":"person","observations":[]}' | crabmem import -`,
		Args: exactly(1, "PATH (or -)"),
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "if an entry differs, take the new one")
	cmd.Flags().BoolVar(&skip, "skip", false, "if an entry differs, keep the old one")
	allowSecretsFlag(cmd, &allow)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the changes, change nothing")
	cmd.Flags().StringVar(&from, "from", "", "import this `format` (default: detect it)")
	completeWords(cmd, "from", importer.Kinds...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := atMostOne(cmd, "replace", "skip"); err != nil {
			return err
		}
		if from != "" && !slices.Contains(importer.Kinds, from) {
			return cli.Usagef("--from %q: want %s", from, strings.Join(importer.Kinds, ", "))
		}
		mode := importer.Refuse
		switch {
		case replace:
			mode = importer.Replace
		case skip:
			mode = importer.Keep
		}
		return c.importFrom(cmd.Context(), &importer.Source{FS: c.fs, Path: args[0], Kind: from, Rows: c.sqliteRows}, mode, dry, allow)
	}
	return c.outputs(cmd, of[imported]())
}

// importFrom imports a source, whose format it detects if none is set.
func (c *app) importFrom(ctx context.Context, in *importer.Source, mode importer.Mode, dry, allow bool) error {
	detect := in.Kind == ""
	if err := c.detectSource(ctx, in); err != nil {
		return err
	}
	a := &imported{From: importFormat(in.Kind), DryRun: dry, LeftOut: []importer.Left{}, Manual: []string{}, Sessions: []importedChat{}, Conflict: []importer.Conflict{}, allow: allow}
	a.announce = sync.OnceFunc(func() {
		if detect && a.From != importer.Crabmem && a.From != importer.SQLite {
			c.Say("%s: detected format %s", display.Printable(inputName(in.Path)), a.From)
		}
	})
	var err error
	switch {
	case in.Kind == importer.Transcripts:
		err = c.importTranscriptsOf(ctx, in, a)
	case importer.IsChats(in.Kind):
		err = c.importExport(ctx, in, mode, a)
	case importer.IsTree(in.Kind), importer.IsSQLite(in.Kind), in.Kind == importer.Mem0:
		err = c.importMemory(ctx, in, mode, a)
	default:
		err = c.importEntries(ctx, in, mode, a)
	}
	if err != nil {
		a.announce()
		return err
	}
	return c.printResult(a, func() { c.reportImport(in, a) })
}

// importEntries imports entries, a line each.
func (c *app) importEntries(ctx context.Context, in *importer.Source, mode importer.Mode, a *imported) error {
	var lines []importer.Line
	err := c.readSource(ctx, in, func() (err error) {
		var warnings []string
		lines, warnings, err = in.Lines()
		for _, w := range warnings {
			a.warnings = append(a.warnings, inputName(in.Path)+": "+w)
		}
		return err
	})
	if err != nil {
		return sourceError(in, err)
	}
	if n, err := importer.FirstInvalid(lines); n > 0 {
		return invalidLine(in.Path, n, err)
	}
	if c.JSON {
		c.warnAll(a.warnings)
		for _, w := range a.warnings {
			a.LeftOut = append(a.LeftOut, importer.Left{Reason: w, Count: 1, Where: []string{}})
		}
	}
	var p *importer.Plan
	err = c.planned(ctx, a, func(s *crmem.Store) ([]crmem.Op, error) {
		if p, err = importer.PlanLines(s, lines, mode, c.now()); err != nil {
			return nil, &cli.Failure{Code: cli.ExitConflict, Kind: "exists", Path: s.Path(), Err: err, Message: err.Error() + "; nothing was written",
				Remedy: "use --replace to take the new entries or --skip to keep the old ones"}
		}
		return p.Ops, nil
	})
	if errors.Is(err, crmem.ErrInvalid) { // such as an ID that leaves no next one
		return invalidLine(in.Path, 0, err)
	}
	if err == nil {
		a.Added, a.Replaced, a.Skipped, a.Kept = p.Added, p.Replaced, p.Skipped, p.Kept
	}
	return err
}

// planned plans operations with the store as it is and, unless it is a dry run,
// applies them.
func (c *app) planned(ctx context.Context, a *imported, plan func(*crmem.Store) ([]crmem.Op, error)) error {
	g := c.guard()
	g.AllowSecrets, g.AllowEmpty = a.allow, true
	if a.DryRun {
		only := func(s *crmem.Store) error {
			ops, err := plan(s)
			if err == nil {
				ops, err = g.Ops(s, ops)
			}
			for i := 0; i < len(ops) && err == nil; i++ {
				err = ops[i].Validate()
			}
			return err
		}
		err := c.read(only)
		if errors.Is(err, crmem.ErrNoStore) {
			err = only(crmem.New(nil))
		}
		return err
	}
	return c.writeGuarded(ctx, "import", true, g, func(s op.Memory) error {
		return c.Busy("importing", func() error {
			_, err := s.Update(ctx, plan)
			return err
		})
	})
}

// invalidLine returns the error for an invalid line; its number is 0 if it is
// unknown.
func invalidLine(file string, n int, err error) error {
	at := inputName(file)
	if n > 0 {
		at = fmt.Sprintf("%s: line %d", at, n)
	}
	return &cli.Failure{Code: cli.ExitFailure, Kind: "invalid", Message: at + ": " + err.Error(), Path: file,
		Remedy: "fix the line; nothing was written", Err: err}
}

func inputName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}
