package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/importer"
	"crabmem/daemon/display"
	"crabmem/sessionlog"
	"crabmem/sessionlog/foreign"

	"github.com/spf13/cobra"
)

// Results of an import of a transcript.
const (
	outcomeImported  = "imported"
	outcomeUpdated   = "updated"
	outcomeUnchanged = "unchanged"
	outcomeSkipped   = "skipped"
)

// importedFile is the result for a transcript.
type importedFile struct {
	Path     string          `json:"path"`
	Tool     string          `json:"tool"`
	Outcome  string          `json:"outcome" op:"words=imported|updated|unchanged|skipped"`
	ID       string          `json:"session"`      // "" when it is skipped, or would be new
	Messages int             `json:"messages"`     // of the session
	Reason   string          `json:"reason"`       // why it is skipped
	Differs  string          `json:"differs_from"` // session with the same source and other texts; "" without one
	BadLines int64           `json:"bad_lines"`
	Mended   int64           `json:"mended_lines"` // in which a lone surrogate became U+FFFD
	LeftOut  []foreign.Tally `json:"left_out"`     // omitted lines and parts
	title    string
	size     int64        // of the session's file
	mark     foreign.Mark // after the last line
}

// importedFiles is the answer of sessions import.
type importedFiles struct {
	Imported  int            `json:"imported"`
	Updated   int            `json:"updated"`
	Unchanged int            `json:"unchanged"`
	Skipped   int            `json:"skipped"`
	Others    int            `json:"others"` // files *.jsonl of unknown programs
	DryRun    bool           `json:"dry_run"`
	Files     []importedFile `json:"files"`
}

func sessionsImportCommand(c *app) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "import PATH...",
		Short: "import sessions of Claude Code, Codex, Gemini CLI",
		Long: `Import the transcripts of Claude Code (~/.claude/projects), Codex
(~/.codex/sessions), and Gemini CLI (~/.gemini/tmp) as read-only sessions. PATH
is a transcript, or a directory to search for them. import detects the format by
content. It does not read files session-*.json, of old versions of Gemini CLI.

A transcript becomes one session, however often you import it. import skips a
transcript if its session has all its texts, such as an older copy. If the
transcript continues the session, import replaces the session. If both have
texts that the other lacks, because a session continued on two machines or in
another file, import keeps both as sessions and prints a warning. It prints the
reason for each file that it skips and each item that it omits.`,
		Example: `  crabmem sessions import ~/.claude/projects ~/.codex/sessions --dry-run
  crabmem sessions import ~/.claude/projects ~/.codex/sessions`,
		Args: atLeast(1, "PATH"),
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the changes, change nothing")
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (*importedFiles, error) {
		return c.importTranscripts(ctx, args, dry)
	}, func(a *importedFiles) { c.importedText(a, strings.Join(cmd.Flags().Args(), "\x00")) })
}

// importTranscriptsOf imports the transcripts of a source of crabmem import.
func (c *app) importTranscriptsOf(ctx context.Context, in *importer.Source, a *imported) error {
	files, err := c.importTranscripts(ctx, []string{in.Path}, a.DryRun)
	if err != nil {
		return err
	}
	for i := range files.Files {
		f := &files.Files[i]
		c.addSession(a, &importedChat{f.Path, f.Outcome, f.ID, f.title, f.Messages, f.Reason, f.Differs}, f.text(onDry(a.DryRun, "would be ", "")))
	}
	a.LeftOut = append(a.LeftOut, files.omitted()...)
	return nil
}

// importSessions runs f, which changes the folder of sessions unless it is a
// dry run. Its error contains the number of imports before it.
func (c *app) importSessions(dry bool, done func() int, f func(d *sessionlog.Dir) error) error {
	if dry {
		d, err := c.openSessions("import", false)
		if err != nil {
			return err
		}
		return errors.Join(f(d), d.Close())
	}
	err := c.writeSessions("import", false, f)
	if n := done(); err != nil && n > 0 {
		f := classify(err)
		f.Message += fmt.Sprintf("; imported before the error: %d", n)
		return f
	}
	return err
}

