package daemon

import (
	"context"
	"strconv"

	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// request is one that is being answered.
type request struct {
	ctx  context.Context
	peer wire.Peer
	send func(*pb.ServerMessage) error
}

func (r *request) pong() error {
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Pong{Pong: &pb.Pong{}}})
}

func (r *request) fail(m *pb.ErrorMsg) error {
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Error{Error: m}})
}

// Handle answers a request. It is a [wire.Handler].
func (d *Daemon) Handle(ctx context.Context, p wire.Peer, m *pb.ClientMessage, send func(*pb.ServerMessage) error) {
	gone := false
	r := &request{ctx: ctx, peer: p, send: func(m *pb.ServerMessage) error {
		err := send(m)
		gone = gone || err != nil
		return err
	}}
	if err := d.answer(r, m); err != nil && !gone {
		// What it cannot be told, nobody is told.
		_ = r.fail(message(err))
	}
}

func (d *Daemon) answer(r *request, m *pb.ClientMessage) error {
	switch m := m.Msg.(type) {
	case *pb.ClientMessage_Send:
		return d.send(r, m.Send)
	case *pb.ClientMessage_Stream:
		return d.stream(r, m.Stream)
	case *pb.ClientMessage_Ping:
		return r.pong()
	case *pb.ClientMessage_Sessions:
		return d.listSessions(r)
	case *pb.ClientMessage_Kill:
		return d.kill(r, m.Kill.GetSession())
	case *pb.ClientMessage_GetConfig:
		return d.getConfig(r)
	case *pb.ClientMessage_SetConfig:
		return d.setConfig(r, m.SetConfig.GetConfig())
	case *pb.ClientMessage_Reload:
		if err := d.reload(); err != nil {
			return err
		}
		return r.pong()
	case *pb.ClientMessage_SubscribeEvents:
		return d.subscribe(r)
	case *pb.ClientMessage_ReplyToAsk:
		if err := d.asks.answer(r.ctx, m.ReplyToAsk.GetSession(), m.ReplyToAsk.GetContent()); err != nil {
			return err
		}
		return r.pong()
	case *pb.ClientMessage_GetStats:
		return d.stats(r)
	case *pb.ClientMessage_CreateCron:
		return d.createCron(r, m.CreateCron)
	case *pb.ClientMessage_DeleteCron:
		return d.deleteCron(r, m.DeleteCron.GetId())
	case *pb.ClientMessage_ListCrons:
		return d.listCrons(r)
	case *pb.ClientMessage_Compact:
		return d.compactOnce(r, m.Compact)

	case *pb.ClientMessage_Hello:
		return d.hello(r)
	case *pb.ClientMessage_Auth:
		return r.pong() // one that was needed never gets here
	case *pb.ClientMessage_Cancel:
		return d.cancel(r, m.Cancel.GetSession())
	case *pb.ClientMessage_CompactSession:
		return d.compactSession(r, m.CompactSession)
	case *pb.ClientMessage_ListModels:
		return d.listModels(r)
	case *pb.ClientMessage_SwitchModel:
		return d.switchModel(r, m.SwitchModel.GetModel())
	case *pb.ClientMessage_AddModels:
		return d.addModels(r, m.AddModels)
	case *pb.ClientMessage_RemoveModel:
		return d.removeModel(r, m.RemoveModel.GetModel())
	case *pb.ClientMessage_ListAgents:
		return d.listAgents(r)
	}
	return invalid("this daemon does not know that operation: it is older than the client")
}

func utoa(n uint64) string { return strconv.FormatUint(n, 10) }
