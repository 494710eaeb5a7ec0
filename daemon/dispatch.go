package daemon

import (
	"context"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/once"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// request is an active request of a client.
type request struct {
	ctx  context.Context
	peer wire.Peer
	op.Header
	as   op.Identity // for which the client asks
	send func(*pb.ServerMessage) error

	effect   *once.Effect // of a request with a key; nil: none yet
	warnings []string     // about texts of a change, for the next message of the response
}

func (r *request) pong() error {
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Pong{Pong: &pb.Pong{}}})
}

// Handle sends the response to a request. It is a [wire.Handler].
func (d *Daemon) Handle(ctx context.Context, p wire.Peer, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
	gone := false
	r := &request{ctx: ctx, peer: p, as: d.identity(m.GetAs()), Header: op.Header{By: crmem.Actor{Client: crmem.ClientWire}}}
	r.send = func(m *pb.ServerMessage) error {
		err := send(m)
		gone = gone || err != nil
		return err
	}
	err := d.answer(r, m)
	if err == nil || gone || ctx.Err() != nil {
		return
	}
	// There is no other way to report an error of send.
	if m.GetCall() != nil {
		_ = r.result(&pb.Result{Error: reported(err).Encode()})
		return
	}
	_ = r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Error{Error: message(err)}})
}

// A handler answers one operation.
type handler func(*Daemon, *request, *pb.ClientMessage) error

// handlers are the operations by their names in crabtalk.proto.
var handlers = map[protoreflect.Name]handler{
	"send":             with((*pb.ClientMessage).GetSend, (*Daemon).send),
	"stream":           with((*pb.ClientMessage).GetStream, (*Daemon).stream),
	"ping":             without(pong),
	"sessions":         without((*Daemon).listSessions),
	"kill":             with((*pb.ClientMessage).GetKill, (*Daemon).kill),
	"get_config":       without((*Daemon).getConfig),
	"set_config":       with((*pb.ClientMessage).GetSetConfig, (*Daemon).setConfig),
	"reload":           without((*Daemon).reloadConfig),
	"subscribe_events": with((*pb.ClientMessage).GetSubscribeEvents, (*Daemon).subscribe),
	"reply_to_ask":     with((*pb.ClientMessage).GetReplyToAsk, (*Daemon).replyToAsk),
	"get_stats":        without((*Daemon).stats),
	"create_cron":      with((*pb.ClientMessage).GetCreateCron, (*Daemon).createCron),
	"delete_cron":      with((*pb.ClientMessage).GetDeleteCron, (*Daemon).deleteCron),
	"list_crons":       without((*Daemon).listCrons),
	"compact":          with((*pb.ClientMessage).GetCompact, (*Daemon).compactOnce),

	"auth": without(pong), // the server answers a required one
}

// with returns a handler that passes the operation's message to do.
func with[M any](get func(*pb.ClientMessage) M, do func(*Daemon, *request, M) error) handler {
	return func(d *Daemon, r *request, m *pb.ClientMessage) error { return do(d, r, get(m)) }
}

// without returns the handler of an operation that has no parameters.
func without(do func(*Daemon, *request) error) handler {
	return func(d *Daemon, r *request, _ *pb.ClientMessage) error { return do(d, r) }
}

func (d *Daemon) answer(r *request, m *pb.ClientMessage) error {
	if m.GetCall() != nil {
		return d.call(r, m)
	}
	msg := m.ProtoReflect()
	if op := msg.WhichOneof(msg.Descriptor().Oneofs().ByName("msg")); op != nil {
		if answer, ok := handlers[op.Name()]; ok {
			if err := d.permit(r, op.Name(), m); err != nil {
				return err
			}
			return answer(d, r, m)
		}
	}
	return errUnknownRequest
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

func pong(_ *Daemon, r *request) error { return r.pong() }

func (d *Daemon) reloadConfig(r *request) error {
	if err := d.reload(); err != nil {
		return err
	}
	return r.pong()
}

func (d *Daemon) replyToAsk(r *request, m *pb.ReplyToAsk) error {
	if err := d.loaded.Reply(r.ctx, m.GetSession(), m.GetContent()); err != nil {
		return err
	}
	return r.pong()
}
