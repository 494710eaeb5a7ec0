package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/trust"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// identity returns what the current configuration permits to an identity.
func (d *Daemon) identity(name string) op.Identity {
	origins := d.setup().config.Origins
	level := origins.Level(name)
	id := op.Identity{Name: name, Owner: level == trust.Admin, Scope: origins.Scope(name, name), Writes: level != trust.Untrusted}
	if !id.Owner {
		own, err := id.Scope.WriteSpace("")
		if err != nil {
			own = strings.Join(id.Scope.Memory.Reads.Names(), "") // an untrusted identity reads at most its own
		}
		id.Space = own
	}
	return id
}

// needs are the needs of the operations that have no row.
var needs = map[protoreflect.Name]op.Need{
	"hello": op.NeedNothing, "ping": op.NeedNothing, "auth": op.NeedNothing, "get_stats": op.NeedNothing,
	"sessions": op.NeedOwn, "list_sessions": op.NeedOwn, "search_sessions": op.NeedOwn, "subscribe_events": op.NeedOwn, "outcome": op.NeedOwn,
	"get_entry": op.NeedRead, "list_entries": op.NeedRead, "recall": op.NeedRead, "entry_changes": op.NeedRead,
	"remember": op.NeedWrite, "forget": op.NeedWrite, "apply": op.NeedWrite,
	"history": op.NeedSession, "reply_to_ask": op.NeedSession, "cancel": op.NeedSession,
	"set_title": op.NeedChanges, "delete_session": op.NeedChanges, "restore_session": op.NeedChanges, "compact_session": op.NeedChanges,
	"send": op.NeedMessages, "stream": op.NeedMessages,
}

// identify records the identity that asks as the origin of changes.
func (r *request) identify() error {
	if len(r.as.Name) > crmem.MaxActorField {
		return errtable.Invalidf("as: %d bytes, want at most %d", len(r.as.Name), crmem.MaxActorField)
	}
	if r.as.Name != "" {
		r.by.Origin = r.as.Name
	}
	return nil
}

// permit returns an error if the identity that asks may not do an operation. It sets
// the sender of a message, and who makes a change.
func (d *Daemon) permit(r *request, name protoreflect.Name, m *pb.ClientMessage) error {
	if err := r.identify(); err != nil {
		return err
	}
	if r.as.Owner {
		return nil
	}
	switch n := needs[name]; n {
	case op.NeedNothing:
		return nil
	case op.NeedOwn:
		if m.GetSearchSessions().GetTools() {
			return r.as.Refused("search results of tools")
		}
		return nil
	case op.NeedRead, op.NeedWrite:
		return permitStore(&r.as, name, m)
	case op.NeedSession, op.NeedChanges:
		if n == op.NeedChanges && !r.as.Writes {
			return r.as.Refused("change sessions")
		}
		return d.permitSession(r, m)
	case op.NeedMessages:
		return d.permitMessage(r, m)
	}
	return r.as.Refused("%s", strings.ReplaceAll(string(name), "_", " "))
}

// permitStore checks an operation on a space.
func permitStore(id *op.Identity, operation protoreflect.Name, m *pb.ClientMessage) error {
	name := cmp.Or(m.GetSpace(), id.Space, space.Main)
	if needs[operation] == op.NeedRead {
		if !id.Scope.Memory.Reads.Allows(name) {
			return id.Refused("read the space %s", name)
		}
		return nil
	}
	if !id.Writes || !id.Scope.Memory.Writes.Allows(name) {
		return id.Refused("change the space %s", name)
	}
	if m.GetRemember().GetKind() != pb.EntryKind_NOTE || m.GetForget().GetArchive() {
		return id.Refused("change archives")
	}
	return permitChanges(id, m.GetApply())
}

