package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon"
	"crabmem/daemon/client"
	"crabmem/daemon/display"

	"github.com/spf13/cobra"
)

// startWait limits the wait for a daemon to respond: it may have to replay a
// long log.
const startWait = 30 * time.Second

func daemonStart(c *app, verbose *bool) *cobra.Command {
	started := false
	return resultCommand(c, &cobra.Command{
		Use:   "start",
		Short: "start the daemon in the background",
		Long: `Start the daemon in the background, and wait until it answers. The daemon keeps
running after you close the terminal, and logs to logs/daemon.log in the home
directory. If the daemon is already running, start exits with 0.`,
		Example: `  crabmem daemon start
  crabmem daemon start --json`,
	}, func(ctx context.Context, _ []string) (daemonState, error) {
		home := c.absHome()
		cl, h, err := c.running(ctx)
		switch {
		case err == nil:
			cl.Close() //nolint:errcheck // it has responded
		case !isUnresponsive(err):
			started = true
			h, err = c.startDaemon(ctx, home, *verbose)
		}
		s := newState(h)
		s.Log = logFile(home)
		return s, err
	}, func(s daemonState) {
		what := "the daemon is already running"
		if started {
			what = "started"
		}
		c.Say("%s: pid %d, %s", what, s.Pid, display.Printable(daemon.Socket(s.Home)))
	})
}

// startDaemon starts a daemon in the background and waits until it responds.
func (c *app) startDaemon(ctx context.Context, home string, verbose bool) (h client.Daemon, err error) {
	exe, err := os.Executable()
	if err != nil {
		return h, err
	}
	log := logFile(home)
	// A daemon that cannot write the log could not report errors.
	l, err := c.openLog(log)
	if err != nil {
		return h, err
	}
	if err := l.Close(); err != nil {
		return h, err
	}
	before := c.fileSize(log)
	run := c.daemonArgs(home)
	if verbose {
		run = append(run, "--verbose")
	}
	child := exec.Command(exe, run...)
	child.SysProcAttr = detached()
	child.Dir = string(filepath.Separator)
	if err := child.Start(); err != nil {
		return h, err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }() // ends with the child, or with this process
	late := time.After(startWait)
	for {
		if cl, h, err := c.running(ctx); err == nil {
			cl.Close() //nolint:errcheck // it has responded
			return h, nil
		}
		select {
		case err := <-ended:
			return h, c.notStarted(err, log, before)
		case <-late:
			return h, &cli.Failure{Code: cli.ExitUnreachable, Kind: "no_daemon", Path: log, Message: fmt.Sprintf("start daemon: pid %d did not respond within %s", child.Process.Pid, startWait),
				Remedy: "run crabmem daemon logs"}
		case <-ctx.Done():
			return h, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// fileSize returns the size of a file, or 0 if it cannot be read.
func (c *app) fileSize(name string) int64 {
	fi, err := c.fs.Lstat(name)
	if err != nil {
		return 0
	}
	return fi.Size()
}

// notStarted adds the daemon's last log error to the error of a daemon that
// exited during its start.
func (c *app) notStarted(err error, log string, from int64) error {
	f := &cli.Failure{Code: cli.ExitFailure, Kind: "failed", Path: log, Message: "start daemon: process exited before it responded", Remedy: "run crabmem daemon logs"}
	if e, ok := errors.AsType[*exec.ExitError](err); ok && e.ExitCode() > 0 {
		f.Code = e.ExitCode()
	}
	b, rerr := c.tailOf(log, from)
	if rerr == nil {
		if lines := strings.Split(strings.TrimSpace(string(b)), "\n"); lines[len(lines)-1] != "" {
			f.Message += ": " + lastError(lines[len(lines)-1])
		}
	}
	return f
}

// lastError returns the error in a line of a log.
func lastError(line string) string {
	_, rest, ok := strings.Cut(line, `"error":`)
	if !ok {
		return line
	}
	text, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return line
	}
	if text, err = strconv.Unquote(text); err != nil {
		return line
	}
	return text
}

// tailOf returns the bytes that were added to a file, at most the last 64 KiB.
func (c *app) tailOf(name string, from int64) ([]byte, error) {
	f, err := c.fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if from > fi.Size() {
		from = 0 // the file was recreated
	}
	from = max(from, fi.Size()-64<<10)
	return io.ReadAll(io.NewSectionReader(f, from, fi.Size()-from))
}
