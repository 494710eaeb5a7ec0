package crmem

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// group is the operations that share one write and one sync of the log.
type group struct {
	start   int64  // where its frames go
	buf     []byte // the frames
	w       format.LogWriter
	names   map[string]format.Record // as the group leaves them; "" = removed
	forms   forms                    // of names
	effects []effect
	nextID  uint64
	live    int
	bytes   int64
	callers int   // that wait for it
	at      int64 // time of the last operation

	done  chan struct{} // closed when err and again are set
	err   error
	again bool // nothing was written, for a reason outside the group: stage it again
}

// Apply applies operations in order, atomically. When it returns nil, they are
// durable.
//
// An error of an operation ([ErrNotFound], [ErrExists], [ErrKind],
// [ErrInvalid], [ErrStale], [ErrFull]) leaves the store unchanged. So does
// [ErrNotApplied], for a full disk. [ErrUnknown] means that the disk failed and
// only the next Open determines the outcome. Every later write returns
// [ErrStopped].
func (s *Store) Apply(ops ...Op) error {
	_, err := s.apply(ops)
	return err
}

// Do is Apply and returns the resulting entries in order, one per operation
// except Remove and Unchanged. If several operations change an entry, it is
// returned for each.
func (s *Store) Do(ops ...Op) ([]Entry, error) {
	effects, err := s.apply(ops)
	if err != nil {
		return nil, err
	}
	var list []Entry
	for i := range effects {
		if r := effects[i].rec; r != "" {
			list = append(list, entryOf(r))
		}
	}
	return list, nil
}

// Forget removes a Note. [ErrKind] when the name is an Archive's. first is as for
// [Store.Overwrite].
func (s *Store) Forget(name string, first ...Op) error {
	return s.Apply(append(slices.Clip(first), forget{name})...)
}

// apply returns the effects, one for each operation with an effect.
func (s *Store) apply(ops []Op) ([]effect, error) {
	for _, op := range ops {
		if err := op.Validate(); err != nil {
			return nil, err
		}
	}
	for {
		g, effects, first, err := s.stage(ops)
		if errors.Is(err, errIndexFile) {
			if _, err := s.mended(); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrNotApplied, err)
			}
			continue
		}
		if err != nil && g != nil { // it rests on writes of g, which may fail
			if <-g.done; g.err != nil || g.again {
				continue
			}
		}
		if err != nil || g == nil {
			return nil, err
		}
		if first { // the first of a group writes it, after the previous group
			s.token <- struct{}{}
			s.commit()
			<-s.token
		}
		<-g.done
		switch {
		case g.err == nil && !g.again:
			return effects, nil
		case g.again:
		case errors.Is(g.err, ErrNotApplied) && vfs.OutOfSpace(g.err) && onlyRemoves(effects) && s.freeReserve():
		default:
			return nil, g.err
		}
	}
}

