package crmem

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// Checkpoint writes the operations of the log into the snapshot, which then
// contains the complete store. It returns [ErrNotApplied] if the disk is full, or if
// the history cannot be written: the log still contains every operation.
func (s *Store) Checkpoint() error {
	s.wmu.Lock()
	err := s.writable()
	if err == nil && s.path != "" && !s.absent {
		err = s.ready()
	}
	if err != nil {
		s.wmu.Unlock()
		return err
	}
	s.bg.Add(1) // Close waits for it
	s.wmu.Unlock()
	defer s.bg.Done()
	return s.checkpoint()
}

// checkpoint is Checkpoint with writers going on during the encode. It then limits
// the history.
func (s *Store) checkpoint() error {
	if err := s.checkpointOnly(); err != nil {
		return err
	}
	if s.opts.HistoryLimit > 0 && s.opts.History != HistoryOff {
		s.limitHistory()
	}
	return nil
}

func (s *Store) checkpointOnly() error {
	s.checkpointing.RLock()
	defer s.checkpointing.RUnlock()
	for {
		s.token <- struct{}{}
		s.wmu.Lock()
		c, err := s.cut()
		s.wmu.Unlock()
		<-s.token
		if c == nil {
			return err
		}
		p, dig, err := s.prepare(c)
		s.token <- struct{}{}
		s.wmu.Lock()
		err = s.install(c, p, dig, err)
		covered := s.base >= c.seq
		s.wmu.Unlock()
		<-s.token
		// Another checkpoint, of an earlier cut, may have come between.
		if err != nil || covered || s.isStopped() {
			if err == nil && covered {
				s.saveIndexes(dig, c.recs)
			}
			return err
		}
	}
}

// isStopped reports whether the store refuses writes.
func (s *Store) isStopped() bool {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.stopped != nil
}

// checkpointLocked is checkpoint while writers wait. The caller holds the token
// and wmu, or has exclusive use of the store.
func (s *Store) checkpointLocked() error {
	c, err := s.cut()
	if c == nil {
		return err
	}
	p, dig, err := s.prepare(c)
	return s.install(c, p, dig, err)
}

// prepare folds the operations of a cut, and writes its snapshot to a temporary
// file.
func (s *Store) prepare(c *cut) (vfs.Pending, format.Digest, error) {
	if c.purging != "" {
		if err := s.writePurge(c.id, c.purging); err != nil {
			return nil, format.Digest{}, err
		}
	}
	if err := s.fold(c); err != nil {
		return nil, format.Digest{}, err
	}
	return s.writeTemp(c.nextID, c.live, c.recs)
}

func (s *Store) checkpointInBackground() {
	err := s.checkpoint()
	if err != nil {
		s.warn("checkpoint: %v", err)
	}
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.busy = false
	s.checkpointAt = 0
	if err != nil {
		s.checkpointAt = s.w.End + minLogLimit // do not retry immediately
	}
}

// logLimit is the length of the log that starts a checkpoint. The caller holds
// wmu.
func (s *Store) logLimit() int64 {
	limit := s.opts.LogLimit
	if limit == 0 {
		limit = max(minLogLimit, s.dbStat.size()/4)
	}
	return max(limit, s.checkpointAt)
}

// cut is the state that a checkpoint writes: operations up to seq.
type cut struct {
	seq    uint64
	last   format.Place // of operation seq
	log    vfs.File     // that seq was the end of
	end    int64        // length of log
	nextID uint64
	live   int
	recs   []rec

	// For the history: the snapshot before the cut, and the epoch of the log.
	base    uint64 // sequence number that it covers
	dbDig   format.Digest
	id      format.ID
	epoch   format.ID
	unread  error  // why fold could not read the log, or use the snapshot
	purging string // purges and redactions that are not complete
}

