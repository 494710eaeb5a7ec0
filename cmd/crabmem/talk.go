package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"

	"github.com/spf13/cobra"
)

// talk is a conversation: with which agent, in which session, by which model.
// The session is known by its file, so that a daemon that was started again
// goes on with it.
type talk struct {
	client *client.Client
	end    func() error // of the daemon in this process; nil without one

	agent  string // "" is the session's own, or crab
	model  string // "" is the agent's
	dir    string // where the agent's commands run
	stored string // "" before it is known
	fresh  bool   // the next run begins a session

	live atomic.Uint64 // the session's number while a run shows something
}

// talkFlags say which conversation it is.
type talkFlags struct {
	agent, model, session, dir string
	fresh                      bool
}

func (f *talkFlags) register(c *app, cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.agent, "agent", "", "talk to this `agent` (default: crab, or the session's)")
	fl.StringVar(&f.model, "model", "", "answer with this `model`; offline needs no daemon")
	fl.StringVar(&f.session, "session", "", "go on with this `session`: its id, or its file's name")
	fl.BoolVar(&f.fresh, "new", false, "begin a session")
	fl.StringVar(&f.dir, "cwd", "", "the `directory` the agent works in (default: this one)")
	_ = cmd.RegisterFlagCompletionFunc("session", c.completeSessions(-1, false))
}

// startTalk finds the daemon. Without one the model offline is served here.
func (c *app) startTalk(ctx context.Context, f *talkFlags) (*talk, error) {
	t := &talk{agent: f.agent, model: f.model, stored: f.session, fresh: f.fresh}
	var err error
	if t.dir, err = absolute(f.dir); err != nil {
		return nil, err
	}
	t.client, _, err = c.running(ctx)
	if f, ok := errors.AsType[*cli.Failure](err); ok && f.Kind == "no_daemon" {
		if t.model == config.Offline {
			t.client, t.end, err = c.serveHere(ctx)
		} else {
			f.Remedy += "; --model offline needs none"
		}
	}
	if err != nil {
		return nil, said(err)
	}
	return t, nil
}

// close ends what the conversation has open.
func (t *talk) close() error {
	err := t.client.Close()
	if t.end != nil {
		err = errors.Join(err, t.end())
	}
	return err
}

// endWait is how long others may go on with their requests when the daemon of
// this process ends.
const endWait = 2 * time.Second

// serveHere runs the daemon in this process until end is called. Others find it
// at the home's socket, as they would find any: it has the store's lock.
func (c *app) serveHere(ctx context.Context) (cl *client.Client, end func() error, err error) {
	home, err := c.homeDir()
	if err != nil {
		return nil, nil, err
	}
	store, err := c.storePath()
	if err != nil {
		return nil, nil, err
	}
	v, _ := buildVersion()
	until := time.Now().Add(c.lockWait)
	var d *daemon.Daemon
	for {
		d, err = daemon.Open(daemon.Options{Home: home, Store: store, FS: c.fs, Getenv: c.Getenv, Version: v, Now: c.now, LockWait: c.lockWait})
		if !errors.Is(err, daemon.ErrRunning) {
			break
		}
		// Somebody else has just begun, or is about to end.
		if cl, _, rerr := c.running(ctx); rerr == nil {
			return cl, nil, nil
		} else if isUnresponsive(rerr) {
			return nil, nil, rerr
		}
		if ctx.Err() != nil || time.Now().After(until) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return nil, nil, c.about(home, err)
	}
	if home, err = c.fs.Resolve(home); err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	path := daemon.Socket(home)
	l, err := wire.ListenUnix(c.fs, path)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
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
		return errors.Join(err, d.Close())
	}
	return &client.Client{Addr: wire.Addr{Network: "unix", Address: path}}, end, nil
}

// cancelWait is how long a run may take to end after it was asked to. Then the
// connection is closed, which ends it too.
const cancelWait = time.Second

// say sends a message and shows what happens until the run has ended. When ctx
// ends the run is cancelled: what was said until then is in the session.
func (t *talk) say(ctx context.Context, text string, show func(*pb.StreamEvent)) error {
	m := &pb.StreamMsg{Agent: t.agent, Content: text, Cwd: &t.dir}
	if t.model != "" {
		m.Model = &t.model
	}
	switch {
	case t.fresh:
		m.NewChat = true
	case t.stored != "":
		m.ResumeFile = &t.stored
	}
	t.live.Store(0)
	run, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	cancelled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		t.cancel(run, hangUp)
	})
	defer func() {
		hangUp()
		if !stop() {
			<-cancelled
		}
	}()
	var session uint64
	for e, err := range t.client.Stream(run, m) {
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return said(err)
		}
		if s := e.GetStart(); s != nil {
			session = s.Session
			if s.StoredId != "" {
				t.stored, t.fresh = s.StoredId, false
			}
		} else {
			t.live.Store(session) // it is this run's turn
		}
		show(e)
	}
	return context.Cause(ctx)
}

// cancel ends the run that is going on. One that waits for others in its
// session is ended by hanging up: to cancel would end that of the others.
func (t *talk) cancel(run context.Context, hangUp func()) {
	defer hangUp()
	id := t.live.Load()
	if id == 0 {
		return
	}
	ctx, stop := context.WithTimeout(run, cancelWait)
	defer stop()
	if t.client.Cancel(ctx, id) == nil {
		<-ctx.Done()
	}
}

