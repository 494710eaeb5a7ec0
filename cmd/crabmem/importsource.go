package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/importer"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/sessionlog"
)

// readSource runs f, which reads the source. A signal ends the command while f
// reads a stream or a tree.
func (c *app) readSource(ctx context.Context, in *importer.Source, f func() error) error {
	p := c.Progress("reading " + inputName(in.Path))
	in.Bytes, in.Pages = p.Bytes, p.Step
	return p.During(func() error {
		if in.Stream != nil || importer.IsTree(in.Kind) || importer.IsSQLite(in.Kind) {
			return c.Wait(ctx, f)
		}
		return f()
	})
}

// detectSource sets the kind of the source, unless --from sets it.
func (c *app) detectSource(ctx context.Context, in *importer.Source) error {
	if in.Path != "-" {
		return sourceError(in, c.Wait(ctx, func() error { return in.Detect(ctx) }))
	}
	if importer.IsTree(in.Kind) || in.Kind == importer.Transcripts {
		return cli.Usagef("--from %s reads a directory, not standard input", in.Kind)
	}
	if importer.IsSQLite(in.Kind) {
		return cli.Usagef("--from %s reads a file, not standard input", in.Kind)
	}
	in.Stream = c.Stdin
	return c.Wait(ctx, func() error {
		c.Prompt()
		return in.Detect(ctx)
	})
}

// sourceError returns the failure for an error of the importer.
func sourceError(in *importer.Source, err error) error {
	if e, ok := errors.AsType[*importer.RecordError](err); ok {
		remedy := "fix the line; nothing was written"
		if in.Kind == importer.MemoryJSON {
			remedy = "use the memory.json of the reference memory server, or fix the record; nothing was written"
		}
		return &cli.Failure{Code: cli.ExitFailure, Kind: "import", Message: inputName(in.Path) + ": " + e.Error(), Path: in.Path, Remedy: remedy, Err: err}
	}
	if e, ok := errors.AsType[*importer.OpenError](err); ok {
		f := classify(e.Err)
		if f.Code != cli.ExitPermission {
			f.Code, f.Kind, f.Path = cli.ExitFailure, "failed", in.Path
			f.Remedy = "use a file that crabmem export wrote, - for standard input, or a format that crabmem import --help lists"
		}
		return f
	}
	if _, ok := errors.AsType[*importer.FormatError](err); ok {
		return sourceFormatError(in, err)
	}
	return err
}

// sourceFormatError returns err as an import failure.
func sourceFormatError(in *importer.Source, err error) error {
	if f, ok := errors.AsType[*cli.Failure](err); ok {
		return f
	}
	remedy := "use a file or directory in the format " + in.Kind + ", or set another format with --from"
	if importer.IsSQLite(in.Kind) {
		remedy = "use a database that crabmem import --help lists, or import its memories as JSON lines or Markdown; nothing was written"
	}
	return &cli.Failure{Code: cli.ExitFailure, Kind: "import", Message: fmt.Sprintf("%s: %v", inputName(in.Path), err), Path: in.Path, Err: err, Remedy: remedy}
}

// importMemory imports the notes of another program.
func (c *app) importMemory(ctx context.Context, in *importer.Source, mode importer.Mode, a *imported) error {
	var m *importer.Memory
	err := c.readSource(ctx, in, func() (err error) {
		m, err = in.Memory(ctx)
		return err
	})
	if err != nil {
		return sourceError(in, err)
	}
	a.From = importFormat(m.Kind)
	a.LeftOut = append(a.LeftOut, m.Left...)
	a.Manual = append(a.Manual, m.Manual...)
	var p *importer.Plan
	err = c.planned(ctx, a, func(s *crmem.Store) ([]crmem.Op, error) {
		if p, err = m.Plan(s, mode, c.now()); err != nil {
			return nil, err
		}
		if len(p.Conflicts) > 0 {
			return nil, errConflicts
		}
		return p.Ops, nil
	})
	if errors.Is(err, errConflicts) {
		a.Conflict = p.Conflicts
		return c.conflicting(in, a)
	}
	if errors.Is(err, crmem.ErrInvalid) {
		return sourceFormatError(in, err)
	}
	if err != nil {
		return err
	}
	a.Added, a.Replaced, a.Skipped, a.Kept = p.Added, p.Replaced, p.Skipped, p.Kept
	a.LeftOut = append(a.LeftOut, p.Left...)
	for _, name := range p.Updated {
		a.announce()
		c.Say("%s: %sreplaced", display.Label(name), onDry(a.DryRun, "would be ", ""))
	}
	return nil
}

