package daemon

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire/pb"
)

// The operations on the store. They say what the commands of the same names
// say.

func (d *Daemon) remember(r *request, m *pb.RememberMsg) error {
	aliases := m.GetAliases()
	if len(aliases) > 0 && m.GetClearAliases() {
		return invalid("aliases and clear_aliases exclude each other")
	}
	if m.GetClearAliases() {
		aliases = []string{}
	}
	switch m.GetKind() {
	case pb.EntryKind_NOTE:
		e, err := d.store.Remember(m.GetName(), m.GetContent(), aliases)
		if err != nil {
			return err
		}
		return r.entry(e)
	case pb.EntryKind_ARCHIVE:
		list, err := d.store.Do(crmem.Add{Name: m.GetName(), Content: m.GetContent(), Aliases: aliases, Kind: crmem.Archive})
		if err != nil {
			return err
		}
		return r.entry(list[0])
	}
	return invalid("kind %d: want 0 (note) or 1 (archive)", m.GetKind())
}

// find returns the entry of a name, or of an alias that one entry has.
func (d *Daemon) find(name string) (crmem.Entry, error) {
	e, err := d.store.Get(name)
	switch {
	case errors.Is(err, crmem.ErrAmbiguous):
		return e, &failure{code: 409, kind: "ambiguous", text: err.Error(), path: d.store.Path(), remedy: "use one of the names", err: err}
	case errors.Is(err, crmem.ErrNotFound):
		return e, &failure{code: 404, kind: "not_found", text: fmt.Sprintf("no entry %q", name), path: d.store.Path(),
			remedy: "crabmem list shows the names, crabmem recall searches what is in them"}
	}
	return e, err
}

// change does what f makes of an entry, and again when the entry was changed
// meanwhile. It returns the entry that f saw, and what became of it.
func (d *Daemon) change(name string, f func(crmem.Entry) (crmem.Op, error)) (before crmem.Entry, after []crmem.Entry, err error) {
	for {
		if before, err = d.find(name); err != nil {
			return before, nil, err
		}
		op, err := f(before)
		if err != nil || op == nil {
			return before, []crmem.Entry{before}, err
		}
		after, err = d.store.Do(crmem.Unchanged{Entry: before}, op)
		if !errors.Is(err, crmem.ErrStale) {
			return before, after, err
		}
	}
}

func (d *Daemon) forget(r *request, m *pb.ForgetMsg) error {
	name := m.GetName()
	e, _, err := d.change(name, func(e crmem.Entry) (crmem.Op, error) {
		switch {
		case e.Name != name:
			return nil, &failure{code: 404, kind: "not_found", path: d.store.Path(),
				text: fmt.Sprintf("no entry %q; it is an alias of %q", name, e.Name), remedy: "forget it by its name"}
		case e.Kind == crmem.Archive && !m.GetArchive():
			return nil, &failure{code: 409, kind: "kind", path: d.store.Path(), text: fmt.Sprintf("%q is an archive", name),
				remedy: "crabmem forget --archive removes it"}
		case m.GetDryRun():
			return nil, nil
		}
		return crmem.Remove{Name: name}, nil
	})
	if err != nil {
		return err
	}
	return r.entry(e)
}

func (d *Daemon) getEntry(r *request, m *pb.GetEntryMsg) error {
	e, err := d.find(m.GetName())
	if err != nil {
		return err
	}
	return r.entry(e)
}

func (d *Daemon) listEntries(r *request, m *pb.ListEntriesMsg) error {
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
			if left--; left == 0 { // 0 went round: there is no limit
				return
			}
		}
	})
}

func (d *Daemon) alias(r *request, m *pb.AliasMsg) error {
	given := m.GetAliases()
	if len(given) == 0 && m.GetMode() != pb.AliasMsg_REPLACE {
		return invalid("no alias to add or to remove")
	}
	_, after, err := d.change(m.GetName(), func(e crmem.Entry) (crmem.Op, error) {
		list := given
		switch m.GetMode() {
		case pb.AliasMsg_REPLACE:
		case pb.AliasMsg_ADD:
			list = slices.Clone(e.Aliases)
			for _, a := range given {
				if !slices.Contains(list, a) {
					list = append(list, a)
				}
			}
		case pb.AliasMsg_REMOVE:
			for _, a := range given {
				if !slices.Contains(e.Aliases, a) {
					return nil, &failure{code: 404, kind: "not_found", path: d.store.Path(),
						text: fmt.Sprintf("%q has no alias %q", e.Name, a), remedy: "crabmem alias NAME shows what it has"}
				}
			}
			list = slices.DeleteFunc(slices.Clone(e.Aliases), func(a string) bool { return slices.Contains(given, a) })
		default:
			return nil, invalid("mode %d: want 0 (replace), 1 (add) or 2 (remove)", m.GetMode())
		}
		if slices.Equal(list, e.Aliases) {
			return nil, nil
		}
		return crmem.Alias{Name: e.Name, Aliases: list}, nil
	})
	if err != nil {
		return err
	}
	return r.entry(after[0])
}

func (d *Daemon) apply(r *request, m *pb.ApplyMsg) error {
	ops, err := d.operations(m)
	if err != nil {
		return err
	}
	list, err := d.store.Do(ops...)
	if err != nil {
		return err
	}
	return r.entries(func(yield func(*pb.Entry) bool) {
		for _, e := range list {
			if !yield(memtool.Message(e, m.GetContent())) {
				return
			}
		}
	})
}

func (d *Daemon) checkpoint(r *request) error {
	before := d.store.Stats()
	if err := d.store.Checkpoint(); err != nil {
		m := message(err)
		if m.Kind != "failed" {
			return err
		}
		return &failure{code: m.Code, kind: m.Kind, text: m.Message, path: m.Path, err: err,
			remedy: "check the disk, then run crabmem verify and retry"}
	}
	after := d.store.Stats()
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Checkpointed{Checkpointed: &pb.CheckpointReply{
		Folded: uint64(before.LogOps), Entries: uint64(after.Entries), SnapshotBytes: uint64(after.SnapshotBytes)}}})
}

func (d *Daemon) storeStats(r *request, m *pb.StoreStatsMsg) error {
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
