package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/importer"
	"crabmem/crmem"
	"crabmem/sessionlog"
)

// importSource is what import reads: a path, or standard input.
type importSource struct {
	c     *app
	path  string
	kind  string    // "" until it is known
	stdin io.Reader // with what was looked at
}

// find finds out what kind of source it is, where it is not said.
func (in *importSource) find(ctx context.Context) error {
	c := in.c
	if in.path == "-" {
		if importer.IsTree(in.kind) {
			return usagef("%s is a directory, and cannot come from standard input", in.kind)
		}
		in.stdin = c.stdin
		return c.wait(ctx, func() error {
			c.prompt()
			if in.kind == "" {
				in.kind, in.stdin = importer.DetectReader(c.stdin)
			}
			return nil
		})
	}
	if in.kind != "" {
		return nil
	}
	kind, err := importer.Detect(c.fs, in.path)
	in.kind = kind
	return in.unreadable(err)
}

// unreadable is the error for what cannot be opened.
func (in *importSource) unreadable(err error) error {
	if err == nil {
		return nil
	}
	f := classify(err)
	if f.Code != exitPermission {
		f.Code, f.Kind, f.Path = exitFailure, "failed", in.path
		f.Remedy = "name a file that crabmem export wrote, - for standard input, or what crabmem import --help lists"
	}
	return f
}

// wrong is the error for what does not say what it should.
func (in *importSource) wrong(err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if err == nil {
		return nil
	}
	return &failure{Code: exitFailure, Kind: "import", Message: fmt.Sprintf("%s: %v", inputName(in.path), err), Path: in.path, err: err,
		Remedy: "name what " + in.kind + " wrote, or say with --from what it is"}
}

// lines reads entries, a line each.
func (in *importSource) lines(ctx context.Context) (lines []importLine, err error) {
	c := in.c
	read := func(r io.Reader) ([]importLine, error) { return readImport(in.path, r) }
	if in.kind == importer.MemoryJSON {
		read = func(r io.Reader) ([]importLine, error) { return readMemoryJSON(in.path, r, c.warn) }
	}
	if in.stdin != nil {
		err = c.wait(ctx, func() (err error) {
			lines, err = read(in.stdin)
			return err
		})
		return lines, err
	}
	f, err := c.fs.Open(in.path)
	if err != nil {
		return nil, in.unreadable(err)
	}
	lines, err = read(f)
	return lines, errors.Join(err, f.Close())
}

// each gives every stream of the source to read, and returns what beside them
// is left out.
func (in *importSource) each(ctx context.Context, read func(io.Reader) error) ([]importer.Left, error) {
	if in.stdin != nil {
		return nil, in.c.wait(ctx, func() error { return in.wrong(read(in.stdin)) })
	}
	f, err := importer.Open(in.c.fs, in.kind, in.path)
	if err != nil {
		return nil, in.unreadable(err)
	}
	err = f.Each(read)
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), f.Close())
	}
	return f.Left, in.wrong(errors.Join(err, f.Close()))
}

// memory reads notes.
func (in *importSource) memory(ctx context.Context) (m *importer.Memory, err error) {
	switch in.kind {
	case importer.RFC0038, importer.BasicMemory:
		read := importer.ReadRFC0038
		if in.kind == importer.BasicMemory {
			read = importer.ReadBasicMemory
		}
		err = in.c.wait(ctx, func() (err error) { // it changes nothing
			m, err = read(in.c.fs, in.path)
			return err
		})
		return m, in.unreadable(err)
	}
	_, err = in.each(ctx, func(r io.Reader) (err error) {
		m, err = importer.ReadMem0(r)
		return err
	})
	return m, err
}