// stage checks ops against the state after all earlier operations, and adds
// their frames to the next group. first is true if that began the group.
// Without ops the group is nil. With an error of an operation, the group is the
// last one that the state includes but the disk may not, or nil.
func (s *Store) stage(ops []Op) (g *group, effects []effect, first bool, err error) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if err := s.writable(); err != nil {
		return nil, nil, false, err
	}
	if err := s.ready(); err != nil {
		return nil, nil, false, fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	now := s.opts.Now()
	st := stage{t: &s.t, nextID: s.nextID, live: s.t.live, bytes: s.t.bytes, now: uint64(max(0, now.Unix())), by: s.opts.By}
	from := s.flight
	if s.staging != nil {
		from = s.staging
		st.before[0], st.forms[1] = s.staging.names, s.staging.forms
	}
	if s.flight != nil {
		st.before[1], st.forms[2] = s.flight.names, s.flight.forms
	}
	w := s.w
	if from != nil {
		st.nextID, st.live, st.bytes, w = from.nextID, from.live, from.bytes, from.w
	}
	st.empty = st.live == 0
	st.set, st.effects = st.oneSet[:0], st.oneEffect[:0]
	for _, op := range ops {
		if err := op.stage(&st); err != nil {
			return from, nil, false, cmp.Or(s.t.file.broken(), err)
		}
	}
	if err := s.t.file.broken(); err != nil {
		return nil, nil, false, err
	}
	if size := st.bytes + format.HeaderSize; size > s.opts.MaxBytes && size > s.t.bytes+format.HeaderSize {
		return nil, nil, false, fmt.Errorf("%w: %d bytes with this write, limit is %d: remove entries, then retry", ErrFull, size, s.opts.MaxBytes)
	}
	var context format.Record
	if s.path != "" {
		context = format.NewContext(now, st.by)
		end := w.End + 2*format.FrameHeader + format.DigestSize // and room for the frame of a checkpoint
		for i := range st.effects {
			end += format.FrameHeader + int64(len(context)+len(st.effects[i].payload))
		}
		// A log beyond maxLogFor could not be read again.
		if w.End > s.opts.MaxBytes || end > maxLogFor(s.opts.MaxBytes) {
			return nil, nil, false, fmt.Errorf("%w: the log has %d bytes, %d with this write: run crabmem checkpoint, or split the write", ErrFull, w.End, end)
		}
	}
	if len(st.effects) == 0 {
		return nil, nil, false, nil
	}

	if first = s.staging == nil; first {
		s.staging = s.newGroup(w.End)
	}
	g = s.staging
	for _, c := range st.set {
		g.names[c.name] = c.rec
		g.forms.add(c.name, normalForm(c.name))
	}
	for i := range st.effects {
		e := &st.effects[i]
		typ := e.typ
		if i < len(st.effects)-1 {
			typ |= format.FrameMore
		}
		// The group is written only after all earlier bytes are synced.
		if s.path != "" {
			g.buf = w.AppendFrame(g.buf, typ, g.start, context, e.payload)
		}
	}
	g.effects = append(g.effects, st.effects...)
	g.callers++
	g.at = now.Unix()
	g.w, g.nextID, g.live, g.bytes = w, st.nextID, st.live, st.bytes
	return g, st.effects, first, nil
}

// newGroup returns an empty group, which reuses the memory of the last written
// one. The caller holds wmu.
func (s *Store) newGroup(start int64) *group {
	g := &group{start: start, done: make(chan struct{})}
	if old := s.written; old != nil {
		clear(old.names)
		clear(old.effects)
		g.buf, g.names, g.effects = old.buf[:0], old.names, old.effects[:0]
		s.written = nil
	} else {
		g.names = make(map[string]format.Record)
	}
	return g
}

// writable returns the reason why the store refuses writes, or nil. The caller
// holds wmu.
func (s *Store) writable() error {
	switch {
	case s.closed:
		return errClosed
	case s.opts.ReadOnly:
		return ErrReadOnly
	case s.stopped != nil:
		return fmt.Errorf("%w; reopen it: %w", ErrStopped, s.stopped)
	}
	return nil
}

// fail stops the store: disk and memory may differ, so no later write may build
// on them. The caller holds wmu.
func (s *Store) fail(err error) error {
	if s.stopped == nil {
		s.stopped = err
	}
	return err
}

// commit writes the staged group, if there is one, and publishes it. The caller
// holds the token.
func (s *Store) commit() {
	s.gather()
	s.wmu.Lock()
	g := s.staging
	if g == nil {
		s.wmu.Unlock()
		return
	}
	s.crowd = g.callers
	s.staging, s.flight = nil, g
	stopped := s.stopped
	s.wmu.Unlock()

	if stopped != nil {
		g.err = fmt.Errorf("%w; reopen it: %w", ErrStopped, stopped)
	} else if s.path != "" {
		g.err = s.write(g)
	}

	s.wmu.Lock()
	s.flight = nil
	if g.err != nil {
		if next := s.staging; next != nil {
			// Operations staged after g depend on effects that were lost.
			s.staging = nil
			next.again = errors.Is(g.err, ErrNotApplied)
			if !next.again {
				next.err = fmt.Errorf("%w; reopen it: %w", ErrStopped, s.stopped)
			}
			close(next.done)
		}
		s.wmu.Unlock()
		close(g.done)
		return
	}
	s.publish(g)
	if len(g.buf) < 1<<20 && len(g.effects) < 1<<12 { // release the memory of a large import
		s.written = &group{buf: g.buf, names: g.names, effects: g.effects}
	}
	if s.path != "" && s.dbStat.size()+g.start < reserveFrom { // not again after the reserve was given up
		s.makeReserve()
	}
	if s.opts.Literal && s.path != "" {
		if err := s.checkpointLocked(); err != nil {
			s.warn("checkpoint: %v", err) // the operation is durable in the log
		}
	}
	if s.path != "" && !s.closed && !s.busy && s.w.End > s.logLimit() {
		s.busy = true
		s.bg.Go(s.checkpointInBackground) // Close waits for it
	}
	s.wmu.Unlock()
	close(g.done)
}

