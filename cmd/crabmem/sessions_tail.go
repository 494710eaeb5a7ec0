package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"

	"github.com/spf13/cobra"
)

const (
	// pollEvery is how often a session that is followed is looked at.
	pollEvery = 200 * time.Millisecond
	// goneAfter is the number of polls after which a missing or shorter file is
	// accepted, because some programs replace a file in two steps.
	goneAfter = 5
)

func sessionsTailCommand(c *app) *cobra.Command {
	var n int
	var follow bool
	cmd := &cobra.Command{
		Use:   "tail ID",
		Short: "print the last lines of a session",
		Long: `Print the last lines of a session, as crabmem sessions show does. --json prints
one object per line, with a "kind": meta, message, marker, title, partial,
failed, unknown, bad, or torn. partial is a streamed part of a response.

--follow also prints new lines until Ctrl+C. It follows the session when a new
title renames the file, and when a repair or another program replaces the file.
It prints a line only after the line is complete.`,
		Example: `  crabmem sessions tail crab_user_1
  crabmem sessions tail crab_user_1 -n 1 --json`,
		Args:              exactly(1, "ID"),
		ValidArgsFunction: c.completeSessions(1, false),
	}
	cmd.Flags().IntVarP(&n, "lines", "n", 10, "print the last `N` lines")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "also print new lines")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if n < 0 {
			return cli.Usagef("--lines %d: want 0 or more", n)
		}
		return c.readSessions(func(d *sessionlog.Dir) error {
			s, err := d.Read(args[0])
			if err != nil {
				return aboutSession(err)
			}
			t := tail{c: c, dir: d, session: s, follow: follow}
			err = t.begin(cmd.Context(), n)
			for err == nil && follow {
				err = t.look(cmd.Context())
			}
			return errors.Join(err, t.session.Close())
		})
	}
	return c.outputs(cmd, of[tailMeta](), of[tailMessage](), of[tailMarker](), of[tailTitle](), of[tailUnknown](), of[tailDamage](), of[shownTurn]())
}

// tail prints a session from near its end on.
type tail struct {
	c       *app
	dir     *sessionlog.Dir
	session *sessionlog.Session
	follow  bool
	blank   bool // something was printed: an empty line comes before the next

	at     int64 // after the last printed line
	number int64 // of the line there
	size   int64 // of the file when it was read last
	last   passed
	good   passed // the last record: a repair leaves it
	missed int    // looks at which the file was not there, or too short
}

// passed is a line that was read.
type passed struct {
	offset, number, size int64
	sum                  [sha256.Size]byte
}

func passedLine(l *sessionlog.Line) passed {
	return passed{l.Offset, l.Number, l.Size, sha256.Sum256(l.Raw)}
}

// isRecord reports whether a line contains a record.
func isRecord(l *sessionlog.Line) bool {
	return l.Kind != record.KindBad && l.Kind != record.KindBlank
}

// begin prints the last n lines.
func (t *tail) begin(ctx context.Context, n int) error {
	// At least one line is read, to recognize the file later.
	from, err := t.session.LastLines(max(n, 1))
	if err != nil {
		return err
	}
	t.at = from
	return t.read(ctx, n > 0)
}

// read advances over the lines from at on, and prints them if show is set.
func (t *tail) read(ctx context.Context, show bool) error {
	t.size = t.session.Size
	for l, err := range t.session.LinesFrom(t.at, t.number) {
		if err := cmp.Or(err, context.Cause(ctx)); err != nil {
			return err
		}
		if l.Tail && t.follow {
			break // it may not be written to its end yet
		}
		p := passedLine(&l)
		if !l.Glued {
			t.at, t.number, t.last = l.Offset+l.Size+1, l.Number+1, p
		}
		if isRecord(&l) {
			t.good = p
		}
		if show {
			if err := t.print(&l); err != nil {
				return err
			}
		}
	}
	return t.c.Out.Flush()
}

func (t *tail) print(l *sessionlog.Line) error {
	if t.c.JSON {
		b, err := lineJSON(l)
		if err == nil {
			_, err = t.c.Out.Write(b)
		}
		return err
	}
	if (l.Kind == record.KindBlank || l.Kind == record.KindCopy) && damageOf(l) == nil {
		return nil
	}
	if t.blank && !l.Glued {
		t.c.Out.WriteByte('\n')
	}
	t.blank = true
	return t.c.printLine(l)
}

// look waits for an interval and prints new lines.
func (t *tail) look(ctx context.Context) error {
	err := t.c.Wait(ctx, func() error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollEvery):
			return nil
		}
	})
	if err != nil {
		return err
	}
	moved, err := t.session.Moved()
	if err != nil {
		return err
	}
	if moved {
		s, err := t.dir.Read(t.session.ID)
		if t.missed++; errors.Is(err, sessionlog.ErrNotFound) && t.missed < goneAfter {
			return nil // a listing is not atomic
		}
		if err != nil {
			return aboutSession(err)
		}
		if err := t.session.Close(); err != nil {
			return errors.Join(err, s.Close())
		}
		t.session = s
	} else if err := t.session.Refresh(); err != nil {
		return err
	}
	if !moved && t.session.Size == t.size {
		return nil
	}
	if t.missed++; !moved && t.session.Size < t.at && t.missed < goneAfter {
		return nil // it is being rewritten
	}
	t.missed = 0
	if same, err := t.knows(t.last); err != nil {
		return err
	} else if !same {
		if err := t.find(ctx); err != nil {
			return err
		}
	}
	return t.read(ctx, true)
}

// knows reports whether a line is still at its offset.
func (t *tail) knows(p passed) (bool, error) {
	if p.number == 0 || t.session.Size < p.offset+p.size+1 {
		return p.number == 0, nil
	}
	for l, err := range t.session.LinesFrom(p.offset, p.number) {
		return err == nil && passedLine(&l) == p, err
	}
	return false, nil
}

// find returns to the position after the printed lines in a rewritten file:
// after the last printed record, which a repair only moves toward the
// beginning. If the record is missing, it moves to the end.
func (t *tail) find(ctx context.Context) error {
	at, number, found := int64(0), int64(1), false
	var line passed // the current line, or the line of the current piece
	var end int64   // offset after line
	for l, err := range t.session.LinesFrom(0, 1) {
		if err := cmp.Or(err, context.Cause(ctx)); err != nil {
			return err
		}
		if l.Tail {
			break
		}
		p := passedLine(&l)
		if !l.Glued {
			line, end = p, l.Offset+l.Size+1
		}
		if is := p.sum == t.good.sum && isRecord(&l) && l.Number <= t.good.number; is || !found {
			at, number, found = end, l.Number+1, found || is
			t.last = line
		}
	}
	t.at, t.number = at, number
	if !found {
		t.c.Warn(t.session.Path + " was replaced by a file with other lines; continuing at its end")
	}
	return nil
}
