package crmem

import (
	"errors"
	"fmt"

	"crabmem/crmem/internal/format"
)

// Replace replaces the state of the store with a snapshot, by one checkpoint.
// Writers wait, and the log keeps no operation of the old state.
func (s *Store) Replace(sn *Snapshot) error {
	return s.Update(func(*Snapshot) (*Snapshot, error) { return sn, nil })
}

// Update replaces the state of the store by what next returns for the present
// state. Writers wait from before next is called until the new state is
// durable, so that no acknowledged write is lost. If next returns nil or an
// error, the store does not change. If another process creates the store
// concurrently, Update calls next again. next must not write to the store.
//
// Update is one checkpoint. Its commit point is the rename of the new snapshot.
// Errors: those of [Store.Checkpoint] and [ErrFull]; [ErrUnknown] if the disk
// failed between the announcement of the snapshot and the end of the swap.
func (s *Store) Update(next func(*Snapshot) (*Snapshot, error)) error {
	s.token <- struct{}{}
	defer func() { <-s.token }()
	s.commit()
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if err := s.writable(); err != nil {
		return err
	}
	s.restage()
	sn, err := next(s.Snapshot())
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
			if sn, err = next(s.Snapshot()); err != nil || sn == nil {
				return err
			}
		}
	}
	if size := sn.t.bytes + format.HeaderSize; size > s.opts.MaxBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrFull, size, s.opts.MaxBytes)
	}
	if s.path != "" {
		if err := s.replaceFiles(sn); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t = table{}
	s.t.init(sn.t.live)
	for _, r := range sn.t.recs {
		if r.enc != "" {
			s.t.append(r.enc)
		}
	}
	s.nextID = sn.NextID
	s.version++
	s.dropIndex()
	return nil
}

// Writable returns the error of a write that does not depend on the operation,
// such as [ErrReadOnly], or nil.
func (s *Store) Writable() error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.writable()
}

func (s *Store) replaceFiles(sn *Snapshot) error {
	p, dig, err := s.writeTemp(sn.NextID, sn.t.live, sn.t.recs)
	if err != nil {
		if err = s.spaceOr(err); !errors.Is(err, ErrNotApplied) {
			err = fmt.Errorf("%w: %w", ErrNotApplied, err)
		}
		return err
	}
	seq := s.w.Seq - 1
	if err := s.announce(dig, seq); err != nil {
		if !errors.Is(err, ErrNotApplied) {
			// A frame that names the snapshot on disk already makes it so.
			err = fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		return errors.Join(err, p.Discard())
	}
	if err := s.swap(p, dig); errors.Is(err, ErrForeign) {
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	} else if err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	if err := s.newLog(seq, nil, s.w.Last); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, s.fail(s.keepState(err, nil)))
	}
	s.ops = 0
	s.measured()
	return nil
}
