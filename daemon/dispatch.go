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
		if err := d.loaded.Reply(r.ctx, m.ReplyToAsk.GetSession(), m.ReplyToAsk.GetContent()); err != nil {
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

	case *pb.ClientMessage_Remember:
		return d.remember(r, m.Remember)
	case *pb.ClientMessage_Recall:
		return d.recall(r, m.Recall)
	case *pb.ClientMessage_Forget:
		return d.forget(r, m.Forget)
	case *pb.ClientMessage_GetEntry:
		return d.getEntry(r, m.GetEntry)
	case *pb.ClientMessage_ListEntries:
		return d.listEntries(r, m.ListEntries)
	case *pb.ClientMessage_Alias:
		return d.alias(r, m.Alias)
	case *pb.ClientMessage_Apply:
		return d.apply(r, m.Apply)
	case *pb.ClientMessage_Dump:
		return d.dump(r, m.Dump)
	case *pb.ClientMessage_Load:
		return d.loadTree(r, m.Load)
	case *pb.ClientMessage_Checkpoint:
		return d.checkpoint(r)
	case *pb.ClientMessage_StoreStats:
		return d.storeStats(r, m.StoreStats)

	case *pb.ClientMessage_ListSessions:
		return d.listStored(r, m.ListSessions)
	case *pb.ClientMessage_History:
		return d.history(r, m.History)
	case *pb.ClientMessage_SearchSessions:
		return d.searchStored(r, m.SearchSessions)
	case *pb.ClientMessage_SetTitle:
		return d.setTitle(r, m.SetTitle)
	case *pb.ClientMessage_DeleteSession:
		return d.deleteStored(r, m.DeleteSession)
	case *pb.ClientMessage_RestoreSession:
		return d.restoreStored(r, m.RestoreSession)
	case *pb.ClientMessage_RepairSession:
		return d.repairStored(r, m.RepairSession)

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
