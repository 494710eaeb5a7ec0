package client

import (
	"context"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/history"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire/pb"
)

// ChangesOptions are the options of [Client.Changes].
type ChangesOptions struct {
	Seq   uint64 // only the change with this sequence number, with the content; 0: all
	Until uint64 // only changes up to this place; 0: all
	Limit uint32 // 0: no limit
}

// A Change is a change of an entry.
type Change struct {
	Place   uint64 // in the history of the entry; the oldest has 1
	Seq     uint64 // 0 if another program changed the file
	Time    time.Time
	By      history.Actor
	Type    history.Type
	OldName string      // before a rename
	Entry   crmem.Entry // after the change or, if the change removed it, before
	Bytes   int         // size of the content
}

// Changes returns the changes of the entry with an ID, newest first, and why a part of the
// history is not readable, if that is so.
func (c *Client) Changes(ctx context.Context, id uint64, o ChangesOptions) (list []Change, damaged string, err error) {
	m := &pb.ChangesMsg{Id: id, Seq: o.Seq, Until: o.Until, Limit: o.Limit, Content: o.Seq > 0}
	for l, err := range callStream(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_EntryChanges{EntryChanges: m}}, (*pb.ServerMessage).GetChanges) {
		if err != nil {
			return nil, "", err
		}
		damaged = l.GetDamaged()
		for _, m := range l.GetChanges() {
			change := Change{Place: m.GetPlace(), Seq: m.GetSeq(), By: memtool.Actor(m.GetBy()), Type: history.Type(m.GetType()), OldName: m.GetOldName(),
				Entry: memtool.Entry(m.GetEntry()), Bytes: int(m.GetEntry().GetBytes())}
			if m.GetTime() != 0 {
				change.Time = time.Unix(0, m.GetTime())
			}
			list = append(list, change)
		}
	}
	return list, damaged, nil
}
