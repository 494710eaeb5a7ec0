package client

import (
	"context"
	"iter"

	"crabmem/daemon/memtool"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog"
	"crabmem/sessionlog/search"
)

// ListSessions lists the sessions in their files, newest first. total is the
// number of sessions that pass the filter, without Offset and Limit.
func (c *Client) ListSessions(ctx context.Context, f SessionFilter) (list []Session, total int, err error) {
	m := &pb.ListSessionsMsg{Agent: f.Agent, Sender: f.Sender, Trash: f.Trash, Offset: uint64(max(f.Offset, 0)), Limit: uint64(max(f.Limit, 0))}
	for r, err := range callStream(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_ListSessions{ListSessions: m}}, (*pb.ServerMessage).GetStoredSessions) {
		if err != nil {
			return nil, 0, err
		}
		list = append(list, each(r.GetSessions(), storedOf)...)
		total = int(r.GetTotal())
	}
	return list, total, nil
}

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

// SearchSessions searches the messages of all sessions, with the arguments and
// results of tools if tools is set. unread are the errors of files that were not
// searched, by name. The daemon ignores q.Bare.
func (c *Client) SearchSessions(ctx context.Context, q search.Query, tools bool) (found search.Result, unread map[string]error, err error) {
	r, err := callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_SearchSessions{SearchSessions: searchOf(q, tools)}}, (*pb.ServerMessage).GetSessionsFound)
	if err != nil {
		return found, nil, err
	}
	return foundOf(r)
}

// SetTitle gives a session a title.
func (c *Client) SetTitle(ctx context.Context, id, title string) (Session, error) {
	return c.stored(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_SetTitle{SetTitle: &pb.SetTitleMsg{Id: id, Title: title}}})
}

// DeleteSession moves a session into the trash; with dry it says which.
func (c *Client) DeleteSession(ctx context.Context, id string, dry bool) (Session, error) {
	return c.stored(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_DeleteSession{DeleteSession: &pb.DeleteSessionMsg{Id: id, DryRun: dry}}})
}

// RestoreSession brings a session back from the trash.
func (c *Client) RestoreSession(ctx context.Context, id string) (Session, error) {
	return c.stored(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_RestoreSession{RestoreSession: &pb.RestoreSessionMsg{Id: id}}})
}

func (c *Client) stored(ctx context.Context, m *pb.ClientMessage) (Session, error) {
	r, err := callExt(ctx, c, m, (*pb.ServerMessage).GetStoredSession)
	return storedOf(r), err
}

// RepairSession takes bad lines out of a session's file.
func (c *Client) RepairSession(ctx context.Context, id string) (Session, sessionlog.Repaired, error) {
	r, err := callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_RepairSession{RepairSession: &pb.RepairSessionMsg{Id: id}}}, (*pb.ServerMessage).GetRepaired)
	did := sessionlog.Repaired{Copy: r.GetCopy(), Dropped: int(r.GetDropped()), Unglued: int(r.GetUnglued())}
	return storedOf(r.GetSession()), did, err
}

// PurgeSession purges texts from a session's file, as sessionlog.Dir.Purge does. It
// returns the number of changed lines.
func (c *Client) PurgeSession(ctx context.Context, id string, texts ...string) (lines int, err error) {
	m := &pb.ClientMessage{By: memtool.ActorMessage(c.By), Msg: &pb.ClientMessage_PurgeSession{PurgeSession: &pb.PurgeSessionMsg{Id: id, Texts: texts}}}
	r, err := callExt(ctx, c, m, (*pb.ServerMessage).GetSessionPurged)
	return int(r.GetLines()), err
}
