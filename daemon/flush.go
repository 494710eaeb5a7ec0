package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"crabmem/bm25/clip"
	"crabmem/crmem"
	"crabmem/daemon/agent"
	"crabmem/daemon/op"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// collect adds a note that an agent stores to a flush. It writes no note.
func (d *Daemon) collect(f *agent.Flush, s *crmem.Store, o crmem.Remember) error {
	n := record.Note{Name: o.Name, Aliases: o.Aliases}
	old := noteOf(s, o.Name)
	if old.ID != 0 {
		n.Name, n.Was = old.Name, op.SHA256(old.Content)
	}
	ops, err := d.guard().Ops(s, []crmem.Op{o})
	if err != nil {
		return err
	}
	o = ops[0].(crmem.Remember)
	if err := o.Validate(); err != nil {
		return err
	}
	if n.Content, err = o.ContentFor(old.Content); err != nil {
		return err
	}
	return f.Add(n)
}

// noteOf returns the entry of a name or of a canonically equivalent one. Without it, the ID is
// 0.
func noteOf(s *crmem.Store, name string) crmem.Entry {
	if e, err := s.Get(name); err == nil && crmem.SameName(e.Name, name) {
		return e
	}
	return crmem.Entry{}
}

// storeNotes applies the notes of a flush in a session, all or none, and returns the names of
// the notes that it wrote. The permissions are those of the flush that the agent and the
// creator of the session still have. again is set if the store may have the notes.
func (d *Daemon) storeNotes(log *sessionlog.Log, w record.Work, again bool) (names []string, err error) {
	meta := log.Meta()
	s, err := d.setupOf(meta.Workspace)
	if err != nil {
		return nil, err
	}
	a := s.agents[meta.Agent]
	if a == nil {
		return nil, fmt.Errorf("store notes of %s: no agent %s", log.ID(), meta.Agent)
	}
	var scope tool.Scope
	if err := json.Unmarshal(w.Scope, &scope); err != nil {
		return nil, err
	}
	scope = scope.Intersect(a.Scope).Intersect(d.setup().config.Origins.Scope(meta.CreatedBy, meta.CreatedBy))
	space, err := scope.WriteSpace(d.spacesOf(meta.Workspace, meta.Agent)[0])
	if err = cmp.Or(scope.Tool(tool.Remember), err); err != nil { // the permission was withdrawn
		d.log.Warn("dropped the notes of a flush", "session", log.ID(), "error", err)
		return nil, nil
	}
	if len(w.Notes) == 0 {
		return nil, nil
	}
	by := crmem.By{Agent: meta.Agent, Session: log.ID(), Origin: clip.Bytes(meta.CreatedBy, crmem.MaxActorField), Call: fmt.Sprint("flush-", w.N)}
	err = d.writeSpace(space, func(s *crmem.Store) error {
		if scope.Memory.MaxEntries > 0 {
			d.limited.Lock()
			defer d.limited.Unlock()
		}
		// Update writes only if the entries are as the plan read them.
		_, err := op.Store{Store: s, By: by, Guard: op.Guard{AllowSecrets: true, AllowEmpty: true}}.Update(context.Background(), func(s *crmem.Store) ([]crmem.Op, error) {
			var ops []crmem.Op
			ops, names = d.notesToWrite(s, &scope, by, w, again)
			return ops, nil
		})
		return err
	})
	return names, err
}

// notesToWrite returns the operations for the notes of a flush that a store does not have. A
// note that is not as the flush read it gets another name, or is dropped if it was removed. A
// note that the guard or the quota refuses is dropped, too.
func (d *Daemon) notesToWrite(s *crmem.Store, scope *tool.Scope, by crmem.By, w record.Work, again bool) (list []crmem.Op, names []string) {
	limit := quota{Entries: scope.Memory.MaxEntries, Bytes: scope.Memory.MaxBytes}
	for _, n := range w.Notes {
		o := crmem.Remember{Name: n.Name, Content: n.Content, Aliases: n.Aliases}
		other := fmt.Sprintf("%s (%s-f%d)", n.Name, by.Session, w.N)
		if again && (wasWritten(s, n.Name, by) || wasWritten(s, other, by)) {
			return nil, nil // all of them were, in one step
		}
		old := noteOf(s, n.Name)
		equal := old.Content == n.Content && (n.Aliases == nil || slices.Equal(old.Aliases, n.Aliases))
		switch {
		case n.Name == record.Purged || n.Content == record.Purged, n.Was != "" && old.ID == 0, old.ID != 0 && equal:
			continue
		case old.ID != 0 && (old.Kind != crmem.Note || n.Was != op.SHA256(old.Content)):
			if o.Name = other; noteOf(s, other).ID != 0 {
				continue
			}
		}
		ops, err := d.guard().Ops(s, []crmem.Op{o})
		if err == nil {
			err = o.Validate()
		}
		if err == nil && limit.Entries > 0 {
			err = limit.check(s, &o)
			limit.Entries, limit.Bytes = max(1, limit.Entries-1), max(1, limit.Bytes-op.EntrySize(&crmem.Entry{Name: o.Name, Content: o.Content, Aliases: o.Aliases}))
		}
		if err != nil {
			d.log.Warn("dropped a note of a flush", "session", by.Session, "error", err)
			continue
		}
		list, names = append(list, ops[0]), append(names, o.Name)
	}
	return list, names
}

// wasWritten reports whether the history of a store has a change of an entry in a flush.
func wasWritten(s *crmem.Store, name string, by crmem.By) bool {
	for c, err := range s.ChangesOf(name) {
		if err == nil && c.By.Session == by.Session && c.By.Call == by.Call {
			return true
		}
	}
	return false
}
