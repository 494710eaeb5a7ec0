package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/sessionlog"

	"github.com/spf13/cobra"
)

func sessionsCommand(c *app) *cobra.Command {
	return family(&cobra.Command{
		Use:     "sessions COMMAND",
		GroupID: groupTalk,
		Short:   "manage session logs",
		Long: `A session is the log of one conversation: an append-only file of JSON lines in
sessions/ in the home directory. These commands list, show, search, tail, title,
delete, restore, export, import, verify, and repair sessions.

ID is a session ID such as crab_user_1, or the full file name. A new title does
not change the ID. Reading takes no lock and works during an active run.`,
		Example: `  crabmem sessions list
  crabmem sessions show crab_user_1
  crabmem sessions search "which port" --agent crab`,
	},
		sessionsListCommand(c),
		sessionsShowCommand(c),
		sessionsSearchCommand(c),
		sessionsTailCommand(c),
		sessionsTitleCommand(c),
		sessionsDeleteCommand(c),
		sessionsRestoreCommand(c),
		sessionsExportCommand(c),
		sessionsImportCommand(c),
		sessionsVerifyCommand(c),
		sessionsRepairCommand(c),
		sessionsCompactionsCommand(c),
	)
}

// sessionsPath returns where the sessions are.
func (c *app) sessionsPath() string { return filepath.Join(c.homeDir(), "sessions") }

// openSessions opens the folder of sessions. With mustExist a missing folder is
// an error.
func (c *app) openSessions(command string, mustExist bool) (*sessionlog.Dir, error) {
	path := c.sessionsPath()
	wait := c.access().Step() // localOrDaemon tries again
	if command == "import" {
		wait = c.lockWait // no daemon has imported sessions open
	}
	d, err := sessionlog.OpenDir(path, &sessionlog.Options{
		FS: c.fs, LockWait: wait, Command: "crabmem sessions " + command, Now: c.now, Warn: c.Warn,
	})
	if err == nil {
		fi, lerr := c.fs.Lstat(d.Path())
		switch {
		case missing(lerr) && mustExist:
			return nil, &cli.Failure{Code: cli.ExitNotFound, Kind: "no_sessions", Message: d.Path() + ": no sessions", Path: d.Path(), Err: lerr,
				Remedy: "run crabmem sessions import to import sessions of other tools, or set another home with --home or CRABTALK_HOME"}
		case missing(lerr):
		case lerr != nil:
			err = lerr
		case !fi.IsDir():
			err = syscall.ENOTDIR
		}
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok && e.Op == "resolve" {
		return nil, &cli.Failure{Code: cli.ExitNotFound, Kind: "no_sessions", Message: err.Error(), Path: path, Err: err,
			Remedy: "restore the target of the link, or remove the link"}
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, &cli.Failure{Code: cli.ExitCorrupt, Kind: "format", Message: path + ": not a directory", Path: path, Err: err,
			Remedy: "set the home with --home or CRABTALK_HOME"}
	}
	return d, err
}

// readSessions runs f on the folder of sessions, which must be there.
func (c *app) readSessions(f func(d *sessionlog.Dir) error) error {
	d, err := c.openSessions("", true)
	if err != nil {
		return err
	}
	return errors.Join(f(d), d.Close())
}

// writeSessions runs f, which changes the folder of sessions. Completed changes
// are durable, even if a later step fails.
func (c *app) writeSessions(command string, mustExist bool, f func(d *sessionlog.Dir) error) error {
	path := c.sessionsPath()
	if err := c.tighten(filepath.Dir(path), path); err != nil {
		return err
	}
	d, err := c.openSessions(command, mustExist)
	if err != nil {
		return err
	}
	return errors.Join(f(d), d.Close())
}

// onSession changes a session with f, or in the daemon if it has the session open.
func (c *app) onSession(ctx context.Context, d *sessionlog.Dir, f func(op.Caller) error) error {
	here := op.SessionsOf(d, c.logger())
	return c.localOrDaemon(ctx,
		func() error { return c.Wait(ctx, func() error { return aboutSession(f(here)) }) },
		func(h client.Daemon) bool { return h.SessionsDir == d.Path() },
		func(daemon *client.Client) error { return f(daemon) })
}

// readSession runs f on a session.
func (c *app) readSession(id string, f func(s *sessionlog.Session) error) error {
	return c.readSessions(func(d *sessionlog.Dir) error {
		s, err := d.Read(id)
		if err != nil {
			return aboutSession(err)
		}
		return errors.Join(f(s), s.Close())
	})
}

// aboutSession adds a remedy to an error, for a command with a session as
// argument.
func aboutSession(err error) error {
	if !errors.Is(err, vfs.ErrNotRegular) {
		return err
	}
	f := classify(err)
	f.Remedy = "move it out of the directory: a session is a regular file"
	return f
}

// completeSessions completes the first n arguments with ids of sessions, or of
// those in the trash; n < 0 is every argument.
func (c *app) completeSessions(n int, trash bool) cobra.CompletionFunc {
	return completeWith(n, func(_ context.Context, found *candidates) {
		_ = c.readSessions(func(d *sessionlog.Dir) error { // no folder, no ids
			list, err := listSessions(d, trash)
			for _, i := range list {
				hint := cli.FirstLine(i.Meta.Title)
				if i.Meta.Title == "" {
					hint = fmt.Sprintf("%s, %s", i.Modified.Format(time.DateOnly), display.Plural(i.Messages, "message", "messages"))
				}
				found.describe(i.ID, hint)
			}
			return err
		})
	})
}

const keptRemedy = "compare it with the session, then move or remove it"

// keptMessage describes a copy that a writer kept.
func keptMessage(k sessionlog.Kept) string {
	return fmt.Sprintf("%s: a writer of session %s kept this copy because another program changed its files", k.Path, k.ID)
}

// addKept adds the copies that writers of a session, or of any if id is empty,
// kept.
func (r *sessionsReport) addKept(d *sessionlog.Dir, id string) error {
	kept, err := d.Kept(id)
	for _, k := range kept {
		r.add(sessionProblem{Kind: problemKept, ID: k.ID, File: k.Path, Message: keptMessage(k), Remedy: keptRemedy})
	}
	return err
}
