package chat

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"crabmem/daemon/client"
)

// MaxMessage bounds a message to an agent, in bytes.
const MaxMessage = 4 << 20

// Conversation is a conversation: with which agent, in which session, by which model.
// The session is known by its file, so that a daemon that was started again
// goes on with it.
type Conversation struct {
	Client *client.Client
	End    func() error // of the daemon in this process; nil without one
	// Explain makes an error of the client one of the command line.
	Explain func(error) error

	Agent  string // "" is the session's own, or crab
	Model  string // "" is the agent's
	Dir    string // where the agent's commands run
	Stored string // the session's file; "" before it is known
	Fresh  bool   // the next run begins a session

	live atomic.Uint64 // the session's number while a run shows something
}

// Close ends what the conversation has open.
func (t *Conversation) Close() error {
	err := t.Client.Close()
	if t.End != nil {
		err = errors.Join(err, t.End())
	}
	return err
}

// cancelWait is how long a run may take to end after it was asked to. Then the
// connection is closed, which ends it too.
const cancelWait = time.Second

// Say sends a message and shows what happens until the run has ended. When ctx
// ends the run is cancelled: what was said until then is in the session.
func (t *Conversation) Say(ctx context.Context, text string, show func(*client.Event)) error {
	m := client.Message{Agent: t.Agent, Content: text, Dir: t.Dir, Model: t.Model}
	switch {
	case t.Fresh:
		m.NewChat = true
	case t.Stored != "":
		m.StoredID = t.Stored
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
	for e, err := range t.Client.Stream(run, m) {
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return t.Explain(err)
		}
		if e.Kind == "start" {
			session = e.Session
			if e.StoredID != "" {
				t.Stored, t.Fresh = e.StoredID, false
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
func (t *Conversation) cancel(run context.Context, hangUp func()) {
	defer hangUp()
	id := t.live.Load()
	if id == 0 {
		return
	}
	ctx, stop := context.WithTimeout(run, cancelWait)
	defer stop()
	if t.Client.Cancel(ctx, id) == nil {
		<-ctx.Done()
	}
}
