package chat

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// MaxMessage bounds a message to an agent, in bytes.
const MaxMessage = 4 << 20

// Conversation selects the agent, the session, and the model of messages. It
// names the session by its file, so that it survives a restart of the daemon.
type Conversation struct {
	Client interface { // of a daemon or a gateway
		op.Caller
		io.Closer
	}
	Remote bool         // Client is of a gateway: other sessions may have other creators
	End    func() error // ends the daemon in this process; nil if there is none
	// Explain returns the error of the command line for an error of the client.
	Explain func(error) error

	Agent  string // "" is the agent of the session, or crab
	Model  string // "" is the model of the agent
	Dir    string // working directory of the agent's commands
	Stored string // name of the session's file; "" before the first response
	Fresh  bool   // the next run creates a session
	Tag    string // names this client's runs in events

	Injected bool // show the texts from memory that precede a message

	unsure string // the new session whose only run failed: the daemon may have removed it

	live atomic.Uint64 // number of the session; 0 before the first event of a run
}

// Close closes the connection and ends the daemon in this process, if any.
func (t *Conversation) Close() error {
	err := t.Client.Close()
	if t.End != nil {
		err = errors.Join(err, t.End())
	}
	return err
}

// cancelWait limits the wait for a canceled run. Then Say closes the connection,
// which also ends the run.
const cancelWait = time.Second

// Say sends a message and calls show for each event until the run ends. If ctx
// ends, Say cancels the run; the session contains the messages so far.
//
// If the daemon refused the first message of a new session, it may have removed the
// session. Say then creates another session.
func (t *Conversation) Say(ctx context.Context, text string, show func(*agent.Event)) error {
	created := t.Fresh || t.Stored == "" || t.Stored == t.unsure
	err := t.say(ctx, text, show)
	if e, ok := errors.AsType[*client.Error](err); ok && e.Kind == "not_found" && t.Stored != "" && t.Stored == t.unsure && !strings.HasPrefix(text, "/") {
		t.Stored, t.Fresh = "", true
		err = t.say(ctx, text, show)
	}
	if t.unsure = ""; err != nil && created {
		t.unsure = t.Stored
	}
	return err
}

// say sends a message as Say does, but only to the current session.
func (t *Conversation) say(ctx context.Context, text string, show func(*agent.Event)) error {
	m := op.Message{Agent: t.Agent, Content: text, Dir: t.Dir, Model: t.Model, Tag: t.Tag, Commands: true}
	switch {
	case t.Fresh:
		m.New = true
	case t.Stored != "":
		m.Session = t.Stored
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
	for e, err := range op.StreamMessage.All(run, t.Client, m) {
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return t.Explain(err)
		}
		if e.Kind == agent.Start {
			session = e.Number
			if e.Session != "" {
				t.Stored, t.Fresh = e.Session, false
			}
		} else {
			t.live.Store(session) // the run holds the run slot
		}
		if e.Kind != agent.Injected || t.Injected {
			show(e)
		}
	}
	return context.Cause(ctx)
}

// cancel ends the active run. If the run still waits for the run slot, cancel
// only closes the connection: canceling the session would end another client's
// run.
func (t *Conversation) cancel(run context.Context, hangUp func()) {
	defer hangUp()
	id := t.live.Load()
	if id == 0 {
		return
	}
	ctx, stop := context.WithTimeout(run, cancelWait)
	defer stop()
	if _, err := op.CancelRun.Do(ctx, t.Client, op.SessionNumber{Number: id}); err == nil {
		<-ctx.Done()
	}
}
