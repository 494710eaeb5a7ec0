package crmem

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// Prune removes the operations of the history that are older than a time, and
// returns how many bytes of files it freed. The entries do not change. It first
// checkpoints.
//
// Errors: those of [Store.Checkpoint], and of reading or writing the history, which
// is then valid, but may begin before the time.
func (s *Store) Prune(before time.Time) (freed int64, err error) {
	if err := s.Checkpoint(); err != nil {
		return 0, err
	}
	return s.pruneBefore(before)
}

// pruneBefore is Prune without a checkpoint. It waits for a running checkpoint: until
// that writes its new log, operations that it folded seem to be in the log.
func (s *Store) pruneBefore(before time.Time) (freed int64, err error) {
	defer s.excludeWriters()()
	if err := s.writable(); s.lock == nil || err != nil && err != errClosed { // no file, or no writer
		return 0, err
	}
	s.folding.Lock()
	defer s.folding.Unlock()
	p, err := readPast(s.fs, s.path, s.opts.MaxBytes)
	if err != nil {
		return 0, err
	}
	old, err := p.size()
	if err != nil {
		return 0, err
	}
	s.folded = folded{}
	if err := p.prune(before); err != nil {
		return 0, fmt.Errorf("%s: prune the history: %w", p.dir, err)
	}
	size, err := p.size()
	return max(0, old-size), err // a later fold compresses the segment that prune rewrote
}

// limitHistory removes the operations older than Options.HistoryLimit if the first
// operation is older than 1.25 times that limit (FORMAT.md, H13). It reports errors
// through Options.Warn.
func (s *Store) limitHistory() {
	limit, now := s.opts.HistoryLimit, s.opts.Now()
	if !s.exceedsLimit(now) {
		return
	}
	if _, err := s.pruneBefore(now.Add(-limit)); err != nil {
		s.warn("remove changes older than %v: %v", limit, err)
		return
	}
	s.folding.Lock()
	defer s.folding.Unlock()
	s.pruneAt = now.Add(limit / 4)
}

// exceedsLimit reports whether the first operation of the history, whose effective time
// is the least of all, is older than 1.25 times Options.HistoryLimit.
func (s *Store) exceedsLimit(now time.Time) bool {
	s.wmu.Lock()
	path, writes := s.path, s.stopped == nil && s.lock != nil
	s.wmu.Unlock()
	s.folding.Lock()
	defer s.folding.Unlock()
	if !writes || now.Before(s.pruneAt) {
		return false
	}
	segments, err := listSegments(s.fs, path+historySuffix)
	if err != nil {
		return false // the fold has reported it
	}
	at := int64(format.NoTime)
	for i := range segments {
		at = min(at, segments[i].leastTime(s.fs, path+historySuffix, maxLogFor(s.opts.MaxBytes)))
	}
	if at == format.NoTime {
		return false
	}
	s.pruneAt = s.limitEnd(at)
	return now.After(s.pruneAt)
}

// limitEnd returns the time after which an operation with an effective time exceeds
// 1.25 times Options.HistoryLimit.
func (s *Store) limitEnd(at int64) time.Time {
	return time.Unix(0, at).Add(s.opts.HistoryLimit).Add(s.opts.HistoryLimit / 4)
}

// leastTime returns the least time of an operation of the segment, or format.NoTime.
// Of a damaged segment it reads the part before the damage.
func (g *segment) leastTime(fsys vfs.FS, dir string, max int64) int64 {
	if g.readHead(fsys) != nil {
		return format.NoTime
	}
	if x, err := openIndex(fsys, dir, g); err == nil {
		defer x.close()
		return x.Time
	}
	scan, _ := g.scan(fsys, max)
	if scan == nil {
		return format.NoTime
	}
	return least(scan.Frames)
}

