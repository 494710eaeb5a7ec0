package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"

	"google.golang.org/protobuf/proto"
)

// entryOf returns the entry of a response.
func entryOf(m *pb.Entry, err error) (crmem.Entry, error) {
	if err != nil {
		return crmem.Entry{}, err
	}
	return memtool.Entry(m), nil
}

// Remember creates or replaces a note. Aliases replace the old ones; nil keeps
// them.
func (c *Client) Remember(ctx context.Context, name, content string, aliases []string) (crmem.Entry, error) {
	r, err := c.Overwrite(ctx, crmem.Remember{Name: name, Content: content, Aliases: aliases})
	return r.Entry, err
}

// Overwrite applies an operation, and returns the size of the replaced content, too.
func (c *Client) Overwrite(ctx context.Context, o crmem.Remember) (memtool.Remembered, error) {
	m := &pb.ClientMessage{Msg: &pb.ClientMessage_Remember{Remember: memtool.NoteMessage(o)}}
	e, err := callExt(ctx, c, m, (*pb.ServerMessage).GetEntry)
	if err != nil {
		return memtool.Remembered{}, err
	}
	return memtool.RememberedOf(e), nil
}

// ForgetOptions are the options of [Client.Forget].
type ForgetOptions struct {
	Archive bool // remove an archive, too
	DryRun  bool // change nothing
}

// Forget removes an entry, by its exact name, and returns it.
func (c *Client) Forget(ctx context.Context, name string, o ForgetOptions) (crmem.Entry, error) {
	m := &pb.ForgetMsg{Name: name, Archive: o.Archive, DryRun: o.DryRun}
	return entryOf(callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Forget{Forget: m}}, (*pb.ServerMessage).GetEntry))
}

// Get returns the entry of a name, or of an alias that one entry has.
func (c *Client) Get(ctx context.Context, name string) (crmem.Entry, error) {
	m := &pb.GetEntryMsg{Name: name}
	return entryOf(callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_GetEntry{GetEntry: m}}, (*pb.ServerMessage).GetEntry))
}

// GetID returns the entry with an ID. The error is crmem.ErrNotFound if no entry has it.
func (c *Client) GetID(ctx context.Context, id uint64) (crmem.Entry, error) {
	missing := fmt.Errorf("%w: %d", crmem.ErrNotFound, id)
	if id == 0 {
		return crmem.Entry{}, missing
	}
	for e, err := range c.List(ctx, ListOptions{Content: true, After: id - 1, Limit: 1}) {
		if err != nil || e.ID == id {
			return e, err
		}
	}
	return crmem.Entry{}, missing
}

// ListOptions are the options of [Client.List].
type ListOptions struct {
	Kinds   []crmem.Kind // at most one; empty: all
	Content bool         // include the contents
	After   uint64       // only IDs after this one
	Limit   uint32       // 0: no limit
}

// List returns the entries by ascending ID.
func (c *Client) List(ctx context.Context, o ListOptions) iter.Seq2[crmem.Entry, error] {
	m := &pb.ListEntriesMsg{Content: o.Content, After: o.After, Limit: o.Limit}
	if len(o.Kinds) > 0 {
		k := pb.EntryKind(o.Kinds[0])
		m.Kind = &k
	}
	return c.entries(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_ListEntries{ListEntries: m}})
}

// Apply applies operations, all or none, after it has checked each
// [crmem.Unchanged]. It returns the entries that they wrote, without content. A
// [crmem.By] replaces Client.By.
// Operations that exceed a frame go to the daemon in a private file.
func (c *Client) Apply(ctx context.Context, ops ...crmem.Op) ([]crmem.Entry, error) {
	return c.apply(ctx, vfs.OS{}, ops)
}

func (c *Client) apply(ctx context.Context, fsys vfs.FS, ops []crmem.Op) ([]crmem.Entry, error) {
	m := &pb.ApplyMsg{}
	var by *pb.Actor // nil: c.By
	for _, op := range ops {
		if u, ok := op.(crmem.Unchanged); ok {
			m.Unchanged = append(m.Unchanged, memtool.Message(u.Entry, true))
			continue
		}
		if a, ok := op.(crmem.By); ok {
			by = memtool.ActorMessage(crmem.Actor(a))
			continue
		}
		change, _ := memtool.Change(op)
		m.Changes = append(m.Changes, change)
	}
	if proto.Size(m) > wire.MaxFrame {
		name, err := writeBatch(fsys, m)
		if name != "" {
			defer func() { _ = fsys.Remove(name) }() // a remaining file does no harm
		}
		if err != nil {
			return nil, err
		}
		m = &pb.ApplyMsg{File: name}
	}
	var all []crmem.Entry
	for e, err := range c.entries(ctx, &pb.ClientMessage{By: by, Msg: &pb.ClientMessage_Apply{Apply: m}}) {
		if err != nil {
			return nil, OutcomeUnknown(err)
		}
		all = append(all, e)
	}
	return all, nil
}

