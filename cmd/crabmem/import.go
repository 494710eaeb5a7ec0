package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/importer"
	"crabmem/crmem"
	"crabmem/sessionlog/foreign"

	"github.com/spf13/cobra"
)

// What import reads at most: the store is in memory as a whole, and JSON is at
// most a few times its size. A line holds one entry, each byte of it as an
// escape of six.
const (
	maxImport     = 4 << 30
	maxImportLine = 6*(crmem.MaxContent+2<<20) + 1<<16
)

// importKinds are the formats that import reads.
var importKinds = []string{importer.Crabmem, importer.RFC0038, importer.BasicMemory, importer.MemoryJSON, importer.Mem0, importer.ChatGPT, importer.Claude}

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
	completeWords(cmd, "from", importKinds...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := atMostOne(cmd, "replace", "skip"); err != nil {
			return err
		}
		if from != "" && !slices.Contains(importKinds, from) {
			return usagef("--from %q: want %s", from, strings.Join(importKinds, ", "))
		}
		in := &importSource{c: c, path: args[0], kind: from}
		if err := in.find(cmd.Context()); err != nil {
			return err
		}
		if from == "" && in.kind != importer.Crabmem {
			c.say("%s looks like %s", cli.Printable(inputName(args[0])), in.kind)
		}
		a := &imported{From: in.kind, DryRun: dry, LeftOut: []importer.Left{}, Told: []string{}, Sessions: []importedChat{}, Conflict: []importer.Conflict{}}
		var err error
		switch {
		case importer.IsChats(in.kind):
			err = c.importChats(cmd.Context(), in, a)
		case importer.IsTree(in.kind), in.kind == importer.Mem0:
			err = c.importMemory(cmd.Context(), in, replace, skip, a)
		default:
			err = c.importEntries(cmd.Context(), in, replace, skip, a)
		}
		if err != nil {
			return err
		}
		c.importedLeft(a)
		if c.json {
			return c.printJSON(a)
		}
		verb := "imported"
		if dry {
			verb = "would import"
		}
		what := cli.Plural(a.Added, "entry", "entries")
		if importer.IsChats(in.kind) {
			what = cli.Plural(a.Added, "session", "sessions")
		}
		c.say("%s %s, replaced %d, skipped %d equal, kept %d that differ", verb, what, a.Replaced, a.Skipped, a.Kept)
		return nil
	}
	return cmd
}

// importEntries imports entries, a line each.
func (c *app) importEntries(ctx context.Context, in *importSource, replace, skip bool, a *imported) error {
	lines, err := in.lines(ctx)
	if err != nil {
		return err
	}
	var p importPlan
	err = c.planned(ctx, a.DryRun, func(s *crmem.Store) ([]crmem.Op, error) {
		p = importPlan{replace: replace, skip: skip, now: uint64(max(c.now().Unix(), 0))}
		err := p.make(s, lines)
		return p.ops, err
	})
	if errors.Is(err, crmem.ErrInvalid) {
		return invalidLine(in.path, lines, err)
	}
	a.Added, a.Replaced, a.Skipped, a.Kept = p.added, p.replaced, p.skipped, p.kept
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
		return c.busy("importing", func() error { return s.Apply(ops...) })
	})
}

// invalidLine says which line a store does not take: the first that an empty
// one refuses too.
func invalidLine(file string, lines []importLine, err error) error {
	at := inputName(file)
	for _, l := range lines {
		if e := crmem.New(nil).Apply(crmem.Restore{Entry: l.entry}); errors.Is(e, crmem.ErrInvalid) {
			at, err = fmt.Sprintf("%s: line %d", at, l.number), e
			break
		}
	}
	return &failure{Code: exitFailure, Kind: "invalid", Message: at + ": " + err.Error(), Path: file,
		Remedy: "mend the line; nothing was written", err: err}
}

func inputName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// importLine is one line of the input.
type importLine struct {
	number int
	entry  crmem.Entry
	timed  bool // it says when it was created
}

