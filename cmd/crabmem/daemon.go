package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/doctor"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"

	"github.com/spf13/cobra"
)

func daemonCommand(c *app) *cobra.Command {
	var log string
	var verbose bool
	cmd := &cobra.Command{
		Use:     "daemon",
		GroupID: groupAgents,
		Short:   "run the agent daemon in the foreground",
		Long: `Run agents with sessions, memory, and tools. Clients connect to daemon.sock in
the home directory, and over TCP if config.toml enables it. The daemon logs to
standard error; --log writes to a file.

Without a configuration the daemon runs one agent, crab, with the model offline,
which answers from memory only. Run crabmem init to configure a model.

SIGTERM or Ctrl+C stops the daemon. It rejects new requests and waits up to
[limits] drain for active runs. SIGHUP makes it read the configuration, agents,
and skills again, as crabmem daemon reload does. A home has one daemon; a second
exits with 4. Use crabmem daemon start to run the daemon in the background.`,
		Example: `  crabmem daemon start
  crabmem daemon status
  crabmem daemon restart
  crabmem daemon reload
  crabmem daemon logs -n 20
  crabmem daemon stop`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&log, "log", "", "log to this `file` instead of standard error; [log] limits its size")
	cmd.PersistentFlags().BoolVarP(&verbose, "verbose", "v", false, "also log every request")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.daemon(cmd.Context(), log, verbose)
	}
	cmd.SuggestionsMinimumDistance = 2
	addCommands(cmd, daemonStart(c, &verbose), daemonStop(c), daemonRestart(c, &verbose), daemonReload(c), daemonStatus(c), c.logsCommand(c.daemonLog))
	return c.outputs(cmd, of[daemonState]())
}

// gcPercent is a variable, as the tests run many daemons in one process.
var gcPercent = 25

