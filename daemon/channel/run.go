package channel

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/box"
	"crabmem/daemon/op"
)

// run is a run of a turn.
type run struct {
	*worker
	turn   *box.Turn
	caller op.Caller
	number atomic.Uint64 // of the session in the daemon

	replying sync.Mutex    // held while an answer is sent, and while question changes
	question atomic.Uint64 // that the run asks; 0: no question

	session string // ID
	writing sync.Mutex
	text    strings.Builder // of the answer so far
	ended   bool            // calls of tools follow the text
	streams bool            // messages show the text
	due     time.Time       // the next message or edit

	shown map[uint64]string // texts of these messages, by seq; only serve uses them
}

// event adds an event to the run.
func (r *run) event(ctx context.Context, e agent.Event) error {
	switch e.Kind {
	case agent.Start:
		r.session = e.Session
		r.number.Store(e.Number)
	case agent.TextDelta:
		r.write(e.Content)
	case agent.ToolsComplete:
		r.ended = true
		return r.closeAsked(ctx)
	case agent.AskUser:
		return r.asked(e.Questions)
	case agent.Reply:
		return r.sendEarly(e.Content)
	}
	return nil
}

// serve sends texts and answers of a run until ctx ends.
func (r *run) serve(ctx context.Context) {
	for wait := firstWait; ctx.Err() == nil; {
		did, err := oneOf(r.send, r.unbutton, func() (bool, error) { return r.reply(ctx) }, r.answerWork, r.stream)
		switch {
		case err != nil && ctx.Err() == nil:
			r.Log.Error("a question pauses", "conversation", r.conversation, "wait", wait, "error", err)
			Pause(ctx, wait)
			wait = min(2*wait, maxWait)
		case did:
			wait = firstWait
		default:
			pause(ctx, r.dueIn(), r.woken)
		}
	}
}