// size returns how many bytes the files of the history have.
func (p *past) size() (n int64, err error) {
	list, err := p.fsys.ReadDir(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, e := range list {
		fi, ierr := e.Info()
		if ierr != nil {
			return 0, ierr
		}
		n += fi.Size()
	}
	return n, err
}

// prune removes the operations before a time. The segment with the first operation
// that stays begins with it, and gets a base. If all are removed, prune empties the
// newest segment, and removes it last. The rename of that segment commits the prune:
// from then on, readers ignore the older segments.
func (p *past) prune(before time.Time) error {
	w := walker{past: p, until: Point{Time: before.Add(-1)}}
	for _, err := range p.bad {
		if !isDamage(err) {
			return err
		}
	}
	var newest *link
	var last uint64 // sequence number of its last operation
	for i := range p.links {
		l := &p.links[i]
		err := w.follow(i, i == 0)
		switch {
		case err == errDone && l.scanned == nil:
			if err := p.shorten(l, &w); err != nil {
				return err
			}
			return p.keepFrom(l.n)
		case err == nil:
		case err != errDone && !isDamage(err):
			return err
		default:
			w.begun = false
		}
		if l.scanned == nil {
			newest, last = l, max(w.applied, 1)
		}
	}
	if newest == nil {
		return p.keepFrom(noLimit)
	}
	h := newest.head
	h.Base, h.Seq = format.Digest{}, last
	h.Prune(true)
	if err := writeSegment(p.fsys, &newest.segment, h, nil); err != nil {
		return err
	}
	if err := p.keepFrom(newest.n); err != nil {
		return err
	}
	return p.keepFrom(noLimit)
}

// isDamage reports whether an error means damaged or missing bytes. After any other
// error, a later read may succeed.
func isDamage(err error) bool { return errors.Is(err, ErrFormat) || errors.Is(err, fs.ErrNotExist) }

// shorten removes the operations that w applied from a segment.
func (p *past) shorten(l *link, w *walker) error {
	scan, err := l.scan(p.fsys, p.max)
	if scan == nil {
		return err
	}
	w.t.sort()
	h := scan.LogHeader
	if h.Base, err = saveBase(p.fsys, p.dir, &Snapshot{NextID: w.nextID, t: w.t}); err != nil {
		return err
	}
	var kept []format.Frame
	for _, f := range scan.Frames {
		if f.Type != format.FrameCheckpoint && f.Seq > w.applied {
			kept = append(kept, f)
		}
	}
	h.Seq = w.applied + 1
	if before, _ := h.Pruned(); len(kept) == len(scan.Frames) && h == scan.LogHeader && (before || l.n == p.first) {
		return nil
	}
	h.Prune(false)
	return writeSegment(p.fsys, &l.segment, h, kept)
}

// keepFrom removes the segments with smaller numbers than n, and the bases that no
// other segment names. It removes the oldest segment last, so that the next checkpoint
// repeats an interrupted prune of a limited history.
func (p *past) keepFrom(n uint64) error {
	if err := removeIndexes(p.fsys, p.dir, func(k uint64) bool { return k > n }); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	list, err := p.fsys.ReadDir(p.dir)
	if err != nil {
		return err
	}
	segments, err := listSegments(p.fsys, p.dir)
	if err != nil {
		return err
	}
	var old []string
	named := make(map[format.Digest]bool)
	for i := range segments {
		g := &segments[i]
		if g.n < n {
			old = append(old, g.path)
			if g.both {
				old = append(old, g.otherPath()) // removed before path
			}
		} else if err := g.readHead(p.fsys); err == nil {
			named[g.head.Base] = true
		} else {
			return err
		}
	}
	var bases []string
	for _, e := range list {
		if d, ok := format.ParseBaseName(e.Name()); ok && !named[d] {
			bases = append(bases, filepath.Join(p.dir, e.Name()))
		}
	}
	oldest := min(1, len(old))
	slices.Reverse(old)
	for _, names := range [][]string{slices.Concat(old[:len(old)-oldest], bases), old[len(old)-oldest:]} {
		for _, name := range names {
			if err := p.fsys.Remove(name); err != nil {
				return err
			}
		}
		if err := p.fsys.SyncDir(p.dir); err != nil {
			return err
		}
	}
	return nil
}
