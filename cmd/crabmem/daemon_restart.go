package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/service"

	"github.com/spf13/cobra"
)

func daemonRestart(c *app, verbose *bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restart",
		Short: "stop and start the daemon",
		Long: `Stop the daemon, wait until it has exited, and start it in the background, as
stop and start do. The daemon waits up to [limits] drain for active runs. It
keeps its store unless --db names another one. If no daemon is running, restart
only starts one. The system restarts a daemon that runs as a service.

restart checks the configuration first; if it is not valid, the daemon keeps
running, and the exit code is 1.`,
		Example: `  crabmem daemon restart
  crabmem daemon restart --json`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		cl, h, err := c.running(ctx)
		switch {
		case err == nil:
			cl.Close() //nolint:errcheck // it has responded
		case errors.As(err, new(*client.SkewError)) && h.PID > 0: // restart works for each version
		case isUnresponsive(err), errors.As(err, new(*client.SkewError)):
			return err
		default:
			h = client.Daemon{}
		}
		home := c.absHome()
		s := c.daemonService()
		if managed, err := c.isManaged(s, h); err != nil {
			return err
		} else if managed {
			return c.restartService(ctx, s, h)
		}
		if h.Home != "" {
			home = h.Home // CRABMEM_SOCKET may name the daemon of another home
		}
		if c.db == "" {
			c.db = h.Store
		}
		if err := c.checkRestart(home, h); err != nil {
			return err
		}
		if h.PID > 0 {
			if err := c.stopDaemon(ctx, h); err != nil {
				return err
			}
		}
		after, err := c.startDaemon(ctx, home, *verbose)
		if err != nil {
			return err
		}
		return c.restarted(h.PID, after)
	}
	return cmd
}

// checkRestart returns an error if a daemon is running and the configuration is
// invalid: the new daemon could not start.
func (c *app) checkRestart(home string, h client.Daemon) error {
	_, err := config.Load(c.fs, home, c.Getenv)
	if err == nil || h.PID <= 0 {
		return nil // start reports the problems
	}
	f := classify(err)
	f.Message = fmt.Sprintf("restart daemon: pid %d keeps running: %s", h.PID, f.Message)
	f.Remedy = "run crabmem config check, fix the configuration, then retry"
	return f
}

// maxDefinition limits the file of a service, in bytes.
const maxDefinition = 1 << 20

// isManaged reports whether the installed service runs the daemon h. If no daemon is
// running, it reports whether the service is for the home of this command.
func (c *app) isManaged(s *service.Service, h client.Daemon) (bool, error) {
	file, ok, err := s.Installed()
	if err != nil || !ok {
		return false, err
	}
	if home, err := c.fs.Resolve(s.Home); h.Home != "" && (err != nil || home != h.Home) {
		return false, err
	}
	text, err := vfs.ReadFile(c.fs, file, maxDefinition)
	if err != nil {
		return false, err
	}
	if _, want, err := s.Render(); err != nil || bytes.Equal(text, want) {
		return err == nil, err
	}
	_, rest, ok := bytes.Cut(text, []byte(s.Home))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte("\"'< \n"), rest[0]) >= 0), nil
}

// restartService makes the system stop and start the daemon of a service. It also
// stops a daemon of the home that the system did not start.
func (c *app) restartService(ctx context.Context, s *service.Service, h client.Daemon) error {
	if h.PID > 0 {
		if err := c.Wait(ctx, func() error { return s.End(ctx) }); err != nil {
			return c.aboutService(err)
		}
		if err := c.stopRemaining(ctx, h); err != nil {
			return err
		}
	}
	if err := c.Wait(ctx, func() error { return s.Launch(ctx) }); err != nil {
		return c.aboutService(err)
	}
	st := serviceState{Log: logFile(s.Home)}
	if err := c.answers(ctx, &st); err != nil {
		return err
	}
	cl, after, err := c.running(ctx)
	if err != nil {
		return err
	}
	cl.Close() //nolint:errcheck // it has responded
	return c.restarted(h.PID, after)
}

// endedWait limits the wait until a daemon that the system stops rejects requests.
const endedWait = 2 * time.Second

// stopRemaining waits until the daemon h has exited. If h still accepts requests
// after endedWait, stopRemaining stops it.
func (c *app) stopRemaining(ctx context.Context, h client.Daemon) error {
	late := time.After(endedWait)
	for {
		cl, now, err := c.running(ctx)
		if cl != nil {
			cl.Close() //nolint:errcheck // it has responded
		}
		if err != nil || now.PID != h.PID {
			return c.awaitExit(ctx, h)
		}
		select {
		case <-late:
			return c.stopDaemon(ctx, h)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// restarted prints the result of a restart. before is 0 if no daemon was running.
func (c *app) restarted(before int, h client.Daemon) error {
	s := newState(h)
	s.Before, s.Log = before, logFile(h.Home)
	return c.printResult(s, func() {
		socket := display.Printable(daemon.Socket(h.Home))
		if before == 0 {
			c.Say("no daemon was running; started: pid %d, %s", h.PID, socket)
		} else {
			c.Say("restarted: pid %d was %d, %s", h.PID, before, socket)
		}
	})
}
