package client

import (
	"context"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire/pb"
)

// ChangesOptions are the options of [Client.Changes].
type ChangesOptions struct {
	Seq   uint64 // only the change with this sequence number, with the content; 0: all
	Until uint64 // only changes up to this place; 0: all
	Limit uint32 // 0: no limit
	Sums  bool   // include the digests of the contents
}

// A Change is a change of an entry.
type Change struct {
	Place   uint64 // in the history of the entry; the oldest has 1
	Seq     uint64 // 0 if another program changed the file
	Time    time.Time
	By      crmem.Actor
	Type    crmem.ChangeType
	OldName string      // before a rename
	Entry   crmem.Entry // after the change or, if the change removed it, before
	Bytes   int         // size of the content

	SHA256   []byte    // of the content
	Redacted time.Time // when the content was removed; zero: it was not
}

// Changes returns the changes of the entry with an ID, or of all entries if that is 0,
// newest first. damaged is the reason why a part of the history is not readable, or
// empty.
func (c *Client) Changes(ctx context.Context, id uint64, o ChangesOptions) (list []Change, damaged string, err error) {
	return c.changes(ctx, &pb.ChangesMsg{Id: id, Seq: o.Seq, Until: o.Until, Limit: o.Limit, Content: o.Seq > 0, Sums: o.Sums || o.Seq > 0})
}

// NewestChanges returns the newest change of each of at most 200 entries that the
// history contains, by ID.
func (c *Client) NewestChanges(ctx context.Context, ids ...uint64) (map[uint64]Change, error) {
	newest := make(map[uint64]Change)
	if len(ids) == 0 {
		return newest, nil
	}
	list, _, err := c.changes(ctx, &pb.ChangesMsg{NewestOf: ids, Sums: true})
	for _, change := range list {
		newest[change.Entry.ID] = change
	}
	return newest, err
}

func (c *Client) changes(ctx context.Context, m *pb.ChangesMsg) (list []Change, damaged string, err error) {
	for l, err := range callStream(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_EntryChanges{EntryChanges: m}}, (*pb.ServerMessage).GetChanges) {
		if err != nil {
			return nil, "", err
		}
		damaged = l.GetDamaged()
		for _, m := range l.GetChanges() {
			change := Change{Place: m.GetPlace(), Seq: m.GetSeq(), By: memtool.Actor(m.GetBy()), Type: crmem.ChangeType(m.GetType()), OldName: m.GetOldName(),
				Entry: memtool.Entry(m.GetEntry()), Bytes: int(m.GetEntry().GetBytes()), SHA256: m.GetSha256(),
				Time: timeOf(m.GetTime()), Redacted: timeOf(m.GetRedacted())}
			list = append(list, change)
		}
	}
	return list, damaged, nil
}
