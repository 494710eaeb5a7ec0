package client

import (
	"context"
	"iter"

	"crabmem/daemon/wire/pb"
)

// History returns the lines of a session's file, in parts.
func (c *Client) History(ctx context.Context, id string, o HistoryOptions) iter.Seq2[History, error] {
	m := &pb.HistoryMsg{Id: id, FromMarker: o.FromMarker, After: o.After, Limit: uint64(max(o.Limit, 0))}
	return func(yield func(History, error) bool) {
		for r, err := range callStream(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_History{History: m}}, (*pb.ServerMessage).GetHistory) {
			if !yield(historyOf(r), err) || err != nil {
				return
			}
		}
	}
}
