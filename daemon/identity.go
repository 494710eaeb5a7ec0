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
	"crabmem/daemon/space"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// An identity is for whom a client asks, and what that permits.
type identity struct {
	name   string // empty: the owner of the home
	owner  bool   // everything is permitted: the owner, or an admin
	scope  tool.Scope
	space  string // the space without one in the request; empty: main
	writes bool   // it may change its space and its sessions
}

// identity returns what the current configuration permits to an identity.
func (d *Daemon) identity(name string) identity {
	origins := d.setup().config.Origins
	level := origins.Level(name)
	id := identity{name: name, owner: level == trust.Admin, scope: origins.Scope(name, name), writes: level != trust.Untrusted}
	if !id.owner {
		own, err := id.scope.WriteSpace("")
		if err != nil {
			own = strings.Join(id.scope.Memory.Reads.Names(), "") // an untrusted identity reads at most its own
		}
		id.space = own
	}
	return id
}

// mayRead reports whether the identity may read the sessions that another one created.
func (id *identity) mayRead(createdBy string) bool {
	return id.owner || id.scope.Memory.Sessions.Allows(createdBy)
}

// refused returns the error for an operation that the identity may not do.
func (id *identity) refused(format string, args ...any) error {
	return &errtable.Error{HTTP: http.StatusForbidden, Kind: "scope", Exit: errtable.ExitPermission,
		Message: id.name + " may not " + fmt.Sprintf(format, args...), Fix: "ask the owner of this machine, who sets trust in [origins] of config.toml"}
}

// A need is what an operation requires of an identity that is not an admin.
type need uint8

const (
	needOwner    need = iota // an operation that is not in needs
	needNothing              // the response is the same for everybody
	needOwn                  // the response contains only what the identity may read
	needRead                 // the identity may read the space
	needWrite                // the identity may change the space
	needSession              // the identity created the session
	needChanges              // the identity created the session, and may change it
	needMessages             // the identity sends the message to a session that it created
)

var needs = map[protoreflect.Name]need{
	"hello": needNothing, "ping": needNothing, "auth": needNothing, "get_stats": needNothing, "list_agents": needNothing, "list_models": needNothing,
	"sessions": needOwn, "list_sessions": needOwn, "search_sessions": needOwn, "list_spaces": needOwn, "subscribe_events": needOwn, "outcome": needOwn,
	"get_entry": needRead, "list_entries": needRead, "recall": needRead, "entry_changes": needRead,
	"remember": needWrite, "forget": needWrite, "apply": needWrite,
	"history": needSession, "reply_to_ask": needSession, "cancel": needSession,
	"set_title": needChanges, "delete_session": needChanges, "restore_session": needChanges, "compact_session": needChanges,
	"send": needMessages, "stream": needMessages,
}

// permit returns an error if the identity that asks may not do an operation. It sets
// the sender of a message, and who makes a change.
func (d *Daemon) permit(r *request, op protoreflect.Name, m *pb.ClientMessage) error {
	if r.as.name != "" {
		if len(r.as.name) > crmem.MaxActorField {
			return errtable.Invalidf("as: %d bytes, want at most %d", len(r.as.name), crmem.MaxActorField)
		}
		r.by.Origin = r.as.name
	}
	if r.as.owner {
		return nil
	}
	switch n := needs[op]; n {
	case needNothing:
		return nil
	case needOwn:
		if m.GetSearchSessions().GetTools() {
			return r.as.refused("search results of tools")
		}
		return nil
	case needRead, needWrite:
		return r.as.permitStore(op, m)
	case needSession, needChanges:
		if n == needChanges && !r.as.writes {
			return r.as.refused("change sessions")
		}
		return d.permitSession(r, m)
	case needMessages:
		return d.permitMessage(r, m)
	}
	return r.as.refused("%s", strings.ReplaceAll(string(op), "_", " "))
}

// permitStore checks an operation on a space.
func (id *identity) permitStore(op protoreflect.Name, m *pb.ClientMessage) error {
	name := cmp.Or(m.GetSpace(), id.space, space.Main)
	if needs[op] == needRead {
		if !id.scope.Memory.Reads.Allows(name) {
			return id.refused("read the space %s", name)
		}
		return nil
	}
	if !id.writes || !id.scope.Memory.Writes.Allows(name) {
		return id.refused("change the space %s", name)
	}
	if m.GetRemember().GetKind() != pb.EntryKind_NOTE || m.GetForget().GetArchive() {
		return id.refused("change archives")
	}
	return id.permitChanges(m.GetApply())
}

// permitChanges checks that a batch changes notes only: each changed entry must be a
// note in the conditions, which the store compares in the same transaction.
func (id *identity) permitChanges(m *pb.ApplyMsg) error {
	if m.GetFile() != "" {
		return id.refused("read files")
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
				return id.refused("change archives")
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
			return id.refused("restore entries")
		}
		if !notes[name] {
			return id.refused("change %q without the note in unchanged", name)
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
	if !r.as.mayRead(s.Meta.CreatedBy) {
		return missing
	}
	return nil
}

func (d *Daemon) ownTrashed(r *request, id string) error {
	infos, err := d.sessions.Trashed()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(infos, func(i sessionlog.Info) bool { return i.ID == id && r.as.mayRead(i.Meta.CreatedBy) }) {
		return fmt.Errorf("%w: %q", sessionlog.ErrNotFound, id)
	}
	return nil
}

func (d *Daemon) ownLoaded(r *request, id uint64) error {
	l, err := d.loaded.Get(id)
	if err == nil && !r.as.mayRead(l.CreatedBy()) {
		err = errtable.Errorf(http.StatusInternalServerError, "not_found", "session %d not found", id)
	}
	return err
}

// permitMessage checks that the identity is the sender of a message, and created its
// session. It makes the identity the sender if the message has none.
func (d *Daemon) permitMessage(r *request, m *pb.ClientMessage) error {
	s := m.GetStream()
	if q := m.GetSend(); q != nil {
		q.Sender = cmp.Or(q.Sender, &r.as.name)
		s = &pb.StreamMsg{Sender: q.Sender, Session: q.Session, Cwd: q.Cwd, ResumeFile: q.ResumeFile}
	} else {
		s.Sender = cmp.Or(s.Sender, &r.as.name)
	}
	switch {
	case s.GetSender() != r.as.name:
		return r.as.refused("send messages of %s", s.GetSender())
	case s.Cwd != nil:
		return r.as.refused("choose a working directory")
	case s.Session != nil:
		return d.ownLoaded(r, s.GetSession())
	case s.ResumeFile != nil:
		return d.ownStored(r, s.GetResumeFile())
	}
	return nil
}