// cut returns the present state, or nil if the snapshot contains it. The caller
// holds wmu, and the token, so that no operation is incomplete.
func (s *Store) cut() (*cut, error) {
	if s.log == nil || s.stopped != nil || s.ops == 0 && !s.distrust {
		return nil, nil
	}
	if err := s.loadLocked(); err != nil {
		return nil, fmt.Errorf("%w: checkpoint: %w", ErrNotApplied, err)
	}
	if s.id == (format.ID{}) { // a version 1 log; the next log saves it
		s.id = format.NewID()
	}
	return &cut{
		seq:     s.w.Seq - 1,
		last:    s.w.Last,
		log:     s.log,
		end:     s.w.End,
		nextID:  s.nextID,
		live:    s.t.live,
		recs:    slices.Clone(s.t.recs),
		base:    s.base,
		dbDig:   s.dbDig,
		id:      s.id,
		epoch:   s.w.Epoch,
		purging: s.unfinishedLines(),
	}, nil
}

var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 1<<18) }}

// writeTemp writes a snapshot to a temporary file, syncs it, reads it back, and
// compares it. On an error it removes the file.
func (s *Store) writeTemp(nextID uint64, live int, recs []rec) (_ vfs.Pending, dig format.Digest, err error) {
	p, err := s.fs.Pending(s.path, 0o600)
	if err != nil {
		// No step was taken: no descriptor left, or no permission to create
		// files.
		return nil, dig, fmt.Errorf("%w: checkpoint: %w", ErrNotApplied, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Discard())
		}
	}()
	w := buffers.Get().(*bufio.Writer)
	w.Reset(io.MultiWriter(p, &dig))
	defer func() {
		w.Reset(nil)
		buffers.Put(w)
	}()
	if _, err := writeSnapshot(w, nextID, live, recs); err != nil {
		return nil, dig, err
	}
	if err := w.Flush(); err != nil {
		return nil, dig, err
	}
	if err := p.Sync(); err != nil {
		return nil, dig, err
	}
	b := make([]byte, dig.Len)
	if n, err := p.ReadAt(b, 0); n < len(b) {
		return nil, dig, fmt.Errorf("%s: read back %d of %d bytes: %w", p.Name(), n, len(b), err)
	}
	if got := format.DigestOf(b); got != dig {
		return nil, dig, fmt.Errorf("%s: wrote a snapshot of %v, read back %v: memory or disk is failing", p.Name(), dig, got)
	}
	sn, err := Decode(b)
	if err != nil {
		return nil, dig, fmt.Errorf("%s: the snapshot just written does not decode: %w", p.Name(), err)
	}
	if sn.NextID != nextID || sn.Len() != live {
		return nil, dig, fmt.Errorf("%s: the snapshot just written has %d entries, the store %d", p.Name(), sn.Len(), live)
	}
	return p, dig, nil
}

// spaceOr classifies a failure before any rename: the store is unchanged if the
// disk is full or no step was taken, and stops for any other reason. The caller
// holds wmu.
func (s *Store) spaceOr(err error) error {
	if errors.Is(err, ErrNotApplied) {
		return err
	}
	if vfs.OutOfSpace(err) {
		return fmt.Errorf("%w: checkpoint: %w", ErrNotApplied, err)
	}
	return s.fail(err)
}

// install makes a temporary file the snapshot and starts a new log. err is the
// error of writing the temporary file. The caller holds the token and wmu;
// writers wait.
//
// Recovery depends on the order: the log names the new snapshot before the
// snapshot can appear, and the old log is removed only after that. Between any
// two steps, the log has a point for whichever snapshot has the name.
func (s *Store) install(c *cut, p vfs.Pending, dig format.Digest, err error) error {
	if errors.Is(err, errUnfolded) && s.stopped == nil && s.log == c.log { // another program may have removed the snapshot
		if nerr := s.checkNames(s.w.End); nerr != nil {
			return s.fail(s.keepState(nerr, nil))
		}
	}
	if err != nil {
		return s.spaceOr(err)
	}
	if s.stopped != nil { // a failure came between
		return errors.Join(s.writable(), p.Discard())
	}
	if s.log != c.log { // another checkpoint did
		return p.Discard()
	}
	s.restage()
	if err := s.checkLog(s.w.End); err != nil {
		return errors.Join(s.fail(s.keepState(err, nil)), p.Discard())
	}
	if c.unread != nil {
		s.keepLog(c.unread)
	}
	if err := s.announce(dig, c.seq); err != nil {
		return errors.Join(err, p.Discard())
	}
	if err := s.swap(p, dig); err != nil {
		return err
	}
	frames, err := s.framesAfter(c)
	if err == nil {
		s.w.Epoch = c.epoch // fold may have begun a new one
		err = s.newLog(c.seq, frames, c.last)
	}
	if err != nil {
		return s.fail(s.keepState(err, nil))
	}
	s.ops = len(frames)
	s.distrust = false
	s.measured()
	s.makeReserve()
	return nil
}

