package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/sessionlog"

	"github.com/spf13/cobra"
)

// Limits of verify's list; all problems are counted.
const (
	maxProblems = 1000
	maxWarnings = 20 // for a person
)

// sessionsReport is the result of verify.
type sessionsReport struct {
	Folder   string           `json:"folder"`
	Sessions int              `json:"sessions"`
	Messages int              `json:"messages"`
	Bytes    int64            `json:"bytes"`
	Damaged  int              `json:"damaged"`   // invalid sessions
	BadLines int              `json:"bad_lines"` // in all of them
	Problems []sessionProblem `json:"problems"`  // the first of them

	id        string          // of the only session; "" for all
	count     int             // of problems
	damage    *sessionProblem // the first damage
	forbidden *sessionProblem // the first file that may not be read
}

// The kinds of a sessionProblem.
const (
	problemBad        = "bad"        // a line that cannot be read
	problemTorn       = "torn"       // an unfinished line at the end: no damage
	problemUnreadable = "unreadable" // not a regular file, or an I/O error
	problemForbidden  = "forbidden"  // no permission to read; the state is unknown
	problemAmbiguous  = "ambiguous"  // a second file of one id
	problemKept       = "kept"       // a copy that a writer kept
)

type sessionProblem struct {
	Kind    string `json:"kind" op:"words=bad|torn|kept|unreadable|forbidden|ambiguous"`
	ID      string `json:"session"`
	File    string `json:"file"`
	Line    int64  `json:"line"` // 0 if it concerns no line
	Offset  int64  `json:"offset"`
	Bytes   int64  `json:"bytes"`
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
}

func sessionsVerifyCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "verify [ID]",
		Short: "check every line of one or all sessions",
		Long: `Check every line of one session or of all. verify takes no lock and changes
nothing. It reports each problem with file, line, offset, and a fix.

The exit code is 5 for invalid lines, a lost first line, a name in sessions/
that is not a regular file, and two files with the same ID. It is also 5 for a
file in sessions/.kept: a writer saved that copy after another program changed
the files of its session. A torn tail is a warning with exit code 0: the next
write moves it to a quarantine file.`,
		Example: `  crabmem sessions verify
  crabmem sessions verify crab_user_1 --json`,
		Args:              atMost(1, "one ID, or none for all"),
		ValidArgsFunction: c.completeSessions(1, false),
	}, func(_ context.Context, args []string) (*sessionsReport, error) {
		return resultOf(c.readSessions, func(d *sessionlog.Dir) (*sessionsReport, error) {
			r := &sessionsReport{Folder: d.Path(), Problems: []sessionProblem{}}
			err := c.Busy("reading sessions", func() error {
				if len(args) == 1 {
					r.id = args[0]
					return r.one(d)
				}
				return r.all(d)
			})
			if err != nil {
				return nil, err
			}
			if err := c.sessionDamage(r); err != nil {
				return nil, err
			}
			for i := range r.Problems {
				c.Warn(r.Problems[i].Message + "; " + r.Problems[i].Remedy)
			}
			return r, nil
		})
	}, func(r *sessionsReport) {
		what := fmt.Sprintf("%s, %s", display.Plural(r.Messages, "message", "messages"), display.Size(r.Bytes))
		if r.id != "" {
			c.Say("%s is valid: %s", display.Printable(r.id), what)
		} else {
			c.Say("%s is valid: %s, %s", display.Printable(r.Folder), display.Plural(r.Sessions, "session", "sessions"), what)
		}
	})
}

func (r *sessionsReport) add(p sessionProblem) {
	r.count++
	switch p.Kind {
	case problemTorn:
	case problemForbidden:
		r.forbidden = cmp.Or(r.forbidden, &p)
	default:
		r.damage = cmp.Or(r.damage, &p)
	}
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, p)
	}
}

// one checks the only session.
func (r *sessionsReport) one(d *sessionlog.Dir) error {
	s, err := d.Read(r.id)
	if err != nil {
		return aboutSession(err)
	}
	k, err := r.check(s)
	if err != nil {
		return err
	}
	r.Sessions, r.Messages, r.Bytes = 1, k.Messages, s.Size
	return r.addKept(d, s.ID)
}

