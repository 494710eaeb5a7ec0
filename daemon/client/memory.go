package client

import (
	"context"
	"iter"

	"crabmem/daemon/wire/pb"
)

// Remember writes a note, or adds an archive.
func (c *Client) Remember(ctx context.Context, m *pb.RememberMsg) (*pb.Entry, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Remember{Remember: m}}, (*pb.ServerMessage).GetEntry)
}

// Recall searches the memory.
func (c *Client) Recall(ctx context.Context, m *pb.RecallMsg) (*pb.RecallReply, error) {
	var all *pb.RecallReply
	for r, err := range callStream(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Recall{Recall: m}}, (*pb.ServerMessage).GetRecalled) {
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = r
		} else {
			all.Hits = append(all.Hits, r.GetHits()...)
		}
	}
	all.More = false
	return all, nil
}

// Forget removes an entry and returns it.
func (c *Client) Forget(ctx context.Context, m *pb.ForgetMsg) (*pb.Entry, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Forget{Forget: m}}, (*pb.ServerMessage).GetEntry)
}

// Get returns the entry of a name, or of an alias that one entry has.
func (c *Client) Get(ctx context.Context, name string) (*pb.Entry, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_GetEntry{GetEntry: &pb.GetEntryMsg{Name: name}}}, (*pb.ServerMessage).GetEntry)
}

// List returns the entries by ascending id.
func (c *Client) List(ctx context.Context, m *pb.ListEntriesMsg) iter.Seq2[*pb.Entry, error] {
	return c.entries(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_ListEntries{ListEntries: m}})
}

// Apply makes changes, all or none, and returns the entries that it wrote.
func (c *Client) Apply(ctx context.Context, m *pb.ApplyMsg) ([]*pb.Entry, error) {
	var all []*pb.Entry
	for e, err := range c.entries(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_Apply{Apply: m}}) {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

func (c *Client) entries(ctx context.Context, m *pb.ClientMessage) iter.Seq2[*pb.Entry, error] {
	return func(yield func(*pb.Entry, error) bool) {
		for l, err := range callStream(ctx, c, m, (*pb.ServerMessage).GetEntries) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range l.GetEntries() {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Alias changes the aliases of an entry.
func (c *Client) Alias(ctx context.Context, m *pb.AliasMsg) (*pb.Entry, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Alias{Alias: m}}, (*pb.ServerMessage).GetEntry)
}

// Dump writes the memory as a tree of pages. progress, which may be nil, is
// called when m asks for it.
func (c *Client) Dump(ctx context.Context, m *pb.DumpMsg, progress func(*pb.Progress)) (*pb.Report, error) {
	return callWithProgress(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Dump{Dump: m}}, progress, (*pb.ServerMessage).GetReport)
}

// Load takes a tree of pages in. progress is as for Dump; it is told what will
// go before anything does.
func (c *Client) Load(ctx context.Context, m *pb.LoadMsg, progress func(*pb.Progress)) (*pb.Report, error) {
	return callWithProgress(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Load{Load: m}}, progress, (*pb.ServerMessage).GetReport)
}

// Checkpoint folds the log of the store into its file.
func (c *Client) Checkpoint(ctx context.Context) (*pb.CheckpointReply, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Checkpoint{Checkpoint: &pb.CheckpointMsg{}}}, (*pb.ServerMessage).GetCheckpointed)
}

// StoreStats returns figures of the store as JSON, with index also of its
// index.
func (c *Client) StoreStats(ctx context.Context, index bool) (*pb.Report, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_StoreStats{StoreStats: &pb.StoreStatsMsg{Index: index}}}, (*pb.ServerMessage).GetReport)
}
