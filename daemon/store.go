package daemon

import (
	"slices"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
	"crabmem/daemon/memtool"
	"crabmem/daemon/secret/scan"
	"crabmem/daemon/wire/pb"
)

// The handlers of requests for the store. Their responses contain the output of
// the commands of the same names.

func (d opened) remember(r *request, m *pb.RememberMsg) error {
	if len(m.GetAliases()) > 0 && m.GetClearAliases() {
		return errtable.Invalidf("aliases and clear_aliases exclude each other")
	}
	note := memtool.Note(m)
	switch m.GetKind() {
	case pb.EntryKind_NOTE:
		w, err := d.checked(r).Remember(r.ctx, note)
		if err != nil {
			return err
		}
		r.wrote(&w.Entry)
		return r.remembered(w)
	case pb.EntryKind_ARCHIVE:
		if note.Metadata != nil {
			return errtable.Invalidf("metadata: only a note may have it, not an archive")
		}
		list, err := d.checked(r).Update(r.ctx, func(*crmem.Store) ([]crmem.Op, error) {
			return []crmem.Op{crmem.Add{Name: note.Name, Content: note.Content, Aliases: note.Aliases, Kind: crmem.Archive}}, nil
		})
		if err != nil {
			return err
		}
		r.wrote(&list[0])
		return r.remembered(memtool.Replaced(list[0], crmem.Entry{}))
	}
	return errtable.Invalidf("kind %d: want 0 (note) or 1 (archive)", m.GetKind())
}

// checked returns the store of a request. Each change of a text by a client passes the
// guard here, once.
func (d opened) checked(r *request) memtool.Store {
	return d.guardOf(r).Store(memtool.Local(d.store, r.by))
}

func (d opened) guardOf(r *request) memtool.Guard {
	g := d.guard()
	log := g.Warn
	g.Warn = func(text string) {
		log(text)
		r.warnings = append(r.warnings, text)
	}
	g.Policy = func() (scan.Policy, error) { // as a command without a daemon reads it
		c, err := config.LoadStructure(d.fs, d.home, d.opts.Getenv)
		if err != nil {
			c = d.setup().config
		}
		return c.Secrets, nil
	}
	g.AllowSecrets, g.AllowEmpty = r.allowSecrets, r.allowEmpty
	if c := r.by.Client; r.as.Name == "" && (c == crmem.ClientCLI || c == crmem.ClientImport) {
		g.Fix = memtool.OwnerFix
	}
	return g
}

// update applies the operation that f returns for an entry of the store, or none
// for nil. It returns the entry that the operation wrote, else the one that f
// returns.
func (d opened) update(r *request, f func(s *crmem.Store) (crmem.Entry, crmem.Op, error)) (e crmem.Entry, err error) {
	after, err := d.checked(r).Update(r.ctx, func(s *crmem.Store) ([]crmem.Op, error) {
		var op crmem.Op
		if e, op, err = f(s); err != nil || op == nil {
			return nil, err
		}
		return []crmem.Op{op}, nil
	})
	if len(after) > 0 {
		e = after[0]
	}
	return e, err
}

func (d opened) forget(r *request, m *pb.ForgetMsg) error {
	e, err := d.update(r, func(s *crmem.Store) (crmem.Entry, crmem.Op, error) {
		e, err := memtool.FindToRemove(s, m.GetName(), m.GetArchive())
		if m.GetDryRun() {
			return e, nil, err
		}
		return e, crmem.Remove{Name: e.Name}, err
	})
	if err != nil {
		return err
	}
	if !m.GetDryRun() {
		r.removed(e.ID)
	}
	return r.entry(e)
}

func (d opened) getEntry(r *request, m *pb.GetEntryMsg) error {
	e, err := memtool.Find(d.store, m.GetName())
	if err != nil {
		return err
	}
	return r.entry(e)
}

func (d opened) listEntries(r *request, m *pb.ListEntriesMsg) error {
	of, err := kinds(m.Kind)
	if err != nil {
		return err
	}
	return r.entries(func(yield func(*pb.Entry) bool) {
		left := m.GetLimit()
		for e := range d.store.All() {
			if e.ID <= m.GetAfter() || of != nil && of[0] != e.Kind {
				continue
			}
			if !yield(memtool.Message(e, m.GetContent())) {
				return
			}
			if left--; left == 0 { // 0 wraps around: no limit
				return
			}
		}
	})
}

