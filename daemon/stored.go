package daemon

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/memtool"
	"crabmem/daemon/session"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
	"crabmem/sessionlog/search"
)

// The handlers of requests for session files. Their responses contain the
// output of the commands of the same names.

func (r *request) stored(s *pb.StoredSession) error {
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_StoredSession{StoredSession: s}})
}

// storedOf returns the message for a session file.
func (d *Daemon) storedOf(i *sessionlog.Info, live map[string]*session.Session) *pb.StoredSession {
	s := &pb.StoredSession{
		Id: i.ID, File: i.File, Agent: i.Meta.Agent, CreatedBy: i.Meta.CreatedBy, CreatedAt: i.Meta.CreatedAt, Title: i.Meta.Title,
		UptimeSecs: i.Meta.UptimeSecs, Messages: uint64(i.Messages), Damaged: uint64(i.Damaged), Bytes: uint64(i.Size), Source: i.Meta.Source,
		ModifiedAt: i.Modified.UnixMilli(), Torn: uint64(i.Torn),
	}
	if i.Err != nil {
		s.Damaged, s.Error, s.ModifiedAt = 1, i.Err.Error(), 0
	}
	if l := live[i.ID]; l != nil {
		s.Live, s.Active = l.ID(), l.Active()
	}
	s.Followers = d.events.followers(i.ID)
	return s
}

// byStored returns the loaded sessions by stored ID.
func (d *Daemon) byStored() map[string]*session.Session {
	m := make(map[string]*session.Session)
	for _, l := range d.loaded.List() {
		m[l.StoredID()] = l
	}
	return m
}

// describe returns the list item of one session.
func (d *Daemon) describe(id string) (*pb.StoredSession, error) {
	s, err := d.sessions.Read(id)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	i, err := s.Info()
	if err != nil {
		return nil, err
	}
	return d.storedOf(&i, d.byStored()), nil
}

func (d *Daemon) listStored(r *request, m *pb.ListSessionsMsg) error {
	list := d.sessions.List
	live := d.byStored()
	if m.GetTrash() {
		list, live = d.sessions.Trashed, nil
	}
	infos, err := list()
	if err != nil {
		return err
	}
	slices.SortFunc(infos, sessionlog.Info.Compare)
	infos = slices.DeleteFunc(infos, func(i sessionlog.Info) bool {
		return m.GetAgent() != "" && i.Meta.Agent != m.GetAgent() || m.GetSender() != "" && i.Meta.CreatedBy != m.GetSender() || !r.as.MayRead(i.Meta.CreatedBy)
	})
	total := uint64(len(infos))
	infos = infos[min(m.GetOffset(), total):]
	if m.GetLimit() > 0 {
		infos = infos[:min(m.GetLimit(), uint64(len(infos)))]
	}
	for part, more := range parts(func(yield func(*pb.StoredSession) bool) {
		for i := range infos {
			if !yield(d.storedOf(&infos[i], live)) {
				return
			}
		}
	}) {
		if err := r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_StoredSessions{StoredSessions: &pb.StoredSessionList{
			Sessions: part, More: more, Total: total}}}); err != nil {
			return err
		}
	}
	return nil
}

// history sends the lines of a session file.
func (d *Daemon) history(r *request, m *pb.HistoryMsg) error {
	s, err := d.sessions.Read(m.GetId())
	if err != nil {
		return err
	}
	defer s.Close()
	i, err := s.Info()
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
	reply := &pb.HistoryReply{Session: d.storedOf(&i, d.byStored()), LastLine: c.Lines}
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

func (d *Daemon) searchStored(r *request, m *pb.SearchSessionsMsg) error {
	q := search.Query{Text: m.GetQuery(), Limit: int(m.GetLimit()), Agent: m.GetAgent(), Sender: m.GetSender(), Roles: m.GetRoles()}
	if m.GetLimit() > search.MaxHits {
		return errtable.Invalidf("limit %d: want 1 to %d", m.GetLimit(), search.MaxHits)
	}
	if m.GetWindow() > search.MaxWindow {
		return errtable.Invalidf("window %d: want 0 to %d", m.GetWindow(), search.MaxWindow)
	}
	if m.Window != nil {
		if q.Window = int(m.GetWindow()); q.Window == 0 {
			q.Window = -1 // no window; 0 is the default
		}
	}
	if m.Since != nil {
		q.Since = time.UnixMilli(m.GetSince())
	}
	if m.Until != nil {
		q.Until = time.UnixMilli(m.GetUntil())
	}
	if !r.as.Owner {
		q.Created = r.as.MayRead
	}
	if m.GetSemantic() {
		q.Semantic = d.semanticRequest()
	}
	found, unread, err := d.searchIn(r.ctx, m.GetTools(), q)
	if err != nil {
		return err
	}
	reply := &pb.SearchSessionsReply{Total: uint64(found.Total), Searched: uint64(found.Searched), Path: d.sessions.Path()}
	if !r.as.Owner {
		reply.Path, unread = "", nil // of sessions whose creators are not known
	}
	if found.Meaning != nil {
		d.noModel(found.Meaning)
		if reply.Meaning, err = encode(found.Meaning); err != nil {
			return err
		}
	}
	for _, h := range found.Hits {
		hit := &pb.SessionHit{Id: h.ID, File: h.File, Agent: h.Agent, CreatedBy: h.CreatedBy, Title: h.Title, Role: h.Role, Line: h.Line,
			Score: h.Score, Snippet: h.Snippet}
		for _, w := range h.Window {
			hit.Window = append(hit.Window, &pb.WindowLine{Line: w.Line, Role: w.Role, Text: w.Text})
		}
		if h.Fused != nil {
			if hit.Fused, err = encode(h.Fused); err != nil {
				return err
			}
		}
		reply.Hits = append(reply.Hits, hit)
	}
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		reply.Unread = append(reply.Unread, &pb.UnreadFile{File: name, Error: unread[name].Error()})
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_SessionsFound{SessionsFound: reply}})
}