// readImport reads lines until one is wrong: what is no export ends soon.
func readImport(file string, r io.Reader) ([]importLine, error) {
	var lines []importLine
	n, size := 0, int64(0)
	wrong := func(err error) error {
		return &failure{Code: exitFailure, Kind: "import", Message: fmt.Sprintf("%s: line %d: %v", inputName(file), n, err), Path: file,
			Remedy: "mend the line; nothing was written", err: err}
	}
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 1<<16), maxImportLine)
	for in.Scan() {
		n++
		line := in.Text()
		if size += int64(len(line)); size > maxImport {
			return nil, wrong(fmt.Errorf("with it there are more than the %s that are allowed", cli.Size(maxImport)))
		}
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		l, err := parseImportLine(line)
		if err != nil {
			return nil, wrong(err)
		}
		l.number = n
		lines = append(lines, l)
	}
	if n++; errors.Is(in.Err(), bufio.ErrTooLong) {
		return nil, wrong(fmt.Errorf("more than the %s that an entry can take", cli.Size(maxImportLine)))
	}
	return lines, in.Err()
}

// jsonWant says what the fields of a line hold.
var jsonWant = map[string]string{
	"id": "a whole number", "created_at": "a whole number of seconds since 1970", "name": "a string", "kind": "a string",
	"content": "a string", "aliases": "an array of strings",
}

func parseImportLine(line string) (importLine, error) {
	var l importLine
	if !utf8.ValidString(line) {
		return l, errors.New("invalid UTF-8")
	}
	if i := foreign.LoneSurrogate(line); i >= 0 {
		return l, fmt.Errorf("half of a surrogate pair at byte %d has no UTF-8", i)
	}
	var v struct {
		ID        uint64      `json:"id"`
		Name      *string     `json:"name"`
		Kind      *crmem.Kind `json:"kind"`
		CreatedAt *uint64     `json:"created_at"`
		Content   string      `json:"content"`
		Aliases   []string    `json:"aliases"`
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(line)))
	if err := dec.Decode(&v); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field == "" {
			return l, fmt.Errorf("a JSON %s, want an object", e.Value)
		} else if ok {
			return l, fmt.Errorf("%q is a JSON %s, want %s", e.Field, e.Value, jsonWant[e.Field])
		}
		return l, err
	}
	if dec.More() {
		return l, errors.New("more than one value")
	}
	if v.Name == nil {
		return l, errors.New(`no "name"`)
	}
	l.entry = crmem.Entry{ID: v.ID, Name: *v.Name, Content: v.Content, Aliases: v.Aliases}
	if v.Kind != nil {
		l.entry.Kind = *v.Kind
	}
	if v.CreatedAt != nil {
		l.entry.CreatedAt, l.timed = *v.CreatedAt, true
	}
	return l, nil
}

// importPlan turns lines into the operations of one batch.
type importPlan struct {
	replace, skip bool
	now           uint64

	ops                            []crmem.Op
	added, replaced, skipped, kept int
}

func (p *importPlan) make(s *crmem.Store, lines []importLine) error {
	// What a name will hold when the operations so far are done.
	staged := make(map[string]crmem.Entry)
	for e := range s.All() {
		staged[e.Name] = e
	}
	lineOf := make(map[string]int)
	for _, l := range lines {
		e := l.entry
		old, exists := staged[e.Name]
		if !l.timed {
			e.CreatedAt = p.now
			if exists {
				e.CreatedAt = old.CreatedAt
			}
		}
		same := e
		same.ID = old.ID // an id may have to change on its way
		switch {
		case !exists:
			p.added++
			p.ops = append(p.ops, crmem.Restore{Entry: e})
		case old.Equal(same):
			p.skipped++
			continue
		case p.skip:
			p.kept++
			continue
		case !p.replace:
			who := "the store"
			if n := lineOf[e.Name]; n > 0 {
				who = fmt.Sprintf("line %d", n)
			}
			return &failure{Code: exitConflict, Kind: "exists", Path: s.Path(), err: crmem.ErrExists,
				Message: fmt.Sprintf("line %d: %s has another %s; nothing was written", l.number, who, cli.Quoted(e.Name)),
				Remedy:  "--replace takes the new entries, --skip keeps the old ones"}
		case old.Kind == e.Kind && old.CreatedAt == e.CreatedAt:
			p.replaced++
			p.ops = append(p.ops, crmem.Update{Name: e.Name, Content: e.Content, Aliases: e.Aliases})
		default:
			// Kind and time of an entry never change: this is another one.
			p.replaced++
			p.ops = append(p.ops, crmem.Remove{Name: e.Name}, crmem.Restore{Entry: e})
		}
		staged[e.Name], lineOf[e.Name] = e, l.number
	}
	return nil
}
