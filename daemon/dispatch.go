package daemon

import (
	"context"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/once"
	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"
)

// request is an active request of a client.
type request struct {
	ctx context.Context
	op.Header
	as    op.Identity // for which the client asks
	label string      // of the space, for people
	send  func(*pb.ServerMessage) error

	effect   *once.Effect // of a request with a key; nil: none yet
	warnings []string     // about texts of a change, for the next message of the response
}

func (r *request) pong() error {
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Pong{Pong: &pb.Pong{}}})
}

// Handle sends the response to a request. It is a [wire.Handler].
func (d *Daemon) Handle(ctx context.Context, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
	gone := false
	r := &request{ctx: ctx, Header: op.Header{By: crmem.Actor{Client: crmem.ClientWire}}, as: op.Identity{Owner: true}}
	r.send = func(m *pb.ServerMessage) error {
		err := send(m)
		gone = gone || err != nil
		return err
	}
	err := d.answer(r, m)
	if err == nil || gone || ctx.Err() != nil {
		return
	}
	e := reported(err)
	// There is no other way to report an error of send.
	if m.GetCall() != nil {
		_ = r.result(&pb.Result{Error: e.Encode()})
		return
	}
	_ = r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Error{Error: &pb.ErrorMsg{Code: e.Code, Message: e.Message, Kind: e.Kind}}})
}

// answer sends the response to a request. Those of RFC 0018 are requests of the owner of the
// home.
func (d *Daemon) answer(r *request, m *pb.ClientMessage) error {
	switch m := m.Msg.(type) {
	case *pb.ClientMessage_Call:
		return d.call(r, m.Call)
	case *pb.ClientMessage_Send:
		return d.send(r, m.Send)
	case *pb.ClientMessage_Stream:
		return d.stream(r, m.Stream)
	case *pb.ClientMessage_Ping, *pb.ClientMessage_Auth: // the server answers a required Auth
		return r.pong()
	case *pb.ClientMessage_Sessions:
		return d.listSessions(r)
	case *pb.ClientMessage_Kill:
		return d.kill(r, m.Kill)
	case *pb.ClientMessage_GetConfig:
		return d.getConfig(r)
	case *pb.ClientMessage_SetConfig:
		_, err := d.changeConfig(&op.ConfigChange{Config: m.SetConfig.GetConfig()})
		return r.done(err)
	case *pb.ClientMessage_Reload:
		return r.done(d.Reload())
	case *pb.ClientMessage_SubscribeEvents:
		return d.subscribe(r)
	case *pb.ClientMessage_ReplyToAsk:
		return r.done(d.roles.Reply(r.ctx, m.ReplyToAsk.GetSession(), "", m.ReplyToAsk.GetContent()))
	case *pb.ClientMessage_GetStats:
		return d.stats(r)
	case *pb.ClientMessage_CreateCron:
		return d.createCron(r, m.CreateCron)
	case *pb.ClientMessage_DeleteCron:
		_, err := op.RemoveCron.Do(r.ctx, op.Local{On: d.on(r)}, op.CronID{ID: m.DeleteCron.GetId()})
		return r.done(err)
	case *pb.ClientMessage_ListCrons:
		return d.listCrons(r)
	case *pb.ClientMessage_Compact:
		return d.compact(r, m.Compact.GetSession())
	}
	return errUnknownRequest
}

// done answers a request without a response of its own.
func (r *request) done(err error) error {
	if err != nil {
		return err
	}
	return r.pong()
}

// waits reports whether a request waits for the events of others.
func waits(m *pb.ClientMessage) bool {
	if m.GetCall() == nil {
		return m.GetSubscribeEvents() != nil
	}
	row := op.Find(m.GetCall().GetOp())
	return row != nil && row.Waits
}

var errUnknownRequest = errtable.Invalidf("unknown request: the daemon is older than the client: restart the daemon")
