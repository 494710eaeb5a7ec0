package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"crabmem/cmd/crabmem/internal/chat"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"

	"github.com/spf13/cobra"
)

// talkFlags say which conversation it is.
type talkFlags struct {
	agent, model, session, dir string
	fresh, explain             bool
}

func (f *talkFlags) register(c *app, cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.agent, "agent", "", "talk to this `agent` (default: the session's, or crab)")
	fl.StringVar(&f.model, "model", "", "use this `model`; offline needs no provider and no daemon")
	fl.StringVar(&f.session, "session", "", "resume this `session`: its ID or file name")
	fl.BoolVar(&f.fresh, "new", false, "create a session")
	fl.BoolVar(&f.explain, "explain", false, "show the text from memory that inject adds to the message")
	fl.StringVar(&f.dir, "cwd", "", "run the agent in this `directory` (default: the current one)")
	_ = cmd.RegisterFlagCompletionFunc("session", c.completeSessions(-1, false))
}

// startTalk connects to the daemon. If no daemon runs, this process serves the home,
// provided that a model is configured or the model is offline.
func (c *app) startTalk(ctx context.Context, f *talkFlags) (*chat.Conversation, error) {
	t := &chat.Conversation{Agent: f.agent, Model: f.model, Stored: f.session, Fresh: f.fresh, Injected: f.explain, Explain: talkError}
	if c.remote != nil {
		t.Client, t.Remote = c.remote, true
		return t, nil
	}
	var err error
	if t.Dir, err = filepath.Abs(f.dir); err != nil {
		return nil, cli.Usagef("--cwd %s: %v", f.dir, err)
	}
	t.Client, _, err = c.running(ctx)
	if e, ok := errors.AsType[*errtable.Error](err); ok && e.Kind == "no_daemon" {
		direct, derr := c.needsNoDaemon(f)
		switch {
		case derr != nil:
			err = derr
		case direct:
			t.Client, t.End, err = c.serveHere(ctx, t.Model != config.Offline)
		default:
			e.Fix += "; --model offline needs no daemon; crabmem init configures a model"
		}
	}
	if err != nil {
		return nil, talkError(err)
	}
	return t, nil
}

// needsNoDaemon reports whether this process can serve the home itself. It cannot if
// CRABMEM_SOCKET names the daemon's socket, or if no model is configured.
func (c *app) needsNoDaemon(f *talkFlags) (bool, error) {
	if f.model == config.Offline {
		return true, nil
	}
	if c.Getenv("CRABMEM_SOCKET") != "" && c.home == "" {
		return false, nil
	}
	conf, err := c.loadConfig()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(conf.Providers, func(p config.Provider) bool { return len(p.Models) > 0 }), nil
}

// endWait limits the wait for other clients' requests when the daemon of this
// process ends.
const endWait = 2 * time.Second

// serveHere runs the daemon in this process until end is called. The daemon holds
// the store's lock and serves other clients at the home's socket, so a second
// command uses this daemon. It runs no cron entries and opens no port. If logs is
// set, it writes to the log file of the background daemon.
func (c *app) serveHere(ctx context.Context, logs bool) (cl *client.Client, end func() error, err error) {
	home := c.homeDir()
	store := c.storePath()
	v, _ := buildVersion()
	o := daemon.Options{Home: home, Store: store, FS: c.fs, Getenv: c.Getenv, Version: v, Now: c.now, LockWait: c.lockWait}
	closeLog := func() error { return nil }
	if logs {
		file, err := c.openLog(logFile(home))
		if err != nil {
			return nil, nil, err
		}
		o.Log, closeLog = slog.New(slog.NewJSONHandler(file, nil)), file.Close
	}
	d, cl, err := c.openHere(ctx, o)
	if err != nil || cl != nil {
		return cl, nil, errors.Join(err, closeLog())
	}
	return c.serveOn(d, home, closeLog)
}

// serveOn serves a daemon on its socket, and returns a client of it. end closes the
// daemon.
func (c *app) serveOn(d *daemon.Daemon, home string, closeLog func() error) (cl *client.Client, end func() error, err error) {
	if home, err = c.fs.Resolve(home); err != nil {
		return nil, nil, errors.Join(err, d.Close(), closeLog())
	}
	path := daemon.Socket(home)
	l, err := wire.ListenUnix(c.fs, path)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close(), closeLog())
	}
	server := &wire.Server{Handler: d.Handle}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	end = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), endWait)
		defer cancel()
		err := server.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil // their runs are kept as far as they came
		}
		err = errors.Join(err, <-served)
		if _, lerr := c.fs.Lstat(path); lerr == nil {
			err = errors.Join(err, c.fs.Remove(path))
		}
		return errors.Join(err, d.Close(), closeLog())
	}
	return &client.Client{Addr: wire.Addr{Network: "unix", Address: path}, Header: op.Header{By: actorOf("chat")}}, end, nil
}

// openHere opens the home. If another daemon serves the home, openHere returns a
// client of that daemon.
func (c *app) openHere(ctx context.Context, o daemon.Options) (d *daemon.Daemon, cl *client.Client, err error) {
	until := time.Now().Add(c.lockWait)
	for {
		d, err = daemon.Open(o)
		if !errors.Is(err, daemon.ErrRunning) {
			break
		}
		// Another daemon is starting or ending.
		if cl, _, rerr := c.running(ctx); rerr == nil {
			return nil, cl, nil
		} else if isUnresponsive(rerr) {
			return nil, nil, rerr
		}
		if ctx.Err() != nil || time.Now().After(until) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return nil, nil, c.about(o.Home, err)
	}
	return d, nil, nil
}

// talkError returns the error of a run, or of the connection during it, as an
// error of the command.
func talkError(err error) error {
	if err == nil || errors.As(err, new(*cli.Failure)) || errors.As(err, new(*errtable.Error)) || errors.As(err, new(*interrupted)) {
		return err
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		in := *e
		in.Family = errtable.Session // a run is in a session
		if fix := talkFixes[e.Kind]; e.Remedy == "" && fix != "" {
			in.Remedy = fix
		}
		f := classify(&in)
		f.Err = err
		return f
	}
	var lost net.Error
	switch {
	case errors.As(err, new(*client.NoDaemonError)), errors.As(err, new(*client.SkewError)):
		return client.Unreachable(err)
	case errors.Is(err, wire.ErrClosed), errors.Is(err, wire.ErrTruncated), errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET), errors.As(err, &lost):
		return &cli.Failure{Code: cli.ExitUnreachable, Kind: "lost", Message: "read response: connection to the daemon lost: " + err.Error(),
			Remedy: "run crabmem daemon start, then resend the message; the session contains the messages so far", Err: err}
	}
	return err
}

// talkFixes are the fixes of a run's errors for which the daemon reports no fix
// and package errtable has no fix, or a fix for another command.
var talkFixes = map[string]string{
	"unknown_agent": "use an agent from config.toml, or omit --agent",
	"unknown_model": "use a model from config.toml, or offline",
	"exhausted":     "send a smaller task, or raise max_iterations of the agent",
	"read_only":     "create a session with --new: this one was imported",
	"format":        chat.FormatRemedy,
	"locked":        "wait until the lock holder exits",
	"too_many":      "wait until other runs finish",
}
