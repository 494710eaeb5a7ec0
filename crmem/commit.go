package crmem

import (
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
	effects []effect
	nextID  uint64
	live    int
	bytes   int64
	callers int // that wait for it

	done  chan struct{} // closed when err and again are set
	err   error
	again bool // nothing was written, through no fault of the group's: stage anew
}

// Apply applies operations in order, all or none of them. When it returns nil
// they are durable.
//
// An error of an operation ([ErrNotFound], [ErrExists], [ErrKind],
// [ErrInvalid], [ErrStale], [ErrFull]) leaves the store as it was.
// [ErrNotApplied] says the same of a disk that was full. [ErrUnknown] says that
// the disk failed and only the next Open can tell; [ErrStopped] is every write
// after that.
func (s *Store) Apply(ops ...Op) error {
	_, err := s.apply(ops)
	return err
}

// Do is Apply, and returns the entries as the operations left them, one after
// the other: nothing of a Remove or an Unchanged, and an entry that several
// change as often.
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

// Remember adds a Note, or replaces the content of the one that has the name.
// Aliases replace the old ones; nil keeps them. [ErrKind] when the name is an
// Archive's.
func (s *Store) Remember(name, content string, aliases []string) (Entry, error) {
	effects, err := s.apply([]Op{remember{name, content, aliases}})
	if err != nil {
		return Entry{}, err
	}
	return entryOf(effects[0].rec), nil
}

// Forget removes a Note. [ErrKind] when the name is an Archive's.
func (s *Store) Forget(name string) error { return s.Apply(forget{name}) }

// apply returns the effects, one for each operation that has one.
func (s *Store) apply(ops []Op) ([]effect, error) {
	for _, op := range ops {
		if err := op.Validate(); err != nil {
			return nil, err
		}
	}
	for freed := false; ; {
		g, effects, first, err := s.stage(ops)
		if err != nil && g != nil { // it rests on writes of g, which may fail
			if <-g.done; g.err != nil || g.again {
				continue
			}
		}
		if err != nil || g == nil {
			return nil, err
		}
		if first { // who begins a group writes it, when the one before is done
			s.token <- struct{}{}
			s.commit()
			<-s.token
		}
		<-g.done
		switch {
		case g.err == nil && !g.again:
			return effects, nil
		case g.again:
		case !freed && errors.Is(g.err, ErrNotApplied) && vfs.OutOfSpace(g.err) && onlyRemoves(effects) && s.freeReserve():
			freed = true
		default:
			return nil, g.err
		}
	}
}

// stage checks ops against the state that they will meet, and adds their
// frames to the group that is written next; first is true when that began the
// group. With no ops the group is nil. With an error of an operation, the group
// is the last one that the state contains and the disk may not, or nil.
func (s *Store) stage(ops []Op) (g *group, effects []effect, first bool, err error) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if err := s.writable(); err != nil {
		return nil, nil, false, err
	}
	if err := s.ready(); err != nil {
		return nil, nil, false, fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	st := stage{t: &s.t, nextID: s.nextID, live: s.t.live, bytes: s.t.bytes, now: uint64(max(0, s.opts.Now().Unix()))}
	from := s.flight
	if s.staging != nil {
		from = s.staging
		st.before[0] = s.staging.names
	}
	if s.flight != nil {
		st.before[1] = s.flight.names
	}
	w := s.w
	if from != nil {
		st.nextID, st.live, st.bytes, w = from.nextID, from.live, from.bytes, from.w
	}
	st.empty = st.live == 0
	st.set, st.effects = st.oneSet[:0], st.oneEffect[:0]
	for _, op := range ops {
		if err := op.stage(&st); err != nil {
			return from, nil, false, err
		}
	}
	if size := st.bytes + format.HeaderSize; size > s.opts.MaxBytes && size > s.t.bytes+format.HeaderSize {
		return nil, nil, false, fmt.Errorf("%w: %d bytes with this write, at most %d", ErrFull, size, s.opts.MaxBytes)
	}
	if s.path != "" {
		end := w.End + 2*format.FrameHeader + format.DigestSize // and room for the frame of a checkpoint
		for i := range st.effects {
			end += format.FrameHeader + int64(len(st.effects[i].payload))
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
	}
	for i := range st.effects {
		e := &st.effects[i]
		typ := e.typ
		if i < len(st.effects)-1 {
			typ |= format.FrameMore
		}
		// Nothing of the group is written before all that stands before it
		// is synced.
		if s.path != "" {
			g.buf = w.Append(g.buf, typ, g.start, e.payload)
		}
	}
	g.effects = append(g.effects, st.effects...)
	g.callers++
	g.w, g.nextID, g.live, g.bytes = w, st.nextID, st.live, st.bytes
	return g, st.effects, first, nil
}

// newGroup returns an empty group, in the memory of the last one that was
// written. Caller holds wmu.
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

// writable returns why nothing can be written. Caller holds wmu.
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

// fail stops the store: what is on the disk is not known to be what is in RAM,
// and no later write may stand on it. Caller holds wmu.
func (s *Store) fail(err error) error {
	if s.stopped == nil {
		s.stopped = err
	}
	return err
}

// commit writes the staged group, if there is one, and makes it visible.
// Caller holds the token.
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
			// What was staged after g stands on effects that are not there.
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
	if len(g.buf) < 1<<20 && len(g.effects) < 1<<12 { // a large import's is not kept
		s.written = &group{buf: g.buf, names: g.names, effects: g.effects}
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

// gather lets the callers of the last group, who were answered together, stage
// what they do next before the sync that is to serve them all. It waits for
// nobody: it ends when the others have nothing to run. Caller holds the token.
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

// write makes a group durable. Caller holds the token.
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

// undo takes back a write of the log that failed at offset start. A full disk
// leaves the store as it was, if the log can be cut; every other error, and
// one of the cut, leaves the outcome unknown.
func (s *Store) undo(start int64, err error) error {
	if !vfs.OutOfSpace(err) {
		return s.unknown(err)
	}
	if terr := s.truncateLog(start); terr != nil {
		return s.unknown(errors.Join(err, terr))
	}
	return fmt.Errorf("%w: %w", ErrNotApplied, err)
}

// truncateLog removes what a failed append left after offset end. With an error
// the log may still have it.
func (s *Store) truncateLog(end int64) error {
	if err := s.checkLog(anyLength); err != nil {
		return s.keepState(err, nil)
	}
	if err := s.log.Truncate(end); err != nil {
		return err
	}
	return s.log.Datasync()
}

// unknown stops the store and says that the outcome is not known.
func (s *Store) unknown(err error) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return fmt.Errorf("%w: %w", ErrUnknown, s.fail(err))
}

// publish makes a group that is durable visible. It cannot fail. Caller holds
// wmu.
func (s *Store) publish(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range g.effects {
		e := &g.effects[i]
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
	}
	s.t.sort()
	s.version++
	s.nextID = g.nextID
	s.w = g.w
	s.ops += len(g.effects)
	s.measured()
}

func onlyRemoves(effects []effect) bool {
	return !slices.ContainsFunc(effects, func(e effect) bool { return e.typ != format.FrameRemove })
}