// searchIn searches the index. Calls and results of tools are in no index; for
// them it reads the files.
func (d *Daemon) searchIn(ctx context.Context, tools bool, q search.Query) (found *search.Result, unread map[string]error, err error) {
	if !tools {
		x, err := d.sessionIndex()
		if err != nil {
			return nil, nil, err
		}
		if err := x.Refresh(); err != nil {
			return nil, nil, err
		}
		found, err = x.Search(ctx, q)
		return found, x.Unread(), err
	}
	dir, err := sessionlog.OpenDir(d.sessions.Path(), &sessionlog.Options{FS: d.fs, Now: d.now})
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	x, err := search.NewIndex(dir, &search.IndexOptions{Tools: true})
	if err != nil {
		return nil, nil, err
	}
	defer x.Close()
	found, err = x.Search(ctx, q)
	return found, x.Unread(), err
}

// setTitle sets a title through the open log of a loaded session.
func (d *Daemon) setTitle(r *request, m *pb.SetTitleMsg) error {
	l, err := d.sessions.Open(m.GetId())
	if err != nil {
		return err
	}
	err = l.SetTitle(m.GetTitle())
	if cerr := l.Close(); cerr != nil && err == nil {
		d.log.Warn("close session", "session", l.ID(), "error", cerr) // the title is on disk
	}
	if err != nil {
		return err
	}
	d.loaded.SetTitle(l.ID(), m.GetTitle())
	s, err := d.describe(l.ID())
	if err != nil {
		return err
	}
	return r.stored(s)
}

// deleteStored moves a session file to the trash and closes the session if it is
// loaded. It returns an error if a run is active.
func (d *Daemon) deleteStored(r *request, m *pb.DeleteSessionMsg) error {
	s, err := d.describe(m.GetId())
	if err != nil {
		return err
	}
	if m.GetDryRun() {
		return r.stored(s)
	}
	if err := d.loaded.WithIdle(r.ctx, s.Id, func() error { return d.sessions.Delete(m.GetId()) }); err != nil {
		return err
	}
	s.Live, s.Active = 0, false
	return r.stored(s)
}

func (d *Daemon) restoreStored(r *request, m *pb.RestoreSessionMsg) error {
	if err := d.sessions.Restore(m.GetId()); err != nil {
		f := message(err)
		if f.Kind != "not_found" {
			return err
		}
		return &errtable.Error{HTTP: f.Code, Kind: f.Kind, Message: f.Message, Fix: "crabmem sessions list --trash shows what can be restored"}
	}
	s, err := d.describe(m.GetId())
	if err != nil {
		return err
	}
	return r.stored(s)
}

func (d *Daemon) repairStored(r *request, m *pb.RepairSessionMsg) error {
	s, err := d.describe(m.GetId())
	if err != nil {
		return err
	}
	var did sessionlog.Repaired
	err = d.loaded.WithIdle(r.ctx, s.Id, func() (err error) {
		did, err = d.sessions.Repair(m.GetId())
		return err
	})
	if err != nil {
		return err
	}
	if s, err = d.describe(s.Id); err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Repaired{Repaired: &pb.RepairSessionReply{
		Session: s, Copy: did.Copy, Dropped: uint64(did.Dropped), Unglued: uint64(did.Unglued)}}})
}

// purgeStored purges texts from a session file, and closes the session if it is
// loaded. It returns an error if a run is active.
func (d *Daemon) purgeStored(r *request, m *pb.PurgeSessionMsg) error {
	if err := memtool.CheckEraser(crmem.Actor(r.by)); err != nil {
		return err
	}
	if slices.Contains(m.GetTexts(), "") {
		return errtable.Invalidf("a text is empty")
	}
	s, err := d.describe(m.GetId())
	if err != nil {
		return err
	}
	var lines int
	err = d.loaded.WithIdle(r.ctx, s.Id, func() (err error) {
		lines, err = d.sessions.Purge(m.GetId(), m.GetTexts()...)
		return err
	})
	if err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_SessionPurged{SessionPurged: &pb.PurgeSessionReply{Lines: uint64(lines)}}})
}
