package crmem

import (
	"fmt"
	"time"

	"crabmem/crmem/internal/format"
)

// Replace replaces the state of the store with a snapshot, as [Store.Update] does.
func (s *Store) Replace(sn *Snapshot) error {
	return s.Update(func(*Snapshot) (*Snapshot, error) { return sn, nil })
}

// Update replaces the state of the store by what next returns for the present
// state. Writers wait from before next is called until the new state is
// durable, so that no acknowledged write is lost. If next returns nil or an
// error, the store does not change. If another process creates the store
// concurrently, Update calls next again. next must not write to the store. IDs are
// not reused: NextID never becomes lower.
//
// Update writes the differences as one batch of the log, whose sync is the commit
// point, and then checkpoints. first is as for [Store.Overwrite]; without a [By],
// the client is "load". Errors: those of [Store.Apply].
func (s *Store) Update(next func(*Snapshot) (*Snapshot, error), first ...Op) error {
	s.token <- struct{}{}
	defer func() { <-s.token }()
	s.commit()
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	s.restage()
	if err := s.loadLocked(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	sn, err := next(s.snapshot())
	if err != nil || sn == nil {
		return err
	}
	if s.path != "" {
		absent := s.absent
		if err := s.ready(); err != nil {
			return fmt.Errorf("%w: %w", ErrNotApplied, err)
		}
		if absent && s.nextID != 1 {
			// Another process created the store concurrently: call next again.
			if sn, err = next(s.snapshot()); err != nil || sn == nil {
				return err
			}
		}
	}
	if size := sn.t.bytes + format.HeaderSize; size > s.opts.MaxBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrFull, size, s.opts.MaxBytes)
	}
	if s.path != "" {
		if err := s.logDifferences(sn, first); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.t = table{}
	s.t.init(sn.t.live)
	for _, r := range sn.t.recs {
		if r.enc != "" {
			s.t.append(r.enc)
		}
	}
	s.nextID = max(s.nextID, sn.NextID)
	s.version++
	s.noIndexFile, s.logged = true, nil
	s.dropIndex()
	s.compareVectors()
	s.mu.Unlock()
	if s.path == "" {
		return nil
	}
	if err := s.checkpointLocked(); err != nil {
		s.warn("checkpoint: %v", err) // the state is durable in the log
	}
	return nil
}

// logDifferences makes the operations durable that lead to the state sn. The caller
// holds the token and wmu.
func (s *Store) logDifferences(sn *Snapshot, first []Op) error {
	by := s.opts.By
	by.Client = ClientLoad
	st := stage{t: &s.t, by: by}
	for _, op := range first {
		if err := op.stage(&st); err != nil {
			return err
		}
	}
	return s.logEffects(append(differences(&s.t, &sn.t), s.reserveIDs(sn)...), sn.NextID, st.by, s.opts.Now())
}

// logEffects makes effects durable as one batch of the log. It does not change the
// table. The caller holds the token and wmu.
func (s *Store) logEffects(effects []effect, nextID uint64, by Actor, at time.Time) error {
	g := s.newGroup(s.w.End)
	g.w, g.nextID, g.effects = s.w, nextID, effects
	context := format.NewContext(at, by)
	for i := range effects {
		typ := effects[i].typ
		if i < len(effects)-1 {
			typ |= format.FrameMore
		}
		g.buf = g.w.AppendFrame(g.buf, typ, g.start, context, effects[i].payload)
	}
	if limit := maxLogFor(s.opts.MaxBytes); g.w.End > limit {
		return fmt.Errorf("%w: the log would have %d bytes, at most %d: load fewer changes at a time", ErrFull, g.w.End, limit)
	}
	if len(effects) == 0 {
		return nil
	}
	s.wmu.Unlock() // write locks it if it fails
	err := s.write(g)
	s.wmu.Lock()
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.noteChanges(effects, at.Unix())
	s.mu.Unlock()
	s.restage() // what other goroutines staged meanwhile
	s.w = g.w
	s.ops += len(effects)
	s.measured()
	return nil
}

// reserveIDs returns effects that make next_id that of sn, although no operation
// states next_id: they add an entry with the last ID before it, and remove it.
func (s *Store) reserveIDs(sn *Snapshot) []effect {
	id, name := sn.NextID-1, ""
	if id < s.nextID || sn.t.byID(id) != "" {
		return nil
	}
	for s.t.byName(name) != "" || sn.t.byName(name) != "" {
		name += "-"
	}
	r := format.NewRecord(id, 0, format.KindNote, name, "", nil)
	return []effect{{format.FramePut, r, r, "", id}, removal(id)}
}

// differences returns the effects that lead from one table to another. Removes come
// first, so that names are free.
func differences(from, to *table) (effects []effect) {
	same := func(a, b format.Record) bool {
		return b != "" && a.Name() == b.Name() && a.Kind() == b.Kind() && a.CreatedAt() == b.CreatedAt()
	}
	for _, r := range from.recs {
		if r.enc != "" && !same(r.enc, to.byID(r.id)) {
			effects = append(effects, removal(r.id))
		}
	}
	for _, r := range to.recs {
		if old := from.byID(r.id); r.enc != "" && old != r.enc {
			effects = append(effects, effect{format.FramePut, r.enc, r.enc, old, r.id})
		}
	}
	return effects
}

// Writable returns the error of a write that does not depend on the operation,
// such as [ErrReadOnly], or nil.
func (s *Store) Writable() error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.writable()
}