// transcripts finds the transcripts under paths, each once, the largest first.
func (c *app) transcripts(ctx context.Context, paths []string) (found []foreign.File, others int, err error) {
	seen := make(map[string]bool)
	for _, path := range paths {
		list, err := busy(c, "looking for transcripts", func() (foreign.List, error) { return foreign.Find(ctx, c.fs, path) })
		if err != nil && ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		if err != nil {
			f := classify(err)
			if f.Code != cli.ExitPermission {
				f.Code, f.Kind, f.Remedy = cli.ExitFailure, "failed", "use a transcript of Claude Code, Codex, or Gemini CLI, or a directory that contains transcripts"
			}
			return nil, 0, f
		}
		others += list.Others
		for _, t := range list.Found {
			if !seen[t.Path] {
				seen[t.Path] = true
				found = append(found, t)
			}
		}
		for _, err := range list.Failed {
			c.Warn(err.Error() + "; skipped")
		}
	}
	slices.SortStableFunc(found, func(a, b foreign.File) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), strings.Compare(a.Path, b.Path))
	})
	return found, others, nil
}

// importTranscripts imports the transcripts under paths.
func (c *app) importTranscripts(ctx context.Context, paths []string, dry bool) (*importedFiles, error) {
	found, others, err := c.transcripts(ctx, paths)
	if err != nil {
		return nil, err
	}
	a := &importedFiles{DryRun: dry, Others: others, Files: make([]importedFile, 0, len(found))}
	done := func() int { return a.Imported + a.Updated }
	err = c.importSessions(dry, done, func(d *sessionlog.Dir) error { return c.importFound(ctx, d, found, a) })
	slices.SortFunc(a.Files, func(x, y importedFile) int { return strings.Compare(x.Path, y.Path) })
	return a, err
}

// importFound imports the found transcripts, and fills in the report.
func (c *app) importFound(ctx context.Context, d *sessionlog.Dir, found []foreign.File, a *importedFiles) (err error) {
	if len(found) == 0 {
		return nil
	}
	im, err := d.NewImporter(a.DryRun)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, im.Close()) }()
	p := c.Progress("importing")
	defer p.End()
	taken := make(map[string]string) // path by session, or by source before the session has an ID
	for n, file := range found {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		f, err := c.importOne(im, file, taken)
		if err != nil {
			return err
		}
		a.Files = append(a.Files, f)
		switch f.Outcome {
		case outcomeImported:
			a.Imported++
		case outcomeUpdated:
			a.Updated++
		case outcomeUnchanged:
			a.Unchanged++
		case outcomeSkipped:
			a.Skipped++
		}
		p.Step(n+1, len(found))
	}
	return nil
}

// importOne imports one transcript. Its error concerns the folder of sessions;
// a problem of the transcript only skips it.
func (c *app) importOne(im *sessionlog.Importer, file foreign.File, taken map[string]string) (importedFile, error) {
	t, err := file.Read(c.fs)
	f := importedFile{Path: file.Path, Tool: file.Kind.Tool, Outcome: outcomeSkipped, BadLines: t.BadLines, Mended: t.Mended.Count, LeftOut: append([]foreign.Tally{}, t.Skipped...), title: t.Meta.Title}
	if err != nil {
		f.Reason = strings.TrimPrefix(err.Error(), file.Path+": ")
		return f, nil
	}
	n, err := c.redactItems(&t.Meta.Title, t.Items)
	if err != nil {
		return f, err
	}
	f.title = t.Meta.Title
	if n > 0 {
		f.LeftOut = append(f.LeftOut, foreign.Tally{Reason: redactedSecret, Count: int64(n), Lines: []int64{}})
	}
	did, err := im.Import(t.Meta, t.Items)
	if errors.Is(err, sessionlog.ErrInvalid) {
		f.Reason = err.Error()
		return f, nil
	}
	if err != nil {
		return f, err
	}
	session := cmp.Or(did.ID, t.Meta.Source)
	if other := taken[session]; other != "" && !did.Created && !did.Updated {
		f.Reason = "same session as " + other
		return f, nil
	}
	if did.Older {
		f.Reason = "older than " + display.Label(did.ID) + ", which is longer"
		return f, nil
	}
	f.ID = did.ID
	if t.Mark.Offset > 0 && did.ID != "" {
		f.mark = t.Mark
		if f.size, err = im.Size(did.ID); err != nil {
			return f, err
		}
	}
	if did.Created {
		f.Differs = cmp.Or(did.DiffersFrom, taken[session])
	}
	taken[session] = file.Path
	for i := range t.Items {
		if !t.Items[i].Marker {
			f.Messages++
		}
	}
	switch {
	case did.Created:
		f.Outcome = outcomeImported
	case did.Updated:
		f.Outcome = outcomeUpdated
	default:
		f.Outcome = outcomeUnchanged
	}
	return f, nil
}