// Undo restores the entry of a change to its state before the change, as
// crmem.Store.Undo does. It returns the entry before and after the write; an ID of
// 0 is a missing entry.
func (c *Client) Undo(ctx context.Context, seq uint64) (before, after crmem.Entry, err error) {
	var all []crmem.Entry
	for e, err := range c.entries(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_Undo{Undo: &pb.UndoMsg{Seq: seq}}}) {
		if err != nil {
			return crmem.Entry{}, crmem.Entry{}, OutcomeUnknown(err)
		}
		all = append(all, e)
	}
	if len(all) != 2 {
		return crmem.Entry{}, crmem.Entry{}, fmt.Errorf("unexpected response to undo: %d entries, want 2", len(all))
	}
	return all[0], all[1], nil
}

// Purge removes the entry of a name, and its texts from every file of the store, as
// crmem.Store.Purge does. Unless archives is set, the error for an archive is
// crmem.ErrKind.
func (c *Client) Purge(ctx context.Context, name string, archives bool) (memtool.Purged, error) {
	r, err := callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Purge{Purge: &pb.PurgeMsg{Name: name, Archive: archives}}}, (*pb.ServerMessage).GetPurged)
	if err != nil {
		return memtool.Purged{}, OutcomeUnknown(err)
	}
	return memtool.Purged{Entry: memtool.Entry(r.GetEntry()), Deleted: r.GetDeleted()}, nil
}

// Redact removes the content of the entry with an ID after a change, as
// crmem.Store.Redact does.
func (c *Client) Redact(ctx context.Context, id, seq uint64) (deleted []string, err error) {
	r, err := callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Redact{Redact: &pb.RedactMsg{Id: id, Seq: seq}}}, (*pb.ServerMessage).GetPurged)
	return r.GetDeleted(), OutcomeUnknown(err)
}

// Prune removes the operations of the history that are older than a time, as
// crmem.Store.Prune does. It returns the number of freed bytes.
func (c *Client) Prune(ctx context.Context, before time.Time) (freed int64, err error) {
	r, err := callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Prune{Prune: &pb.PruneMsg{Before: before.UnixNano()}}}, (*pb.ServerMessage).GetPruned)
	return int64(r.GetFreed()), err
}

func (c *Client) entries(ctx context.Context, m *pb.ClientMessage) iter.Seq2[crmem.Entry, error] {
	return func(yield func(crmem.Entry, error) bool) {
		for l, err := range callStream(ctx, c, m, (*pb.ServerMessage).GetEntries) {
			if err != nil {
				yield(crmem.Entry{}, err)
				return
			}
			for _, e := range l.GetEntries() {
				if !yield(memtool.Entry(e), nil) {
					return
				}
			}
		}
	}
}

// SetAliases replaces the aliases of an entry.
func (c *Client) SetAliases(ctx context.Context, name string, aliases []string) (crmem.Entry, error) {
	return c.alias(ctx, &pb.AliasMsg{Name: name, Aliases: aliases})
}

// AddAliases adds aliases to those of an entry.
func (c *Client) AddAliases(ctx context.Context, name string, aliases []string) (crmem.Entry, error) {
	return c.alias(ctx, &pb.AliasMsg{Name: name, Aliases: aliases, Mode: pb.AliasMsg_ADD})
}

// RemoveAliases removes aliases of an entry. The error is crmem.ErrNotFound if
// the entry does not have one of them.
func (c *Client) RemoveAliases(ctx context.Context, name string, aliases []string) (crmem.Entry, error) {
	return c.alias(ctx, &pb.AliasMsg{Name: name, Aliases: aliases, Mode: pb.AliasMsg_REMOVE})
}

func (c *Client) alias(ctx context.Context, m *pb.AliasMsg) (crmem.Entry, error) {
	return entryOf(callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Alias{Alias: m}}, (*pb.ServerMessage).GetEntry))
}

// Checkpoint writes the log of the store into its snapshot.
func (c *Client) Checkpoint(ctx context.Context) (memtool.Checkpointed, error) {
	r, err := callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Checkpoint{Checkpoint: &pb.CheckpointMsg{}}}, (*pb.ServerMessage).GetCheckpointed)
	return memtool.Checkpointed{Entries: int(r.GetEntries()), Folded: int(r.GetFolded()), Snapshot: int64(r.GetSnapshotBytes())}, err
}

// StoreStats returns figures of the store, and of its index if index is set.
func (c *Client) StoreStats(ctx context.Context, index bool) (a memtool.StatsAnswer, err error) {
	m := &pb.StoreStatsMsg{Index: index}
	r, err := callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_StoreStats{StoreStats: m}}, (*pb.ServerMessage).GetReport)
	if err == nil {
		err = json.Unmarshal(r.GetJson(), &a)
	}
	return a, err
}
