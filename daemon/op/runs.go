package op

import (
	"context"
	"net/http"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
	"crabmem/daemon/session"
)

// Message is a message to an agent.
//
// Its session is the loaded one with the number Number, else the one with the ID
// Session, else a new one if New is set, else the latest of Agent and Sender.
type Message struct {
	Content string `json:"content"`
	Agent   string `json:"agent,omitempty"`  // empty: the session's, or crab
	Sender  string `json:"sender,omitempty"` // empty: the session's creator
	Number  uint64 `json:"number,omitempty"`
	Session string `json:"session,omitempty"`
	New     bool   `json:"new,omitempty"`
	Dir     string `json:"dir,omitempty" op:"owner"` // absolute, for the agent's commands; empty: the session's
	Model   string `json:"model,omitempty"`          // for this run only; empty: the agent's
	Tag     string `json:"tag,omitempty"`            // agent.Event.Tag in the events for subscribers
	// Request identifies the message, of at most 255 bytes. A client that got no response
	// repeats the message with the ID, and the session contains it once: the daemon
	// returns the stored answer, or continues the turn.
	Request string `json:"request,omitempty"`
	// If After is not empty, the newest turn of the session must be that of the request
	// with this ID, and have an answer. Otherwise the error has the kind continued.
	After string `json:"after,omitempty"`
	// If Fresh is set, no earlier message had Request. The daemon then does not look for a
	// session that one created.
	Fresh bool `json:"fresh,omitempty"`
	// If Commands is set, the daemon refuses a content /NAME if no skill has this
	// name, and sends //NAME to the model as the text /NAME. Otherwise the model
	// receives both unchanged.
	Commands bool `json:"commands,omitempty"`
}

// Answer is the final message of a run.
type Answer struct {
	Agent    string           `json:"agent"`
	Content  string           `json:"content"`
	Session  string           `json:"session" jsonschema:"ID of the session"`
	Number   uint64           `json:"-" cbor:"number"` // of the session in the daemon
	Usage    agent.TokenUsage `json:"usage"`
	Repeated bool             `json:"repeated,omitempty" jsonschema:"an earlier request with this Idempotency-Key was answered so"`
}

// permitMessage checks that the identity is the sender of a message, and created its
// session. It makes the identity the sender if the message has none.
func permitMessage(d Daemon, in *Message) error {
	if in.Sender == "" {
		in.Sender = d.As.Name
	}
	switch {
	case in.Sender != d.As.Name:
		return d.As.Refused("send messages of %s", in.Sender)
	case in.Dir != "":
		return d.As.Refused("choose a working directory")
	case in.Number != 0:
		return d.OwnLoaded(in.Number)
	case in.Session != "":
		return d.OwnStored(in.Session)
	}
	return nil
}

// SendMessage runs an agent, which cannot ask the user.
var SendMessage = Add(errtable.Other, Op[Daemon, Message, Answer]{
	Name: "runs.send", Does: "Run an agent, and return its answer.", Effect: Manages, Need: NeedMessages, Permit: permitMessage, Files: true,
	Run: func(ctx context.Context, d Daemon, in *Message) (Answer, error) { return d.Converse(ctx, in, nil) },
})

// StreamMessage runs an agent. It sends agent.Start, and then the events of the run as
// they occur. If the client disconnects, the daemon cancels the run.
var StreamMessage = AddSeq(errtable.Other, Seq[Daemon, Message, agent.Event]{
	Name: "runs.stream", Does: "Run an agent, and send its events.", Effect: Manages, Need: NeedMessages, Permit: permitMessage, Files: true,
	Run: func(ctx context.Context, d Daemon, in *Message, send func(agent.Event) error) error {
		_, err := d.Converse(ctx, in, send)
		return err
	},
})

// EventFilter selects events. An empty field passes all.
type EventFilter struct {
	Session string `json:"session,omitempty"` // ID
	Agent   string `json:"agent,omitempty"`
}

// FollowEvents waits for events until the client disconnects.
var FollowEvents = AddSeq(errtable.Other, Seq[Daemon, EventFilter, agent.Event]{
	Name: "runs.follow", Does: "Send the events of all runs from now on.", Effect: Reads, Need: NeedOwn, Waits: true,
	Run: func(ctx context.Context, d Daemon, in *EventFilter, send func(agent.Event) error) error {
		return d.Follow(ctx, &d.As, *in, send)
	},
})

// SessionNumber is the number of a loaded session in the daemon.
type SessionNumber struct {
	Number uint64 `json:"number"`
}

// CancelRun ends the run of a loaded session.
var CancelRun = Add(errtable.Other, Op[Daemon, SessionNumber, None]{
	Name: "runs.cancel", Does: "End the run of a loaded session.", Effect: Manages, Need: NeedSession,
	Permit: func(d Daemon, in *SessionNumber) error { return d.OwnLoaded(in.Number) },
	Run: func(_ context.Context, d Daemon, in *SessionNumber) (None, error) {
		l, err := d.Loaded.Get(in.Number)
		if err != nil {
			return None{}, errtable.Errorf(http.StatusNotFound, "not_found", "session %d not found", in.Number)
		}
		l.Cancel(session.ErrCancelled)
		return None{}, nil
	},
})

// Reply is the reply to the question of a session's run.
type Reply struct {
	Number  uint64 `json:"number"`
	Content string `json:"content"`
}

// ReplyToRun answers the question of a run.
var ReplyToRun = Add(errtable.Other, Op[Daemon, Reply, None]{
	Name: "runs.reply", Does: "Answer the question of a loaded session's run.", Effect: Manages, Need: NeedSession,
	Permit: func(d Daemon, in *Reply) error { return d.OwnLoaded(in.Number) },
	Run: func(ctx context.Context, d Daemon, in *Reply) (None, error) {
		return None{}, d.Roles.Reply(ctx, in.Number, d.As.Name, in.Content)
	},
})
