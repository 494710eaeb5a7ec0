package daemon

import (
	"cmp"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// identity returns what the current configuration permits to an identity.
func (d *Daemon) identity(name string) op.Identity {
	return op.IdentityOf(d.setup().config.Origins, name)
}

// needs are the needs of the operations that have no row.
var needs = map[protoreflect.Name]op.Need{
	"ping": op.NeedNothing, "auth": op.NeedNothing, "get_stats": op.NeedNothing,
	"sessions": op.NeedOwn, "subscribe_events": op.NeedOwn,
	"reply_to_ask": op.NeedSession,
	"send":         op.NeedMessages, "stream": op.NeedMessages,
}

// identify records the identity that asks as the origin of changes.
func (r *request) identify() error {
	if len(r.as.Name) > crmem.MaxActorField {
		return errtable.Invalidf("as: %d bytes, want at most %d", len(r.as.Name), crmem.MaxActorField)
	}
	if r.as.Name != "" {
		r.By.Origin = r.as.Name
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
	switch needs[name] {
	case op.NeedNothing, op.NeedOwn:
		return nil
	case op.NeedSession:
		on := d.on(r)
		return on.OwnLoaded(m.GetReplyToAsk().GetSession())
	case op.NeedMessages:
		return d.permitMessage(r, m)
	}
	return r.as.Refused("%s", strings.ReplaceAll(string(name), "_", " "))
}

// permitMessage checks that the identity is the sender of a message, and created its
// session. It makes the identity the sender if the message has none.
func (d *Daemon) permitMessage(r *request, m *pb.ClientMessage) error {
	on, s := d.on(r), m.GetStream()
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
		return on.OwnLoaded(s.GetSession())
	case s.ResumeFile != nil:
		return on.OwnStored(s.GetResumeFile())
	}
	return nil
}