var errConflicts = errors.New("conflicts")

// conflicting is the error for notes that are another way here.
func (c *app) conflicting(in *importer.Source, a *imported) error {
	list := a.Conflict
	for i := 1; i < len(list) && i <= maxWarnings && !c.JSON; i++ {
		c.Warn(list[i].Error())
	}
	message := list[0].Error()
	if more := len(list) - 1; more > 0 {
		message += fmt.Sprintf("; and %s", display.Plural(more, "more conflict", "more conflicts"))
	}
	return &cli.Failure{Code: cli.ExitConflict, Kind: "exists", Path: in.Path, More: a, Err: crmem.ErrExists,
		Message: message + "; nothing was written",
		Remedy:  "use --replace to take the source's notes or --skip to keep the store's notes"}
}

// importedChat is the result for a conversation.
type importedChat struct {
	Source   string `json:"source"`
	Outcome  string `json:"outcome" op:"words=imported|updated|unchanged|skipped"`
	ID       string `json:"session"` // "" when it is skipped, or would be new
	Title    string `json:"title"`
	Messages int    `json:"messages"`
	Reason   string `json:"reason"`       // why it is skipped
	Differs  string `json:"differs_from"` // session with the same source and other texts; "" without one
}

// importExport imports the notes of an export, and then its conversations. After a
// conflict of notes it imports no conversations, so a conflict changes nothing.
func (c *app) importExport(ctx context.Context, in *importer.Source, mode importer.Mode, a *imported) error {
	chats, notes, err := in.Parts()
	if err != nil {
		return sourceError(in, err)
	}
	if notes {
		if err := c.importMemory(ctx, in, mode, a); err != nil {
			return err
		}
	}
	if chats {
		return c.importChats(ctx, in, a)
	}
	return nil
}

// importChats imports conversations as sessions.
func (c *app) importChats(ctx context.Context, in *importer.Source, a *imported) error {
	done := func() int { return a.Added + a.Replaced }
	return c.importSessions(a.DryRun, done, func(d *sessionlog.Dir) (err error) {
		im, err := d.NewImporter(a.DryRun)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, im.Close()) }()
		var left []importer.Left
		err = c.readSource(ctx, in, func() (err error) {
			left, err = in.Chats(func(h *importer.Chat) error {
				if err := context.Cause(ctx); err != nil {
					return err
				}
				return c.importChat(im, h, a)
			})
			return err
		})
		a.LeftOut = append(append(a.LeftOut, left...), a.redacted.Sorted()...)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if s := a.sessionCounts(); err == nil && s.Kept > 0 && s.Kept == len(a.Sessions) && a.Sessions[0].Source == "" {
			return sourceFormatError(in, fmt.Errorf("no entries to import: %s", a.Sessions[0].Reason))
		}
		return sourceError(in, err)
	})
}

