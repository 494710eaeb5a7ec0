package client

import (
	"context"
	"errors"
	"iter"

	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"
)

// Ping asks whether the daemon is there.
func (c *Client) Ping(ctx context.Context) error {
	_, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}}, (*pb.ServerMessage).GetPong)
	return err
}

// Hello describes the daemon. The error is a *SkewError if the daemon does not
// have the operations of this program's version.
func (c *Client) Hello(ctx context.Context) (Daemon, error) {
	h, err := op.Hello.Do(ctx, unagreed{c}, op.None{})
	if e, ok := errors.AsType[*Error](err); ok && e.Code == 400 {
		return Daemon{}, &SkewError{} // it does not know the operation
	}
	if err == nil && h.Protocol != pb.Version {
		return h, &SkewError{Daemon: h.Version, Protocol: h.Protocol}
	}
	c.agreed.Store(c.agreed.Load() || err == nil)
	return h, err
}

// Send runs an agent and returns its answer when it is done.
func (c *Client) Send(ctx context.Context, m Message) (Response, error) {
	r, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Send{Send: m.send()}}, (*pb.ServerMessage).GetResponse)
	return responseOf(r), err
}

// Stream runs an agent and returns the events of the run as they occur. The
// iteration ends with the run, and yields the error of a failed run last. If the
// caller breaks out of the loop, the daemon cancels the run.
func (c *Client) Stream(ctx context.Context, m Message) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		var start Event
		var why *Error // sent before the end
		last := func(r *pb.ServerMessage) bool { return r.GetStream().GetEnd() != nil }
		for r, err := range c.requestStream(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_Stream{Stream: m.stream()}}, last) {
			e := r.GetStream()
			switch {
			case err != nil:
			case e == nil:
				err = &unexpectedError{r}
			case e.GetError() != nil && e.GetError().GetKind() != "notice":
				why = newError(errtable.Other, e.GetError())
				continue
			case e.GetEnd() == nil:
				ev := streamEventOf(e)
				if ev == nil {
					continue
				}
				if ev.Kind == "start" {
					start = *ev
				}
				ev.Agent, ev.Session, ev.StoredID = start.Agent, start.Session, start.StoredID
				if !yield(ev, nil) {
					return
				}
				continue
			case why != nil:
				err = why
			case e.GetEnd().GetError() != "":
				err = &Error{Code: 500, Message: e.GetEnd().GetError()}
			}
			if err != nil {
				yield(nil, err)
			}
			return
		}
	}
}

// ReplyToAsk answers the question of a live session.
func (c *Client) ReplyToAsk(ctx context.Context, session uint64, content string) error {
	_, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_ReplyToAsk{ReplyToAsk: &pb.ReplyToAsk{Session: session, Content: content}}}, (*pb.ServerMessage).GetPong)
	return err
}

// Compact returns a summary of a live session, and changes nothing.
func (c *Client) Compact(ctx context.Context, session uint64) (string, error) {
	r, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Compact{Compact: &pb.CompactMsg{Session: session}}}, (*pb.ServerMessage).GetCompact)
	return r.GetSummary(), err
}

// Events returns what happens in the sessions that the filter selects, from now on.
func (c *Client) Events(ctx context.Context, f EventFilter) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		m := &pb.ClientMessage{Msg: &pb.ClientMessage_SubscribeEvents{SubscribeEvents: &pb.SubscribeEvents{StoredId: f.StoredID, Agent: f.Agent}}}
		for r, err := range c.requestStream(ctx, m, func(*pb.ServerMessage) bool { return false }) {
			if err == nil && r.GetAgentEvent() == nil {
				err = &unexpectedError{r}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(agentEventOf(r.GetAgentEvent()), nil) {
				return
			}
		}
	}
}

// Kill ends a loaded session. Its file stays.
func (c *Client) Kill(ctx context.Context, session uint64) error {
	_, err := call(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Kill{Kill: &pb.KillMsg{Session: session}}}, (*pb.ServerMessage).GetPong)
	return err
}
