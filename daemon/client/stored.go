package client

import (
	"context"
	"iter"

	"crabmem/daemon/wire/pb"
)

// ListSessions lists the sessions in their files, newest first.
func (c *Client) ListSessions(ctx context.Context, m *pb.ListSessionsMsg) (*pb.StoredSessionList, error) {
	var all *pb.StoredSessionList
	for r, err := range callStream(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_ListSessions{ListSessions: m}}, (*pb.ServerMessage).GetStoredSessions) {
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = r
		} else {
			all.Sessions = append(all.Sessions, r.GetSessions()...)
		}
	}
	all.More = false
	return all, nil
}

// History returns the lines of a session's file, in parts. The first says
// whose session it is.
func (c *Client) History(ctx context.Context, m *pb.HistoryMsg) iter.Seq2[*pb.HistoryReply, error] {
	return callStream(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_History{History: m}}, (*pb.ServerMessage).GetHistory)
}

// SearchSessions searches the messages of all sessions.
func (c *Client) SearchSessions(ctx context.Context, m *pb.SearchSessionsMsg) (*pb.SearchSessionsReply, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_SearchSessions{SearchSessions: m}}, (*pb.ServerMessage).GetSessionsFound)
}

// SetTitle gives a session a title.
func (c *Client) SetTitle(ctx context.Context, id, title string) (*pb.StoredSession, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_SetTitle{SetTitle: &pb.SetTitleMsg{Id: id, Title: title}}}, (*pb.ServerMessage).GetStoredSession)
}

// DeleteSession moves a session into the trash; with dry it says which.
func (c *Client) DeleteSession(ctx context.Context, id string, dry bool) (*pb.StoredSession, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_DeleteSession{DeleteSession: &pb.DeleteSessionMsg{Id: id, DryRun: dry}}}, (*pb.ServerMessage).GetStoredSession)
}

// RestoreSession brings a session back from the trash.
func (c *Client) RestoreSession(ctx context.Context, id string) (*pb.StoredSession, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_RestoreSession{RestoreSession: &pb.RestoreSessionMsg{Id: id}}}, (*pb.ServerMessage).GetStoredSession)
}

// RepairSession takes bad lines out of a session's file.
func (c *Client) RepairSession(ctx context.Context, id string) (*pb.RepairSessionReply, error) {
	return callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_RepairSession{RepairSession: &pb.RepairSessionMsg{Id: id}}}, (*pb.ServerMessage).GetRepaired)
}
