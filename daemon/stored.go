package daemon

import (
	"cmp"
	"context"
	"slices"

	"crabmem/daemon/op"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
	"crabmem/sessionlog/search"
)

// storedOf returns the message for a session.
func storedOf(s *op.Session) *pb.StoredSession {
	m := &pb.StoredSession{
		Id: s.ID, File: s.File, Agent: s.Agent, CreatedBy: s.CreatedBy, CreatedAt: s.CreatedAt, Title: s.Title,
		UptimeSecs: s.UptimeSecs, Messages: uint64(s.Messages), Damaged: uint64(s.Damaged), Bytes: uint64(s.Bytes), Source: s.Source,
		Error: s.Error, Live: s.Number, Active: s.Active, Followers: s.Followers,
	}
	if !s.ModifiedAt.IsZero() {
		m.ModifiedAt = s.ModifiedAt.UnixMilli()
	}
	return m
}

// history sends the lines of a session file.
func (d *Daemon) history(r *request, m *pb.HistoryMsg) error {
	s, err := d.sessions.Read(m.GetId())
	if err != nil {
		return err
	}
	defer s.Close()
	on := d.on(r)
	i, err := on.Describe(m.GetId())
	if err != nil {
		return err
	}
	c, err := s.Check()
	if err != nil {
		return err
	}
	from := int64(0)
	if m.GetFromMarker() {
		if from, _, err = s.LastMarker(); err != nil {
			return err
		}
	}
	reply := &pb.HistoryReply{Session: storedOf(&i), LastLine: c.Lines}
	for part, more := range parts(historyLines(r.ctx, s, from, m, &err)) {
		if err != nil {
			return err
		}
		reply.Lines, reply.More = part, more
		if err := r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_History{History: reply}}); err != nil {
			return err
		}
		reply = &pb.HistoryReply{}
	}
	return nil
}

// historyLines yields the requested lines. If it ends before the last of them, it
// sets failed.
func historyLines(ctx context.Context, s *sessionlog.Session, from int64, m *pb.HistoryMsg, failed *error) func(func(*pb.HistoryLine) bool) {
	return func(yield func(*pb.HistoryLine) bool) {
		left, last := m.GetLimit(), int64(0)
		for l, err := range s.Lines(from) {
			if err := cmp.Or(err, context.Cause(ctx)); err != nil {
				*failed = err
				return
			}
			if l.Number <= m.GetAfter() {
				continue
			}
			if l.Number != last && m.GetLimit() > 0 { // items of a bad line share its number
				if left == 0 {
					return
				}
				left--
			}
			last = l.Number
			if !yield(historyLine(&l)) {
				return
			}
		}
	}
}

func historyLine(l *sessionlog.Line) *pb.HistoryLine {
	h := &pb.HistoryLine{
		Number: l.Number, Offset: l.Offset, Size: l.Size, Kind: l.Kind.String(), Glued: l.Glued, Pieces: uint32(l.Pieces), Tail: l.Tail, Torn: l.Torn,
	}
	if l.Kind != record.KindBad && len(l.Raw) <= wire.MaxFrame-partSize {
		h.Json = slices.Clone(l.Raw)
	}
	if l.Err != nil {
		h.Error = l.Err.Error()
	}
	return h
}

// searchSessions searches the messages of sessions.
func (d *Daemon) searchSessions(ctx context.Context, q search.Query, tools, semantic bool) (*search.Result, error) {
	if semantic {
		q.Semantic = d.semanticRequest()
	}
	found, err := d.searchIn(ctx, tools, q)
	if err == nil {
		d.noModel(found.Meaning)
	}
	return found, err
}

// searchIn searches the index. Calls and results of tools are in no index; for
// them it reads the files.
func (d *Daemon) searchIn(ctx context.Context, tools bool, q search.Query) (*search.Result, error) {
	if !tools {
		x, err := d.sessionIndex()
		if err != nil {
			return nil, err
		}
		if err := x.Refresh(); err != nil {
			return nil, err
		}
		return x.Search(ctx, q)
	}
	dir, err := sessionlog.OpenDir(d.sessions.Path(), &sessionlog.Options{FS: d.fs, Now: d.now})
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	x, err := search.NewIndex(dir, &search.IndexOptions{Tools: true})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	return x.Search(ctx, q)
}