// restage returns staged, unwritten operations to their callers, because their
// frames were made for the previous log. The caller holds wmu.
func (s *Store) restage() {
	if g := s.staging; g != nil {
		s.staging = nil
		g.again = true
		close(g.done)
	}
}

// announce appends and syncs the frame with the digest of the next snapshot.
// The caller holds the token and wmu.
func (s *Store) announce(dig format.Digest, seq uint64) error {
	if err := s.markDirty(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	w := s.w
	payload := binary.LittleEndian.AppendUint64(dig.Append(nil), seq)
	b := w.Append(nil, format.FrameCheckpoint, w.End, format.Record(format.View(payload)))
	if err := writeAll(s.log, b); err != nil {
		if !vfs.OutOfSpace(err) {
			return s.fail(err)
		}
		if terr := s.truncateLog(s.w.End); terr != nil {
			return s.fail(errors.Join(err, terr))
		}
		return fmt.Errorf("%w: checkpoint: %w", ErrNotApplied, err)
	}
	if err := s.log.Datasync(); err != nil {
		return s.fail(err)
	}
	s.w = w
	return nil
}

// swap renames the snapshot into place if the present file is the one that was
// read. Every error stops the store. The caller holds the token and wmu.
func (s *Store) swap(p vfs.Pending, dig format.Digest) error {
	if err := s.checkLog(s.w.End); err != nil {
		return errors.Join(s.fail(s.keepState(err, nil)), p.Discard())
	}
	if err := s.checkSnapshot(); errors.Is(err, ErrForeign) {
		return s.fail(s.keepOwn(err, p, dig))
	} else if err != nil {
		return s.fail(errors.Join(err, p.Keep()))
	}
	fi, err := p.Stat()
	if err != nil {
		return s.fail(errors.Join(err, p.Discard()))
	}
	err = p.Commit()
	s.dbStat.renamed(s.fs, s.path, fi)
	if err != nil {
		return s.fail(errors.Join(err, p.Discard()))
	}
	if err := s.fs.SyncDir(dirOf(s.path)); err != nil {
		return s.fail(err)
	}
	s.dbStat = fileStat{fi}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dbDig = dig
	s.logged, s.noIndexFile = nil, true // index files of other programs describe the former snapshot
	return nil
}

// keepOwn keeps a snapshot under a name that no program removes, because of
// err, and adds that name to err. The log names the snapshot, so repair
// --keep-log accepts it as a base.
func (s *Store) keepOwn(err error, p vfs.Pending, dig format.Digest) error {
	name, kerr := s.nameOwn(p, dig)
	if kerr != nil {
		return errors.Join(err, fmt.Errorf("keep the snapshot in %s: %w", name, kerr))
	}
	s.kept = name
	if d, ok := errors.AsType[*displacedError](err); ok {
		d.kept = fmt.Sprintf("this process wrote the snapshot %s, which the log extends: run crabmem repair --keep-log %s to use both", name, name)
	}
	return err
}

func (s *Store) checkpointsOnClose() bool {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if s.ops == 0 || s.log == nil || s.stopped != nil {
		return false
	}
	switch s.opts.CheckpointOnClose {
	case CheckpointAlways:
		return true
	case CheckpointAuto:
		return s.dbStat.size() <= smallSnapshot || s.w.End > s.dbStat.size()/4
	}
	return false
}
