package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"crabmem/crmem"

	"github.com/spf13/cobra"
)

// What import reads at most: the store is in memory as a whole, and JSON is at
// most a few times its size. A line holds one entry, each byte of it as an
// escape of six.
const (
	maxImport     = 4 << 30
	maxImportLine = 6*(crmem.MaxContent+2<<20) + 1<<16
)

// The formats that import reads.
const (
	fromCrabmem    = "crabmem"
	fromMemoryJSON = "memory-json"
)

func (c *cli) importCommand() *cobra.Command {
	var replace, skip, dry bool
	var from string
	cmd := &cobra.Command{
		Use:     "import FILE|-",
		GroupID: groupMove,
		Short:   "add the entries that export wrote, or another program",
		Long: `Read entries, one line of JSON each as export writes them, and add them all or
none. Only "name" is required: a missing kind is note, a missing created_at is
now. The time is kept; the id is kept if it is still free above the others or
the store is empty.

An entry that is there already is skipped. One of the same name that differs is
exit code 4 and nothing is written, unless --replace takes the new one or
--skip keeps the old one. A line that is wrong is exit code 1, with its number.

--from memory-json reads the file of the reference memory server instead: each
entity becomes a note of its name, with its observations and the relations that
start there, as crabmem mcp --compat reference keeps them. Importing it again
adds nothing. What is left out, or made one of two, is said.`,
		Example: `  crabmem export > memory.jsonl && crabmem import memory.jsonl
  crabmem --db copy.db import memory.jsonl
  echo '{"name":"coffee","content":"black, 93 °C"}' | crabmem import - --dry-run
  echo '{"type":"entity","name":"Ada","entityType":"person","observations":[]}' | crabmem import --from memory-json -`,
		Args: exactly(1, "FILE (or -)"),
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "take the new entry where one of its name differs")
	cmd.Flags().BoolVar(&skip, "skip", false, "keep the old entry where one of its name differs")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be done, and change nothing")
	cmd.Flags().StringVar(&from, "from", fromCrabmem, "whose `format` it is: crabmem or memory-json")
	completeWords(cmd, "from", fromCrabmem, fromMemoryJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := atMostOne(cmd, "replace", "skip"); err != nil {
			return err
		}
		if from != fromCrabmem && from != fromMemoryJSON {
			return usagef("--from %q: want %s or %s", from, fromCrabmem, fromMemoryJSON)
		}
		lines, err := c.importLines(cmd, args[0], from)
		if err != nil {
			return err
		}
		var p importPlan
		plan := func(s *crmem.Store) error {
			p = importPlan{replace: replace, skip: skip, now: uint64(max(c.now().Unix(), 0))}
			return p.make(s, lines)
		}
		if dry {
			err = c.read(plan)
			if errors.Is(err, crmem.ErrNoStore) {
				err = plan(crmem.New(nil))
			}
		} else {
			err = c.write(cmd.Context(), "import", true, func(s *writer) error {
				files, err := s.Files()
				if err == nil {
					err = plan(files)
				}
				if err != nil || len(p.ops) == 0 {
					return err
				}
				return c.busy("importing", func() error { return s.Apply(p.ops...) })
			})
		}
		if err != nil {
			if errors.Is(err, crmem.ErrInvalid) {
				return invalidLine(args[0], lines, err)
			}
			return err
		}
		if c.json {
			return c.printJSON(map[string]any{"added": p.added, "replaced": p.replaced, "skipped": p.skipped, "kept": p.kept, "dry_run": dry})
		}
		verb := "imported"
		if dry {
			verb = "would import"
		}
		c.say("%s %s, replaced %d, skipped %d equal, kept %d that differ", verb, plural(p.added, "entry", "entries"), p.replaced, p.skipped, p.kept)
		return nil
	}
	return cmd
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

func (c *cli) importLines(cmd *cobra.Command, file, from string) (lines []importLine, err error) {
	read := func(r io.Reader) ([]importLine, error) { return readImport(file, r) }
	if from == fromMemoryJSON {
		read = func(r io.Reader) ([]importLine, error) { return readMemoryJSON(file, r, c.warn) }
	}
	if file == "-" {
		err = c.wait(cmd.Context(), func() (err error) {
			c.prompt()
			lines, err = read(c.stdin)
			return err
		})
		return lines, err
	}
	f, err := c.fs.Open(file)
	if err != nil {
		f := classify(err)
		if f.Code != exitPermission {
			f.Code, f.Kind, f.Remedy = exitFailure, "failed", "name a file that crabmem export wrote, or - for standard input"
		}
		return nil, f
	}
	lines, err = read(f)
	return lines, errors.Join(err, f.Close())
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
			return nil, wrong(fmt.Errorf("with it there are more than the %s that are allowed", sizeOf(maxImport)))
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
		return nil, wrong(fmt.Errorf("more than the %s that an entry can take", sizeOf(maxImportLine)))
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
	if i := loneSurrogate(line); i >= 0 {
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

// loneSurrogate returns where an escape names half of a surrogate pair, which
// encoding/json would silently replace; -1 if none does.
func loneSurrogate(s string) int {
	half := func(i int) (lo, ok bool) {
		if len(s)-i < 6 || s[i] != '\\' || s[i+1] != 'u' || s[i+2]|0x20 != 'd' {
			return false, false
		}
		switch s[i+3] | 0x20 {
		case '8', '9', 'a', 'b':
			return false, true
		case 'c', 'd', 'e', 'f':
			return true, true
		}
		return false, false
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		lo, ok := half(i)
		if !ok {
			i++ // the escaped character is not the start of another escape
			continue
		}
		next, paired := half(i + 6)
		if lo || !paired || !next {
			return i
		}
		i += 11
	}
	return -1
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
			return &failure{Code: exitConflict, Kind: "exists", Path: s.Path(), err: crmem.ErrExists,
				Message: fmt.Sprintf("line %d: the store has another %s; nothing was written", l.number, quoted(e.Name)),
				Remedy:  "--replace takes the new entries, --skip keeps the old ones"}
		case old.Kind == e.Kind && old.CreatedAt == e.CreatedAt:
			p.replaced++
			p.ops = append(p.ops, crmem.Update{Name: e.Name, Content: e.Content, Aliases: e.Aliases})
		default:
			// Kind and time of an entry never change: this is another one.
			p.replaced++
			p.ops = append(p.ops, crmem.Remove{Name: e.Name}, crmem.Restore{Entry: e})
		}
		staged[e.Name] = e
	}
	return nil
}