// importMemory imports the notes of another program.
func (c *app) importMemory(ctx context.Context, in *importSource, replace, skip bool, a *imported) error {
	m, err := in.memory(ctx)
	if err != nil {
		return err
	}
	if len(m.Notes) == 0 && len(m.Left) > 0 {
		return in.wrong(fmt.Errorf("nothing that can be taken: %s: %s", m.Left[0].Reason, strings.Join(m.Left[0].Where, ", ")))
	}
	a.LeftOut = append(a.LeftOut, m.Left...)
	a.Told = append(a.Told, m.Told...)
	mode := importer.Refuse
	switch {
	case replace:
		mode = importer.Replace
	case skip:
		mode = importer.Keep
	}
	var p *importer.Plan
	err = c.planned(ctx, a.DryRun, func(s *crmem.Store) ([]crmem.Op, error) {
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
		return in.wrong(err)
	}
	if err != nil {
		return err
	}
	a.Added, a.Replaced, a.Skipped, a.Kept = p.Added, p.Replaced, p.Skipped, p.Kept
	would := ""
	if a.DryRun {
		would = "would be "
	}
	for _, name := range p.Updated {
		c.say("%s: %sreplaced", cli.Label(name), would)
	}
	return nil
}

var errConflicts = errors.New("conflicts")

// conflicting is the error for notes that are another way here.
func (c *app) conflicting(in *importSource, a *imported) error {
	list := a.Conflict
	for i := 1; i < len(list) && i <= maxWarnings && !c.json; i++ {
		c.warn(list[i].Error())
	}
	message := list[0].Error()
	if more := len(list) - 1; more > 0 {
		message += fmt.Sprintf("; and %s", cli.Plural(more, "more conflict", "more conflicts"))
	}
	return &failure{Code: exitConflict, Kind: "exists", Path: in.path, More: a, err: crmem.ErrExists,
		Message: message + "; nothing was written",
		Remedy:  "--replace takes the source's, --skip keeps the notes of the store"}
}

// importedLeft says what was left out, and what is left to do.
func (c *app) importedLeft(a *imported) {
	if c.json {
		return
	}
	for i := range a.LeftOut {
		l := &a.LeftOut[i]
		where := ""
		for k, w := range l.Where {
			if k > 0 {
				where += ","
			}
			where += " " + w
		}
		if len(l.Where) > 0 && len(l.Where) < l.Count {
			where += ", …"
		}
		if where != "" {
			where = ":" + where
		}
		c.warn(fmt.Sprintf("not taken as it stands: %d × %s%s", l.Count, l.Reason, where))
	}
	for _, s := range a.Told {
		c.warn(s)
	}
}

// importedChat is what became of a conversation.
type importedChat struct {
	Source   string `json:"source"`
	Outcome  string `json:"outcome"` // imported, updated, unchanged, skipped
	ID       string `json:"id"`      // "" when it is skipped, or would be new
	Title    string `json:"title"`
	Messages int    `json:"messages"`
	Reason   string `json:"reason"` // why it is skipped
}

// importChats imports conversations as sessions.
func (c *app) importChats(ctx context.Context, in *importSource, a *imported) error {
	done := func() int { return a.Added + a.Replaced }
	return c.importSessions(a.DryRun, done, func(d *sessionlog.Dir) (err error) {
		im, err := d.NewImporter(a.DryRun)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, im.Close()) }()
		taken := make(map[string]bool) // of several files
		left, err := in.each(ctx, func(r io.Reader) error {
			left, err := importer.ReadChats(in.kind, r, func(h *importer.Chat) error {
				if err := context.Cause(ctx); err != nil {
					return err
				}
				if h.Err == nil && taken[h.ID] {
					h.Err = fmt.Errorf("%s: in two files, the first is taken", h.ID)
				}
				taken[h.ID] = true
				return c.importChat(im, h, a)
			})
			a.LeftOut = append(a.LeftOut, left...)
			return err
		})
		a.LeftOut = append(a.LeftOut, left...)
		if n := len(a.Sessions); err == nil && n > 0 && n == a.Kept && a.Sessions[0].Source == "" {
			err = in.wrong(fmt.Errorf("nothing that can be taken: %s", a.Sessions[0].Reason))
		}
		return err
	})
}

// importChat imports one conversation. Its error is of the folder of sessions.
func (c *app) importChat(im *sessionlog.Importer, h *importer.Chat, a *imported) error {
	r := importedChat{Source: h.ID, Outcome: outcomeSkipped, Title: h.Meta.Title, Messages: len(h.Items)}
	outcome, err := sessionlog.Unchanged, h.Err
	if err == nil {
		r.ID, outcome, err = im.Import(h.Meta, h.Items)
		if err != nil && !errors.Is(err, sessionlog.ErrInvalid) {
			return classify(err)
		}
	}
	would := ""
	if a.DryRun {
		would = "would be "
	}
	switch {
	case err != nil:
		r.Reason = err.Error()
	case outcome == sessionlog.Older:
		r.Reason = h.ID + ": older than " + cli.Label(r.ID) + ", which has more of it"
	case outcome == sessionlog.Unchanged:
		r.Outcome = outcomeUnchanged
		a.Skipped++
	case outcome == sessionlog.Imported:
		r.Outcome = outcomeImported
		a.Added++
	case outcome == sessionlog.Updated:
		r.Outcome = outcomeUpdated
		a.Replaced++
	}
	a.Sessions = append(a.Sessions, r)
	switch r.Outcome {
	case outcomeUnchanged:
	case outcomeSkipped:
		a.Kept++
		if !c.json {
			c.warn("skipped: " + r.Reason)
		}
	default:
		what := ""
		if r.ID != "" {
			what = " as " + cli.Label(r.ID)
		}
		c.say("%s: %s%s%s %s, %s", cli.Printable(h.ID), would, r.Outcome, what, cli.Quoted(h.Meta.Title), cli.Plural(r.Messages, "message", "messages"))
	}
	return nil
}