// gather lets the callers of the last group stage their next operations before
// the next sync, so that one sync serves them all. It does not wait: it ends
// when no other goroutine can run. The caller holds the token.
func (s *Store) gather() {
	for before := 0; s.crowd > 1; runtime.Gosched() {
		s.wmu.Lock()
		n := 0
		if s.staging != nil {
			n = s.staging.callers
		}
		s.wmu.Unlock()
		if n == before || n >= s.crowd {
			return
		}
		before = n
	}
}

// write makes a group durable. The caller holds the token.
func (s *Store) write(g *group) error {
	if err := s.markDirty(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	if err := writeAll(s.log, g.buf); err != nil {
		return s.undo(g.start, err)
	}
	if err := s.log.Datasync(); err != nil { // ◄ the commit point: when this returns nil, the group is acknowledged
		return s.unknown(err)
	}
	// Durable, but in a file that the next process does not find by its name.
	if err := s.checkNames(g.w.End); err != nil {
		return s.unknown(s.keepState(err, g))
	}
	return nil
}

func writeAll(f io.Writer, b []byte) error {
	n, err := f.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// undo reverts a write of the log that failed at offset start. If the disk is
// full and the log can be truncated, the store is unchanged. After any other
// error, including one of the truncation, the outcome is unknown.
func (s *Store) undo(start int64, err error) error {
	if !vfs.OutOfSpace(err) {
		return s.unknown(err)
	}
	if terr := s.truncateLog(start); terr != nil {
		return s.unknown(errors.Join(err, terr))
	}
	return fmt.Errorf("%w: %w", ErrNotApplied, err)
}

// truncateLog removes the bytes of a failed append after offset end. On an
// error the log may still contain them.
func (s *Store) truncateLog(end int64) error {
	if err := s.checkLog(anyLength); err != nil {
		return s.keepState(err, nil)
	}
	if err := s.log.Truncate(end); err != nil {
		return err
	}
	return s.log.Datasync()
}

// unknown stops the store and returns an error that the outcome is unknown.
func (s *Store) unknown(err error) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return fmt.Errorf("%w: %w", ErrUnknown, s.fail(err))
}

// publish makes a durable group visible. It cannot fail. The caller holds wmu.
func (s *Store) publish(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range g.effects {
		e := &g.effects[i]
		if id, begins, ok := pending(e.typ, e.payload); ok {
			s.notePurge(id, begins)
		}
		if e.id == 0 { // no entry changes
			continue
		}
		if e.rec == "" {
			s.t.remove(e.id)
		} else {
			s.t.put(e.rec)
		}
		for _, ix := range s.ix {
			if ix != nil {
				ix.change(e.id, e.rec)
			}
		}
		s.changeVectors(e.id, e.rec)
	}
	s.noteChanges(g.effects, g.at)
	s.t.sort()
	s.version++
	if s.path != "" && !s.noIndexFile {
		for i := range g.effects {
			s.logged = append(s.logged, logged{seq: s.w.Seq + uint64(i), id: g.effects[i].id})
		}
	}
	s.nextID = g.nextID
	s.w = g.w
	s.ops += len(g.effects)
	s.measured()
}