// all checks every session. It trusts the list for valid sessions.
func (r *sessionsReport) all(d *sessionlog.Dir) error {
	infos, err := d.ListAll()
	if err != nil {
		return err
	}
	first := make(map[string]string, len(infos)) // file of an id
	for k := range infos {
		i := &infos[k]
		path := filepath.Join(d.Path(), i.File)
		if missing(i.Err) { // moved concurrently
			continue
		}
		r.Sessions++
		r.Messages += i.Messages
		r.Bytes += i.Size
		if i.Err != nil {
			r.Damaged++
			p := sessionProblem{Kind: problemUnreadable, ID: i.ID, File: path, Message: i.Err.Error(), Remedy: "move it out of the directory: a session is a regular file"}
			if f := classify(i.Err); f.Code == cli.ExitPermission {
				p.Kind, p.Remedy = problemForbidden, f.Remedy
			} else if f.Code != cli.ExitCorrupt {
				p.Remedy = "check the disk"
			}
			r.add(p)
			continue
		}
		if other, twice := first[i.ID]; twice {
			r.Damaged++
			r.add(sessionProblem{Kind: problemAmbiguous, ID: i.ID, File: path,
				Message: fmt.Sprintf("%s: duplicate ID %s, also in %s", path, i.ID, other),
				Remedy:  "move the extra file out of the directory; until then, use the file names"})
		}
		first[i.ID] = i.File
		if i.Damaged > 0 || i.Torn > 0 {
			s, err := d.Read(i.File)
			if missing(err) || errors.Is(err, sessionlog.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if _, err := r.check(s); err != nil {
				return err
			}
		}
	}
	return r.addKept(d, "")
}

// check adds the problems of a session, and closes it.
func (r *sessionsReport) check(s *sessionlog.Session) (*sessionlog.Check, error) {
	k, err := s.Check()
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	if k.Damaged > 0 {
		r.Damaged++
	}
	r.BadLines += k.Damaged
	for _, g := range k.Damage {
		p := sessionProblem{Kind: problemBad, ID: s.ID, File: s.Path, Line: g.Line, Offset: g.Offset, Bytes: g.Size,
			Message: fmt.Sprintf("%s: line %d (offset %d): %s", s.Path, g.Line, g.Offset, g.Msg),
			Remedy:  "crabmem sessions repair " + errtable.ShellWord(s.ID)}
		if g.Line == 1 && !k.Identified {
			p.Remedy = "restore the first line from a backup, or run crabmem sessions delete " + errtable.ShellWord(s.ID)
		}
		r.add(p)
	}
	r.count += k.Damaged - len(k.Damage) // problems that are not listed
	if k.Torn > 0 && k.Lines > 0 {
		r.add(sessionProblem{Kind: problemTorn, ID: s.ID, File: s.Path, Line: k.TornLine, Offset: k.TornAt, Bytes: k.Torn,
			Message: fmt.Sprintf("%s: line %d (offset %d): torn tail of %s", s.Path, k.TornLine, k.TornAt, display.Plural(k.Torn, "byte", "bytes")),
			Remedy:  "nothing to do: the next write moves the bytes to a quarantine file"})
	}
	return k, nil
}

// sessionDamage returns the error for invalid sessions, with all problems.
func (c *app) sessionDamage(r *sessionsReport) error {
	p := cmp.Or(r.damage, r.forbidden)
	if p == nil {
		return nil
	}
	f := &cli.Failure{Code: cli.ExitCorrupt, Kind: p.Kind, Message: p.Message, Path: p.File, Remedy: p.Remedy, More: r}
	switch p.Kind {
	case problemBad:
		f.Offset = &p.Offset
	case problemForbidden:
		f.Code = cli.ExitPermission
	}
	if c.JSON {
		return f
	}
	left := r.count - 1
	for i := range r.Problems {
		if o := &r.Problems[i]; *o != *p && left > max(0, r.count-1-maxWarnings) {
			c.Warn(o.Message + "; " + o.Remedy)
			left--
		}
	}
	if left > 0 {
		c.Warn(fmt.Sprintf("and %s", display.Plural(left, "more problem", "more problems")))
	}
	return f
}