func (c *app) daemon(ctx context.Context, log string, verbose bool) (err error) {
	home := c.homeDir()
	store := c.storePath()
	to := c.Stderr
	var file *rotatingLog
	if log != "" {
		if file, err = c.openLog(log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if verbose {
		o.Level = slog.LevelDebug
	}
	var h slog.Handler = slog.NewTextHandler(to, o)
	if c.JSON || log != "" {
		h = slog.NewJSONHandler(to, o)
	}
	logger := slog.New(h)
	v, _ := buildVersion()
	d, err := daemon.Open(daemon.Options{
		Home: home, Store: store, FS: c.fs, Getenv: c.Getenv, Log: logger, Version: v, Now: c.now, LockWait: c.lockWait,
		Reaches: func(conversation string) error { return c.reaches(home, conversation) }, Docs: sync.OnceValue(docPages),
	})
	if err != nil {
		if log != "" {
			logger.Error("the daemon did not start", "error", err)
		}
		return c.about(home, err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if file != nil {
		file.rotate(d.LogLimits())
	}
	c.serving.Store(true)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	go func() {
		for {
			select {
			case <-hangups:
				if err := d.Reload(); err != nil {
					logger.Error("the daemon keeps its configuration", "error", err)
				} else {
					logger.Info("reloaded the configuration, agents, and skills")
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	// The daemon runs permanently: memory matters more than the time to free
	// it.
	debug.SetGCPercent(gcPercent)
	err = d.Serve(ctx)
	if err != nil && log != "" {
		logger.Error("the daemon stopped", "error", err)
	}
	return err
}

func logFile(home string) string { return filepath.Join(home, "logs", "daemon.log") }

// client returns a client of the home's daemon. Its requests end when the daemon's process
// stops.
func (c *app) client() *client.Client {
	path := c.Getenv("CRABMEM_SOCKET")
	if path == "" || c.home != "" {
		path = daemon.Socket(c.homeDir())
	}
	d := &client.Client{Addr: wire.Addr{Network: "unix", Address: path}, Header: op.Header{By: actorOf("")}}
	d.Watch = func() error { return c.stopped(c.daemonPID(path)) }
	return d
}

// running requests the identity of the home's daemon, for up to
// client.HelloWait.
func (c *app) running(ctx context.Context) (*client.Client, client.Daemon, error) {
	if err := c.checkLocal(); err != nil {
		return nil, client.Daemon{}, err
	}
	cl := c.client()
	waiting, cancel := context.WithTimeout(ctx, client.HelloWait)
	defer cancel()
	h, err := cl.Hello(waiting)
	if err != nil {
		cl.Close()
		if client.IsTimeout(ctx, err) {
			return nil, h, c.unresponsive(c.daemonPID(cl.Addr.Address), client.HelloWait, err)
		}
		return nil, h, client.Unreachable(err)
	}
	return cl, h, nil
}

type daemonState struct {
	Running bool   `json:"running"`
	Pid     int    `json:"pid,omitempty"`
	Before  int    `json:"previous_pid,omitempty"` // of restart
	Home    string `json:"home"`
	Store   string `json:"store,omitempty"`
	Version string `json:"version,omitempty"`
	Started string `json:"started_at,omitempty"`
	Model   string `json:"model,omitempty"`
	Log     string `json:"log,omitempty"`

	UptimeSecs     uint64 `json:"uptime_secs,omitempty"`
	Agents         int    `json:"agents,omitempty"`
	LiveSessions   int    `json:"live_sessions"`
	ActiveSessions int    `json:"active_sessions"`
	Subscribers    int    `json:"subscribers"`
	MemoryBytes    uint64 `json:"memory_bytes,omitempty"`

	Vectors *crmem.VectorState `json:"vectors,omitempty"`
}

func newState(h client.Daemon) daemonState {
	return daemonState{Running: true, Pid: h.PID, Home: h.Home, Store: h.Store, Version: h.Version, Started: h.StartedAt, Model: h.Model}
}

func (s *daemonState) measure(st op.DaemonStats) {
	s.UptimeSecs, s.Agents, s.LiveSessions, s.ActiveSessions = st.UptimeSecs, st.Agents, st.LoadedSessions, st.ActiveSessions
	s.Subscribers, s.MemoryBytes, s.Vectors = st.Subscribers, st.MemoryBytes, st.Vectors
}

func daemonStop(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "stop",
		Short: "stop the daemon",
		Long: `Stop the daemon, and wait until it has exited. The daemon waits up to [limits]
drain for active runs, and keeps their output even if they do not finish.
Without a daemon the exit code is 8.`,
		Example: `  crabmem daemon stop
  crabmem daemon start && crabmem daemon stop --json`,
	}, func(ctx context.Context, _ []string) (daemonState, error) {
		cl, h, err := c.running(ctx)
		switch {
		case err == nil:
			cl.Close()
		case !errors.As(err, new(*client.SkewError)) || h.PID <= 0: // stop works for each version
			return daemonState{}, err
		}
		return daemonState{Pid: h.PID, Home: h.Home}, c.stopDaemon(ctx, h)
	}, func(s daemonState) { c.Say("stopped: pid %d", s.Pid) })
}

// stopDaemon terminates a daemon and waits until it has exited.
func (c *app) stopDaemon(ctx context.Context, h client.Daemon) error {
	p, err := os.FindProcess(h.PID)
	if err == nil {
		err = terminate(p)
	}
	if err != nil {
		return fmt.Errorf("pid %d: %w", h.PID, err)
	}
	return c.awaitExit(ctx, h)
}

// awaitExit waits until a daemon that drains has exited.
func (c *app) awaitExit(ctx context.Context, h client.Daemon) error {
	lock := filepath.Join(h.Home, "run", "daemon.lock")
	return c.Wait(ctx, func() error {
		for still := 0; ; {
			l, err := vfs.Acquire(c.fs, lock, time.Second)
			if err == nil {
				return l.Unlock()
			}
			if !errors.Is(err, vfs.ErrLocked) {
				return err
			}
			if err := c.stopped(h.PID); err == nil {
				still = 0
			} else if still++; still == client.WatchLimit {
				return err
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
	})
}

func daemonReload(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "reload",
		Short: "read the configuration, agents, and skills again",
		Long: `Make the daemon read config.toml, agents/*.md, and skills again. Sessions and
active runs continue; models of crabmem models add are removed. If config.toml
is invalid, the daemon keeps its configuration, and the exit code is 1. Problems
of one provider or agent are warnings. Keys such as [tcp] listen take effect
when the daemon restarts. Without a daemon the exit code is 8.`,
		Example: `  crabmem daemon reload
  crabmem daemon reload --json`,
	}, func(ctx context.Context, _ []string) (a configWritten, err error) {
		done, err := ask(ctx, c, op.ReloadConfig, op.None{})
		a = configWritten{Path: filepath.Join(c.homeDir(), config.File), Used: done.Used, Notes: []string{}}
		c.noteProblems(&a, doctor.ByDaemon(done.Problems))
		return a, err
	}, func(configWritten) { c.Say("reloaded the configuration, agents, and skills") })
}

func daemonStatus(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "status",
		Short: "show the state of the daemon",
		Long: `Show the daemon of this home: its process, model, sessions, and memory. Without
a daemon the exit code is 8.`,
		Example: `  crabmem daemon status
  crabmem daemon status --json`,
	}, func(ctx context.Context, _ []string) (s daemonState, err error) {
		cl, h, err := c.running(ctx)
		if err != nil {
			return s, err
		}
		defer cl.Close()
		st, err := op.ReadDaemonStats.Do(ctx, cl, op.None{})
		s = newState(h)
		s.Log = logFile(h.Home)
		s.measure(st)
		return s, err
	}, func(s daemonState) {
		row := func(name, text string) { fmt.Fprintf(c.Out, "%-9s %s\n", name, text) }
		row("pid", fmt.Sprint(s.Pid))
		row("home", display.Printable(s.Home))
		row("store", display.Printable(s.Store))
		row("version", display.Printable(s.Version))
		row("since", fmt.Sprintf("%s (%s)", display.TimeIn(s.Started, c.zone()), time.Duration(s.UptimeSecs)*time.Second))
		row("model", display.Printable(s.Model))
		row("agents", fmt.Sprint(s.Agents))
		row("sessions", fmt.Sprintf("%d loaded, %d with an active run", s.LiveSessions, s.ActiveSessions))
		row("memory", display.Size(int64(s.MemoryBytes)))
	})
}

// daemonLog returns the log of the home's daemon.
func (c *app) daemonLog() (string, error) { return logFile(c.homeDir()), nil }

// logsCommand prints a log.
func (c *app) logsCommand(file func() (string, error)) *cobra.Command {
	n, follow := 50, false
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "print the log of the daemon",
		Long: `Print the last lines of logs/daemon.log in the home directory: local time,
level, message, and attributes. --json prints the lines as in the file, one
object per line. --follow also prints new lines until Ctrl+C. The daemon renames
a long log to daemon.log.1; [log] in config.toml sets the size and the number to
keep.`,
		Example: `  crabmem daemon logs
  crabmem daemon logs -n 5`,
	}
	cmd.Flags().IntVarP(&n, "lines", "n", n, "print the last `N` lines")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "also print new lines")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if n < 0 {
			return cli.Usagef("--lines %d: want 0 or more", n)
		}
		file, err := file()
		if err != nil {
			return err
		}
		return c.showLog(cmd.Context(), file, n, follow)
	}
	return c.outputs(cmd, of[logRecord]())
}

// pingAnswer is ping --json.
type pingAnswer struct {
	Micros  int64  `json:"microseconds"` // there and back
	Pid     int    `json:"pid"`
	Version string `json:"version"`
}

func pingCommand(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "ping",
		GroupID: groupAgents,
		Short:   "measure the response time of the daemon",
		Long: `Send a request to the daemon, and print how long the response took. Without a
daemon the exit code is 8.`,
		Example: `  crabmem ping
  crabmem ping --json`,
	}, func(ctx context.Context, _ []string) (a pingAnswer, err error) {
		err = c.withDaemon(ctx, func(d *client.Client) error {
			h, err := d.Hello(ctx) // connects
			if err != nil {
				return err
			}
			start := time.Now()
			err = d.Ping(ctx)
			a = pingAnswer{time.Since(start).Microseconds(), h.PID, h.Version}
			return err
		})
		return a, err
	}, func(a pingAnswer) {
		c.Say("pong from pid %d in %v", a.Pid, time.Duration(a.Micros)*time.Microsecond)
	})
}