// importChat imports one conversation. Its error concerns the folder of
// sessions.
func (c *app) importChat(im *sessionlog.Importer, h *importer.Chat, a *imported) error {
	r := importedChat{Source: h.ID, Outcome: outcomeSkipped, Title: h.Meta.Title, Messages: len(h.Items)}
	var did sessionlog.ImportResult
	err := h.Err
	if err == nil {
		n, rerr := c.redactItems(&h.Meta.Title, h.Items)
		if rerr != nil {
			return rerr
		}
		r.Title = h.Meta.Title
		a.redacted.AddCount(redactedSecret, h.ID, n)
		did, err = im.Import(h.Meta, h.Items)
		r.ID, r.Differs = did.ID, did.DiffersFrom
		if err != nil && !errors.Is(err, sessionlog.ErrInvalid) {
			return classify(err)
		}
	}
	line := "skipped: "
	switch {
	case err != nil:
		r.Reason = err.Error()
	case did.Older:
		r.Reason = h.ID + ": older than " + display.Label(r.ID) + ", which is longer"
	case did.Created:
		r.Outcome = outcomeImported
	case did.Updated:
		r.Outcome = outcomeUpdated
	default:
		r.Outcome = outcomeUnchanged
	}
	if line += r.Reason; r.Outcome != outcomeSkipped {
		f := importedFile{Path: h.ID, Outcome: r.Outcome, ID: r.ID, Messages: r.Messages, title: h.Meta.Title}
		line = f.text(onDry(a.DryRun, "would be ", ""))
	}
	c.addSession(a, &r, line)
	return nil
}

// addSession adds the result for a conversation, and its line for a person.
func (c *app) addSession(a *imported, r *importedChat, line string) {
	a.Sessions = append(a.Sessions, *r)
	if r.Differs != "" {
		a.warnings = append(a.warnings, differsText(r.Source, r.Differs))
	}
	switch r.Outcome {
	case outcomeUnchanged:
		a.Skipped++
		return
	case outcomeSkipped:
		a.Kept++
		a.warnings = append(a.warnings, line)
		return
	case outcomeImported:
		a.Added++
	case outcomeUpdated:
		a.Replaced++
	}
	a.announce()
	c.Say("%s", line)
}

// sqliteProgram reads SQLite databases. It is part of the release archives.
const sqliteProgram = "crabmem-sqlite"

// sqliteRows runs crabmem-sqlite, next to this program or on PATH, and returns its
// output. Close of the output returns the error that crabmem-sqlite reports.
func (c *app) sqliteRows(ctx context.Context, file string, tables []string) (io.ReadCloser, error) {
	path := findSQLite()
	if path == "" {
		return nil, &cli.Failure{Code: cli.ExitFailure, Kind: "import", Path: file, Err: exec.ErrNotFound,
			Message: file + ": SQLite database: no program " + sqliteProgram + " next to crabmem or on PATH",
			Remedy:  "run go install ./cmd/crabmem-sqlite in the source directory of crabmem, or copy crabmem-sqlite from the release archive next to crabmem"}
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, append([]string{file}, tables...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains([]string{"PATH", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "HOME"}, strings.ToUpper(name))
	})
	r := &sqliteOutput{cmd: cmd}
	cmd.Stderr = &r.reason
	cmd.WaitDelay = 5 * time.Second
	if r.ReadCloser, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return r, cmd.Start()
}

// findSQLite returns the path of crabmem-sqlite, or "".
func findSQLite() string {
	name := sqliteProgram
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if exe, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(exe), name)); err == nil {
			return path
		}
	}
	path, _ := exec.LookPath(name)
	return path
}

// sqliteOutput is the output of crabmem-sqlite.
type sqliteOutput struct {
	io.ReadCloser
	cmd    *exec.Cmd
	reason boundedBuffer
}

func (r *sqliteOutput) Close() error {
	// This ends a program that still writes. Its remaining output is not needed.
	_ = r.ReadCloser.Close()
	err := r.cmd.Wait()
	if reason := strings.TrimSpace(strings.ToValidUTF8(r.reason.String(), "\uFFFD")); err != nil && reason != "" {
		return errors.New(reason)
	}
	return err
}

// boundedBuffer keeps the first 4 KiB.
type boundedBuffer struct{ bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), 4<<10-min(b.Len(), 4<<10))])
	return len(p), nil
}