// said makes what the daemon answered, and what came in between, an error of
// the command line.
func said(err error) error {
	if err == nil || errors.As(err, new(*cli.Failure)) || errors.As(err, new(*interrupted)) {
		return err
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		f := &cli.Failure{Code: cli.ExitFailure, Kind: e.Kind, Message: e.Message, Path: e.Path, Offset: e.Offset, Remedy: e.Remedy, Err: err}
		if f.Kind == "" {
			f.Kind = "failed"
		}
		switch {
		case e.ExitCode > 0:
			f.Code = e.ExitCode
		case e.Kind == "not_found" || e.Kind == "unknown_agent" || e.Kind == "unknown_model":
			f.Code = cli.ExitNotFound
		case e.Kind == "invalid":
			f.Code = cli.ExitUsage
		case e.Kind == "read_only" || e.Kind == "locked" || e.Kind == "busy" || e.Kind == "ambiguous":
			f.Code = cli.ExitConflict
		case e.Kind == "format":
			f.Code = cli.ExitCorrupt
		}
		if f.Remedy == "" {
			f.Remedy = talkRemedies[e.Kind]
		}
		return f
	}
	var lost net.Error
	switch {
	case errors.As(err, new(*client.NoDaemonError)), errors.As(err, new(*client.SkewError)):
		return needs(err)
	case errors.Is(err, wire.ErrClosed), errors.Is(err, wire.ErrTruncated), errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET), errors.As(err, &lost):
		return &cli.Failure{Code: cli.ExitUnreachable, Kind: "lost", Message: "the connection to the daemon was lost: " + err.Error(),
			Remedy: "crabmem daemon start, then say it again: what was said is in the session", Err: err}
	}
	return err
}

// talkRemedies say what helps, by the kind of the error.
var talkRemedies = map[string]string{
	"not_found":     "crabmem sessions list shows the ids",
	"unknown_agent": "name one of the agents in config.toml, or leave --agent out",
	"unknown_model": "name one of the models in config.toml, or offline",
	"model":         "check the provider in config.toml; --model offline answers without one",
	"exhausted":     "ask for less at once, or raise max_iterations of the agent",
	"read_only":     "begin a session of your own with --new: this one was imported",
	"format":        "crabmem sessions verify says what is wrong",
	"too_many":      "wait until others are done",
}

// reply is what came of a message, and what send --json answers.
type reply struct {
	Agent   string       `json:"agent"`
	Session uint64       `json:"session"`   // its number in the daemon
	Stored  string       `json:"stored_id"` // what --session takes
	Content string       `json:"content"`
	Usage   *replyUsage  `json:"usage"` // null when nothing was counted
	Error   *cli.Failure `json:"error"` // null when all went well

	text      strings.Builder
	step      bool // tools were called since text came
	compacted bool // the daemon says so in the text too
}

// replyUsage is counted in tokens, of the whole run.
type replyUsage struct {
	Prompt       uint64 `json:"prompt"`
	Completion   uint64 `json:"completion"`
	ContextLimit uint64 `json:"context_limit"`
	Estimated    bool   `json:"estimated"`

	context uint64 // how full it is
}

// compactedNote is what the daemon writes into the answer for clients that do
// not know of compaction.
const compactedNote = "\n[context compacted]\n"

// add takes an event in and returns the text that it adds to what is shown.
// The content is what was said last, after the tools.
func (r *reply) add(e *pb.StreamEvent) string {
	switch {
	case e.GetStart() != nil:
		r.Agent, r.Session, r.Stored = e.GetStart().Agent, e.GetStart().Session, e.GetStart().StoredId
		if r.Agent == "" {
			r.Agent = config.Crab
		}
	case e.GetChunk() != nil:
		text := e.GetChunk().Content
		if r.compacted && text == compactedNote {
			r.compacted = false
			return ""
		}
		if r.step {
			r.text.Reset()
			r.step = false
		}
		r.text.WriteString(text)
		return text
	case e.GetToolsComplete() != nil:
		r.step = true
	case e.GetCompacted() != nil:
		r.compacted = true
	case e.GetUsage() != nil:
		if r.Usage == nil {
			r.Usage = &replyUsage{}
		}
		u := e.GetUsage()
		r.Usage.Prompt += u.Prompt
		r.Usage.Completion += u.Completion
		r.Usage.ContextLimit, r.Usage.context = u.ContextLimit, u.Prompt+u.Completion
		r.Usage.Estimated = r.Usage.Estimated || u.Estimated
	}
	return ""
}

func (r *reply) done(err error) {
	r.Content = r.text.String()
	if err != nil {
		r.Error = classify(err)
	}
}

// usageLine says how much was used.
func usageLine(u *replyUsage) string {
	if u == nil {
		return ""
	}
	about := ""
	if u.Estimated {
		about = "about "
	}
	s := fmt.Sprintf("%s%s in, %d out", about, cli.Plural(u.Prompt, "token", "tokens"), u.Completion)
	if u.ContextLimit > 0 {
		s += fmt.Sprintf(", context %d %%", u.context*100/u.ContextLimit)
	}
	return s
}

// absolute makes the name of a directory one that the daemon understands.
func absolute(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", cli.Usagef("--cwd %s: %v", dir, err)
	}
	return abs, nil
}
