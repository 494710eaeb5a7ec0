package memtool

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/errtable"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
)

// Message returns an entry as a message, with its content if content is set.
func Message(e crmem.Entry, content bool) *pb.Entry {
	m := &pb.Entry{Id: e.ID, Name: e.Name, Kind: pb.EntryKind(e.Kind), CreatedAt: e.CreatedAt, Aliases: e.Aliases, Bytes: uint64(len(e.Content))}
	if content {
		m.Content = e.Content
	}
	return m
}

// RememberedMessage returns the response to a RememberMsg.
func RememberedMessage(r Remembered) *pb.Entry {
	m := Message(r.Entry, true)
	m.Created = r.Created
	if r.Before != nil {
		m.ReplacedBytes = proto.Uint64(uint64(*r.Before))
	}
	return m
}

// RememberedOf returns the result that the response to a RememberMsg contains.
func RememberedOf(m *pb.Entry) Remembered {
	r := Remembered{Entry: Entry(m), Created: m.GetCreated()}
	if m.ReplacedBytes != nil && m.GetReplacedBytes() <= math.MaxInt64 {
		size := int64(m.GetReplacedBytes())
		r.Before = &size
	}
	return r
}

// Entry returns the entry of a message.
func Entry(m *pb.Entry) crmem.Entry {
	return crmem.Entry{ID: m.GetId(), Name: m.GetName(), Kind: crmem.Kind(m.GetKind()), CreatedAt: m.GetCreatedAt(), Content: m.GetContent(), Aliases: m.GetAliases()}
}

// NoteMessage returns an operation as a message.
func NoteMessage(o crmem.Remember) *pb.RememberMsg {
	m := &pb.RememberMsg{Name: o.Name, Content: o.Content, Aliases: o.Aliases, ClearAliases: o.Aliases != nil && len(o.Aliases) == 0}
	if o.Metadata != nil {
		m.Metadata = &pb.MetadataEdit{Drop: o.Metadata.Drop, Set: fieldMessages(o.Metadata.Set)}
	}
	return m
}

func fieldMessages(fields []metadata.Field) (list []*pb.MetadataField) {
	for _, f := range fields {
		list = append(list, &pb.MetadataField{Key: f.Key, Values: f.Values, List: f.List})
	}
	return list
}

func fieldsOf(list []*pb.MetadataField) (fields []metadata.Field) {
	for _, f := range list {
		fields = append(fields, metadata.Field{Key: f.GetKey(), Values: f.GetValues(), List: f.GetList()})
	}
	return fields
}

// SetFilter copies a query's filter and order to a request.
func SetFilter(m *pb.RecallMsg, q *crmem.Query) {
	f := &q.Filter
	m.Type, m.Tags, m.Meta, m.After, m.Before = f.Type, f.Tags, fieldMessages(f.Fields), f.After, f.Before
	m.MinShare, m.Sort, m.Expand = q.MinShare, string(q.Sort), q.Expand
	m.Semantic, m.Diverse, m.HalfLife = q.Semantic != nil, q.Diverse, uint64(max(q.HalfLife, 0)/time.Second)
}

// ReadFilter sets the filter and the order of a query to those of a request.
func ReadFilter(q *crmem.Query, m *pb.RecallMsg) (err error) {
	q.Filter = crmem.Filter{Type: m.GetType(), Tags: m.GetTags(), Fields: fieldsOf(m.GetMeta()), After: m.GetAfter(), Before: m.GetBefore()}
	q.MinShare, q.Expand, q.Diverse = m.GetMinShare(), m.GetExpand(), m.GetDiverse()
	q.HalfLife = time.Duration(min(m.GetHalfLife(), uint64(math.MaxInt64/time.Second))) * time.Second
	q.Sort, err = crmem.ParseSort(m.GetSort())
	if err != nil {
		return errtable.Invalidf("sort %v", err)
	}
	return nil
}