// permitChanges checks that a batch changes notes only: each changed entry must be a
// note in the conditions, which the store compares in the same transaction.
func permitChanges(id *op.Identity, m *pb.ApplyMsg) error {
	if m.GetFile() != "" {
		return id.Refused("read files")
	}
	notes := make(map[string]bool)
	for _, e := range m.GetUnchanged() {
		notes[e.GetName()] = e.GetId() != 0 && e.GetKind() == pb.EntryKind_NOTE
	}
	for _, c := range m.GetChanges() {
		name := ""
		switch c := c.GetChange().(type) {
		case *pb.Change_Add:
			if c.Add.GetKind() != pb.EntryKind_NOTE {
				return id.Refused("change archives")
			}
			continue
		case *pb.Change_Update:
			name = c.Update.GetName()
		case *pb.Change_Alias:
			name = c.Alias.GetName()
		case *pb.Change_Remove:
			name = c.Remove
		case *pb.Change_Rename:
			name = c.Rename.GetName()
		default:
			return id.Refused("restore entries")
		}
		if !notes[name] {
			return id.Refused("change %q without the note in unchanged", name)
		}
	}
	return nil
}

// permitSession checks that the identity created the session of a request. A session of
// another identity is reported as missing.
func (d *Daemon) permitSession(r *request, m *pb.ClientMessage) error {
	switch {
	case m.GetHistory() != nil:
		return d.ownStored(r, m.GetHistory().GetId())
	case m.GetSetTitle() != nil:
		return d.ownStored(r, m.GetSetTitle().GetId())
	case m.GetDeleteSession() != nil:
		return d.ownStored(r, m.GetDeleteSession().GetId())
	case m.GetRestoreSession() != nil:
		return d.ownTrashed(r, m.GetRestoreSession().GetId())
	case m.GetReplyToAsk() != nil:
		return d.ownLoaded(r, m.GetReplyToAsk().GetSession())
	case m.GetCancel() != nil:
		return d.ownLoaded(r, m.GetCancel().GetSession())
	}
	if c := m.GetCompactSession(); c.GetId() != "" {
		return d.ownStored(r, c.GetId())
	}
	return d.ownLoaded(r, m.GetCompactSession().GetSession())
}

// ownStored takes no path, in contrast to resume_file.
func (d *Daemon) ownStored(r *request, id string) error {
	missing := fmt.Errorf("%w: %q", sessionlog.ErrNotFound, id)
	s, err := d.sessions.Read(id)
	if errors.Is(err, sessionlog.ErrAmbiguous) {
		return missing
	}
	if err != nil {
		return err
	}
	defer s.Close()
	if !r.as.MayRead(s.Meta.CreatedBy) {
		return missing
	}
	return nil
}

func (d *Daemon) ownTrashed(r *request, id string) error {
	infos, err := d.sessions.Trashed()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(infos, func(i sessionlog.Info) bool { return i.ID == id && r.as.MayRead(i.Meta.CreatedBy) }) {
		return fmt.Errorf("%w: %q", sessionlog.ErrNotFound, id)
	}
	return nil
}

func (d *Daemon) ownLoaded(r *request, id uint64) error {
	l, err := d.loaded.Get(id)
	if err == nil && !r.as.MayRead(l.CreatedBy()) {
		err = errtable.Errorf(http.StatusInternalServerError, "not_found", "session %d not found", id)
	}
	return err
}

// permitMessage checks that the identity is the sender of a message, and created its
// session. It makes the identity the sender if the message has none.
func (d *Daemon) permitMessage(r *request, m *pb.ClientMessage) error {
	s := m.GetStream()
	if q := m.GetSend(); q != nil {
		q.Sender = cmp.Or(q.Sender, &r.as.Name)
		s = &pb.StreamMsg{Sender: q.Sender, Session: q.Session, Cwd: q.Cwd, ResumeFile: q.ResumeFile}
	} else {
		s.Sender = cmp.Or(s.Sender, &r.as.Name)
	}
	switch {
	case s.GetSender() != r.as.Name:
		return r.as.Refused("send messages of %s", s.GetSender())
	case s.Cwd != nil:
		return r.as.Refused("choose a working directory")
	case s.Session != nil:
		return d.ownLoaded(r, s.GetSession())
	case s.ResumeFile != nil:
		return d.ownStored(r, s.GetResumeFile())
	}
	return nil
}