// omitted returns the omissions of all transcripts, and the files that are not
// transcripts.
func (a *importedFiles) omitted() []importer.Left {
	var list importer.Tally
	for i := range a.Files {
		f := &a.Files[i]
		if f.Outcome == outcomeSkipped {
			continue
		}
		for _, l := range f.LeftOut {
			list.AddCount(l.Reason, f.Path, int(l.Count))
		}
		list.AddCount("invalid line", f.Path, int(f.BadLines))
		list.AddCount("lone surrogate, replaced by U+FFFD", f.Path, int(f.Mended))
	}
	list.AddCount("a .jsonl file that is not a transcript", "", a.Others)
	return list.Sorted()
}

// text returns the result of a file for a person.
func (f *importedFile) text(would string) string {
	name := display.Printable(f.Path)
	if f.Outcome == outcomeSkipped {
		return fmt.Sprintf("%s: skipped: %s", name, display.Printable(f.Reason))
	}
	what := ""
	if f.ID != "" {
		what = " as " + display.Label(f.ID)
	}
	if f.title != "" {
		what += " " + display.Quoted(f.title)
	}
	what += ", " + display.Plural(f.Messages, "message", "messages")
	if f.BadLines > 0 {
		what += ", without " + display.Plural(f.BadLines, "invalid line", "invalid lines")
	}
	return fmt.Sprintf("%s: %s%s%s", name, would, f.Outcome, what)
}

// differsText is the warning about a session that differs from another of its source.
func differsText(source, other string) string {
	return fmt.Sprintf("%s: differs from %s, which has the same source; kept both", display.Printable(source), display.Printable(other))
}

// importedText prints the results. It omits the reasons that the last import of the
// paths already printed.
func (c *app) importedText(a *importedFiles, paths string) {
	reasons := omissions(a.omitted())
	for i := range a.Files {
		if f := &a.Files[i]; f.Outcome == outcomeSkipped {
			reasons = append(reasons, f.text(""))
		}
	}
	fresh := c.newWarnings(true, paths, reasons)
	for i := range a.Files {
		f := &a.Files[i]
		if f.Outcome == outcomeUnchanged || f.Outcome == outcomeSkipped && !slices.Contains(fresh, f.text("")) {
			continue
		}
		c.Say("%s", f.text(onDry(a.DryRun, "would be ", "")))
	}
	for i := range a.Files {
		if f := &a.Files[i]; f.Differs != "" {
			c.Warn(differsText(f.Path, f.Differs))
		}
	}
	for _, w := range fresh {
		if strings.HasPrefix(w, omittedStart) {
			c.Warn(w)
		}
	}
	if !a.DryRun {
		c.recordWarnings(true, paths, reasons)
	}
	others := ""
	if a.Others > 0 {
		others = "; " + display.Plural(a.Others, "other .jsonl file is not a transcript", "other .jsonl files are not transcripts")
	}
	c.Say("%simported %d, updated %d, unchanged %d, skipped %d%s%s", onDry(a.DryRun, "would be ", ""), a.Imported, a.Updated, a.Unchanged, a.Skipped, others, sameWarnings(len(reasons)-len(fresh)))
}