// Note returns a note message as an operation.
func Note(m *pb.RememberMsg) crmem.Remember {
	o := crmem.Remember{Name: m.GetName(), Content: m.GetContent(), Aliases: m.GetAliases()}
	if e := m.GetMetadata(); e != nil {
		o.Metadata = &metadata.Edit{Set: fieldsOf(e.GetSet()), Drop: e.GetDrop()}
	}
	if m.GetClearAliases() {
		o.Aliases = []string{}
	}
	return o
}

// Change returns an operation as a message, and the entry that it changes.
func Change(op crmem.Op) (*pb.Change, crmem.Entry) {
	switch op := op.(type) {
	case crmem.Add:
		e := crmem.Entry{Name: op.Name, Content: op.Content, Aliases: op.Aliases, Kind: op.Kind}
		return &pb.Change{Change: &pb.Change_Add{Add: Message(e, true)}}, e
	case crmem.Update:
		e := crmem.Entry{Name: op.Name, Content: op.Content, Aliases: op.Aliases}
		return &pb.Change{Change: &pb.Change_Update{Update: Message(e, true)}}, e
	case crmem.Remember:
		return &pb.Change{}, crmem.Entry{Name: op.Name} // no batch has one
	case crmem.Alias:
		e := crmem.Entry{Name: op.Name, Aliases: op.Aliases}
		return &pb.Change{Change: &pb.Change_Alias{Alias: Message(e, true)}}, e
	case crmem.Remove:
		return &pb.Change{Change: &pb.Change_Remove{Remove: op.Name}}, crmem.Entry{Name: op.Name}
	case crmem.Rename:
		return &pb.Change{Change: &pb.Change_Rename{Rename: &pb.Rename{Name: op.Name, To: op.To}}}, crmem.Entry{Name: op.Name}
	case crmem.Restore:
		return &pb.Change{Change: &pb.Change_Restore{Restore: Message(op.Entry, true)}}, op.Entry
	}
	return &pb.Change{}, crmem.Entry{} // which the daemon refuses
}

// AppendOps appends the operations of a message, its conditions first.
func AppendOps(ops []crmem.Op, m *pb.ApplyMsg) ([]crmem.Op, error) {
	for _, e := range m.GetUnchanged() {
		ops = append(ops, crmem.Unchanged{Entry: Entry(e)})
	}
	for i, c := range m.GetChanges() {
		switch c := c.GetChange().(type) {
		case *pb.Change_Add:
			e := Entry(c.Add)
			ops = append(ops, crmem.Add{Name: e.Name, Content: e.Content, Aliases: e.Aliases, Kind: e.Kind})
		case *pb.Change_Update:
			e := Entry(c.Update)
			ops = append(ops, crmem.Update{Name: e.Name, Content: e.Content, Aliases: e.Aliases})
		case *pb.Change_Alias:
			e := Entry(c.Alias)
			ops = append(ops, crmem.Alias{Name: e.Name, Aliases: e.Aliases})
		case *pb.Change_Remove:
			ops = append(ops, crmem.Remove{Name: c.Remove})
		case *pb.Change_Rename:
			ops = append(ops, crmem.Rename{Name: c.Rename.GetName(), To: c.Rename.GetTo()})
		case *pb.Change_Restore:
			ops = append(ops, crmem.Restore{Entry: Entry(c.Restore)})
		default:
			return nil, &errtable.Error{Kind: "invalid", HTTP: http.StatusBadRequest, Exit: errtable.ExitUsage,
				Message: fmt.Sprintf("change %d: empty, or from a newer client", i+1)}
		}
	}
	return ops, nil
}

// ActorMessage returns an actor as a message, or nil if every field is empty.
func ActorMessage(a crmem.Actor) *pb.Actor {
	if a == (crmem.Actor{}) {
		return nil
	}
	return &pb.Actor{Agent: a.Agent, Session: a.Session, Call: a.Call, Client: a.Client, Origin: a.Origin, Op: a.Op}
}

// Actor returns the actor of a message.
func Actor(m *pb.Actor) crmem.Actor {
	return crmem.Actor{Agent: m.GetAgent(), Session: m.GetSession(), Call: m.GetCall(), Client: m.GetClient(), Origin: m.GetOrigin(), Op: m.GetOp()}
}
