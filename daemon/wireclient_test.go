package daemon

import (
	"context"

	"crabmem/daemon/client"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// wireClient sends messages as they are, also those that the client never sends.
type wireClient struct{ addr wire.Addr }

func (s *served) wireClient() wireClient {
	return wireClient{wire.Addr{Network: "unix", Address: Socket(s.home)}}
}

// all sends a request and returns the messages of its response.
func (c wireClient) all(ctx context.Context, m *pb.ClientMessage, last func(*pb.ServerMessage) bool) (list []*pb.ServerMessage, err error) {
	conn, err := wire.Dial(ctx, c.addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.Write(m); err != nil {
		return nil, err
	}
	for {
		r := new(pb.ServerMessage)
		if err := conn.Read(r); err != nil {
			return nil, err
		}
		if e := r.GetError(); e != nil {
			return nil, &client.Error{Code: e.GetCode(), Message: e.GetMessage(), Kind: e.GetKind(), Details: e.GetDetails()}
		}
		if list = append(list, r); last(r) {
			return list, nil
		}
	}
}

// one sends a request and returns its response, one message.
func (c wireClient) one(ctx context.Context, m *pb.ClientMessage) (*pb.ServerMessage, error) {
	list, err := c.all(ctx, m, func(*pb.ServerMessage) bool { return true })
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

func (c wireClient) Remember(ctx context.Context, m *pb.RememberMsg) (*pb.Entry, error) {
	r, err := c.one(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_Remember{Remember: m}})
	return r.GetEntry(), err
}

func (c wireClient) Forget(ctx context.Context, m *pb.ForgetMsg) (*pb.Entry, error) {
	r, err := c.one(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_Forget{Forget: m}})
	return r.GetEntry(), err
}

func (c wireClient) Get(ctx context.Context, name string) (*pb.Entry, error) {
	r, err := c.one(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_GetEntry{GetEntry: &pb.GetEntryMsg{Name: name}}})
	return r.GetEntry(), err
}

func (c wireClient) Alias(ctx context.Context, m *pb.AliasMsg) (*pb.Entry, error) {
	r, err := c.one(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_Alias{Alias: m}})
	return r.GetEntry(), err
}

func (c wireClient) Checkpoint(ctx context.Context) (*pb.CheckpointReply, error) {
	r, err := c.one(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_Checkpoint{Checkpoint: &pb.CheckpointMsg{}}})
	return r.GetCheckpointed(), err
}

func (c wireClient) StoreStats(ctx context.Context, index bool) (*pb.Report, error) {
	r, err := c.one(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_StoreStats{StoreStats: &pb.StoreStatsMsg{Index: index}}})
	return r.GetReport(), err
}

func (c wireClient) Recall(ctx context.Context, m *pb.RecallMsg) (*pb.RecallReply, error) {
	list, err := c.all(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_Recall{Recall: m}}, func(r *pb.ServerMessage) bool { return !r.GetRecalled().GetMore() })
	if err != nil {
		return nil, err
	}
	first := list[0].GetRecalled()
	for _, r := range list[1:] {
		first.Hits = append(first.Hits, r.GetRecalled().GetHits()...)
	}
	return first, nil
}

func (c wireClient) Apply(ctx context.Context, m *pb.ApplyMsg) ([]*pb.Entry, error) {
	return c.entries(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_Apply{Apply: m}})
}

func (c wireClient) List(ctx context.Context, m *pb.ListEntriesMsg) ([]*pb.Entry, error) {
	return c.entries(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_ListEntries{ListEntries: m}})
}

func (c wireClient) entries(ctx context.Context, m *pb.ClientMessage) (entries []*pb.Entry, err error) {
	list, err := c.all(ctx, m, func(r *pb.ServerMessage) bool { return !r.GetEntries().GetMore() })
	for _, r := range list {
		entries = append(entries, r.GetEntries().GetEntries()...)
	}
	return entries, err
}

func (c wireClient) Dump(ctx context.Context, m *pb.DumpMsg, progress func(*pb.Progress)) (*pb.Report, error) {
	return c.report(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_Dump{Dump: m}}, progress)
}

func (c wireClient) Load(ctx context.Context, m *pb.LoadMsg, progress func(*pb.Progress)) (*pb.Report, error) {
	return c.report(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_Load{Load: m}}, progress)
}

func (c wireClient) report(ctx context.Context, m *pb.ClientMessage, progress func(*pb.Progress)) (*pb.Report, error) {
	list, err := c.all(ctx, m, func(r *pb.ServerMessage) bool { return r.GetProgress() == nil })
	if err != nil {
		return nil, err
	}
	for _, r := range list[:len(list)-1] {
		progress(r.GetProgress())
	}
	return list[len(list)-1].GetReport(), nil
}
