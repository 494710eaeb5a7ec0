package channel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/channel"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/daemon/role"
)

// daemon is a daemon that answers messages as the real one: a request is one turn of a
// session, however often it is sent.
type daemon struct {
	mu          sync.Mutex
	lines       []string            // messages, as session user: text
	requests    map[string]bool     // that sessions contain, as session request
	created     map[string]string   // sessions, by the request that began them
	sessions    map[string][]string // by identity
	loaded      []op.Session
	calls       int
	pending     map[uint64]chan string // questions, by the session's number
	replies     []string               // that questions got
	busy        int                    // replies that fail for now
	lost        int                    // responses to replies that get lost
	rounds      time.Duration          // between a reply and the end of its round of tools
	results     map[string]string      // replies, by request: the session contains them
	texts       map[string]string      // answers, as requests
	work        []role.View            // of sessions
	answered    []string               // questions of work, with the identity
	canceled    []string               // work
	cancelError error
	events      chan agent.Event // for subscribers
	// reply returns the answer to a message. nil: the text in capitals.
	reply func(ctx context.Context, m *op.Message) (string, error)
	slow  time.Duration // of a run
	// lose makes the next responses get lost after the run.
	lose int
}

func (d *daemon) Call(ctx context.Context, row *op.Row, in, out any, part func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch row.Name {
	case "runs.stream":
		return d.send(ctx, in.(*op.Message), func(e agent.Event) error {
			*out.(*agent.Event) = e
			return part()
		})
	case "runs.reply":
		if err := d.answer(in.(*op.Reply)); err != nil {
			return err
		}
	case "sessions.loaded":
		*out.(*[]op.Session) = d.loaded
	case "work.list":
		*out.(*[]role.View) = d.list(in.(*op.WorkQuery))
	case "work.cancel":
		d.mu.Lock()
		d.canceled = append(d.canceled, in.(*op.WorkID).Session+" "+in.(*op.WorkID).Work)
		err := d.cancelError
		d.mu.Unlock()
		if err != nil {
			return err
		}
	case "runs.follow":
		return d.follow(ctx, func(e agent.Event) error {
			*out.(*agent.Event) = e
			return part()
		})
	default:
		return fmt.Errorf("unexpected operation %s", row.Name)
	}
	return part()
}

// emitKey is the context key of the function that sends an event of a run.
type emitKey struct{}

func (d *daemon) send(ctx context.Context, m *op.Message, emit func(agent.Event) error) error {
	d.mu.Lock()
	d.calls++
	a, own := op.Answer{Session: m.Session}, d.sessions[m.Sender]
	switch {
	case m.New && d.created[m.Request] != "":
		a.Session = d.created[m.Request]
	case m.New || a.Session == "" && len(own) == 0:
		a.Session = fmt.Sprintf("crab_%s_%d", strings.ReplaceAll(m.Sender, ":", "-"), len(own)+1)
		d.sessions[m.Sender], d.created[m.Request] = append(own, a.Session), a.Session
	case a.Session == "":
		a.Session = own[len(own)-1]
	}
	request := a.Session + " " + m.Request
	if !d.requests[request] { // another session does not contain the request
		d.requests[request] = true
		d.lines = append(d.lines, a.Session+": "+m.Content)
	}
	slow := d.slow
	d.mu.Unlock()
	if err := emit(agent.Event{Kind: agent.Start, Session: a.Session, Number: numberOf(m)}); err != nil {
		return err
	}
	channel.Pause(ctx, slow)
	d.mu.Lock()
	text, answered := d.texts[request]
	reply := d.reply
	d.mu.Unlock()
	var err error
	written := "" // before the end
	collect := func(e agent.Event) error {
		switch e.Kind {
		case agent.TextDelta:
			written += e.Content
		case agent.ToolsComplete:
			written = ""
		}
		return emit(e)
	}
	switch {
	case answered:
	case reply == nil:
		text = strings.ToUpper(m.Content)
	default:
		text, err = reply(context.WithValue(ctx, emitKey{}, collect), m)
	}
	d.mu.Lock()
	lost := d.lose > 0
	if lost {
		d.lose--
	}
	if err == nil && ctx.Err() == nil {
		d.texts[request] = written + text
	}
	d.mu.Unlock()
	if lost {
		return errors.New("the connection ended")
	}
	if err != nil || text == "" {
		return err
	}
	return emit(agent.Event{Kind: agent.TextDelta, Content: text})
}

// numberOf returns the number of a message's session.
func numberOf(m *op.Message) uint64 { return uint64(len(m.Sender)) + uint64(m.Sender[len(m.Sender)-1]) }

// ask asks a question in a run, as the daemon does: the result is the reply, or
// "no answer" after 5 minutes.
func (d *daemon) ask(ctx context.Context, m *op.Message, q ...agent.Question) string {
	emit := ctx.Value(emitKey{}).(func(agent.Event) error)
	reply := make(chan string, 1)
	d.mu.Lock()
	if result, ok := d.results[m.Request]; ok { // the model sees it
		d.mu.Unlock()
		return result
	}
	d.pending[numberOf(m)] = reply
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.pending[numberOf(m)] == reply {
			delete(d.pending, numberOf(m))
		}
	}()
	_ = emit(agent.Event{Kind: agent.AskUser, Questions: q})
	answer := "no answer"
	select {
	case answer = <-reply:
		d.mu.Lock()
		d.results[m.Request] = answer
		d.mu.Unlock()
	case <-time.After(5 * time.Minute):
	case <-ctx.Done():
		select {
		case answer = <-reply: // its sender has a response
			d.mu.Lock()
			d.results[m.Request] = answer
			d.mu.Unlock()
		default:
		}
		return "canceled"
	}
	time.Sleep(d.rounds)
	_ = emit(agent.Event{Kind: agent.ToolsComplete})
	return answer
}

// fail makes the next replies fail.
func (d *daemon) fail(replies int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy = replies
}

func (d *daemon) answer(in *op.Reply) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy > 0 {
		d.busy--
		return &client.NoDaemonError{}
	}
	q := d.pending[in.Number]
	if q == nil {
		return &client.Error{Code: 404, Kind: "not_found", Message: "no pending ask_user"}
	}
	delete(d.pending, in.Number)
	d.replies = append(d.replies, in.Content)
	q <- in.Content
	if d.lost > 0 {
		d.lost--
		return errors.New("the connection ended")
	}
	return nil
}