func (d opened) alias(r *request, m *pb.AliasMsg) error {
	given := m.GetAliases()
	if len(given) == 0 && m.GetMode() != pb.AliasMsg_REPLACE {
		return errtable.Invalidf("no alias to add or to remove")
	}
	e, err := d.update(r, func(s *crmem.Store) (e crmem.Entry, _ crmem.Op, err error) {
		if e, err = memtool.Find(s, m.GetName()); err != nil {
			return e, nil, err
		}
		list := given
		switch m.GetMode() {
		case pb.AliasMsg_REPLACE:
		case pb.AliasMsg_ADD:
			list = memtool.WithAliases(e.Aliases, given)
		case pb.AliasMsg_REMOVE:
			list, err = memtool.WithoutAliases(s, e, given)
		default:
			err = errtable.Invalidf("mode %d: want 0 (replace), 1 (add), or 2 (remove)", m.GetMode())
		}
		if err != nil || slices.Equal(list, e.Aliases) {
			return e, nil, err
		}
		return e, crmem.Alias{Name: e.Name, Aliases: list}, nil
	})
	if err != nil {
		return err
	}
	r.wrote(&e)
	return r.entry(e)
}

func (d opened) apply(r *request, m *pb.ApplyMsg) error {
	ops, err := d.operations(m)
	if err != nil {
		return err
	}
	checked, err := d.guardOf(r).Ops(d.store, ops)
	if err != nil {
		return err
	}
	list, err := d.store.Do(append(checked, r.by)...)
	if err != nil {
		return err
	}
	r.applied(checked, list)
	content := m.GetContent() || len(r.warnings) > 0
	return r.entries(func(yield func(*pb.Entry) bool) {
		for _, e := range list {
			if !yield(memtool.Message(e, content)) {
				return
			}
		}
	})
}

func (d opened) undo(r *request, m *pb.UndoMsg) error {
	c, err := d.store.Undo(m.GetSeq(), r.by)
	if err != nil {
		return err
	}
	r.removed(c.Before.ID)
	r.wrote(&c.After)
	return r.entries(slices.Values([]*pb.Entry{memtool.Message(c.Before, true), memtool.Message(c.After, true)}))
}

func (d opened) purge(r *request, m *pb.PurgeMsg) error {
	if err := memtool.CheckEraser(crmem.Actor(r.by)); err != nil {
		return err
	}
	p, err := memtool.Purge(d.store, m.GetName(), m.GetArchive(), r.by)
	if err != nil {
		return err
	}
	if err := d.forgetPurged(d.store, d.name); err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Purged{Purged: &pb.PurgeReply{
		Entry: memtool.Message(p.Entry, false), Deleted: p.Deleted}}})
}

func (d opened) redact(r *request, m *pb.RedactMsg) error {
	by := crmem.Actor(r.by)
	by.Origin = "" // an admin, who may do what the owner may
	if err := memtool.CheckEraser(by); err != nil {
		return err
	}
	deleted, err := d.store.Redact(m.GetId(), m.GetSeq())
	if err != nil {
		return err
	}
	if err := d.forgetPurged(d.store, d.name); err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Purged{Purged: &pb.PurgeReply{Deleted: deleted}}})
}

func (d opened) prune(r *request, m *pb.PruneMsg) error {
	if err := memtool.CheckEraser(crmem.Actor(r.by)); err != nil {
		return err
	}
	freed, err := d.store.Prune(time.Unix(0, m.GetBefore()))
	if err != nil {
		return err
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Pruned{Pruned: &pb.PruneReply{Freed: uint64(max(freed, 0))}}})
}

func (d opened) checkpoint(r *request, _ *pb.CheckpointMsg) error {
	before := d.store.Stats()
	if err := d.store.Checkpoint(); err != nil {
		m := message(err)
		if m.Kind != "failed" {
			return err
		}
		return &errtable.Error{HTTP: m.Code, Kind: m.Kind, Message: m.Message, Path: m.Path, Err: err,
			Fix: "check the disk, then run crabmem verify and retry"}
	}
	after := d.store.Stats()
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Checkpointed{Checkpointed: &pb.CheckpointReply{
		Folded: uint64(before.LogOps), Entries: uint64(after.Entries), SnapshotBytes: uint64(after.SnapshotBytes)}}})
}

func (d opened) storeStats(r *request, m *pb.StoreStatsMsg) error {
	a := memtool.StatsAnswer{Path: d.store.Path(), Stats: d.store.Stats()}
	if m.GetIndex() {
		start := time.Now()
		x, err := d.store.IndexStats(r.ctx, analysis.Standard)
		if err != nil {
			return err
		}
		a.Index = &memtool.IndexAnswer{Bytes: x.Bytes, Terms: x.Terms, Postings: x.Postings, Seconds: time.Since(start).Seconds()}
	}
	return r.report(a, nil)
}
