package crmem

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"crabmem/crmem/history"
	"crabmem/crmem/internal/format"
)

// Prune removes the operations of the history that are older than a time, and
// returns how many bytes of files it freed. The entries do not change. It first
// checkpoints.
//
// Errors: those of [Store.Checkpoint], and of reading or writing the history, which
// is then valid, but may begin before the time.
func (s *Store) Prune(before time.Time) (freed int64, err error) {
	if err := s.Checkpoint(); err != nil || s.path == "" {
		return 0, err
	}
	s.token <- struct{}{}
	defer func() { <-s.token }()
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if err := s.writable(); err != nil || s.absent {
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
	return old - size, err
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
// that stays begins with it, and gets a base.
func (p *past) prune(before time.Time) error {
	w := walker{past: p, until: history.Point{Time: before.Add(-1)}}
	for i := range p.links {
		l := &p.links[i]
		err := w.follow(l, i == 0)
		if err != nil && err != errDone {
			w.begun = false
		}
		if err != errDone {
			continue
		}
		if l.scanned != nil {
			break
		}
		if err := p.shorten(l, &w); err != nil {
			return err
		}
		return p.keepFrom(l.n)
	}
	return p.keepFrom(noLimit)
}

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
	h.Seq, h.Before = w.applied+1, format.Place{}
	if len(kept) == len(scan.Frames) && h == scan.LogHeader {
		return nil
	}
	return writeSegment(p.fsys, l.path, h, kept)
}

// keepFrom removes the segments with smaller numbers than n, and the bases that no
// other segment names.
func (p *past) keepFrom(n uint64) error {
	if err := removeIndexes(p.fsys, p.dir, nil); errors.Is(err, fs.ErrNotExist) {
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
	named := make(map[format.Digest]bool)
	for i := range segments {
		g := &segments[i]
		if g.n < n {
			err = p.fsys.Remove(g.path)
		} else if err = g.readHead(p.fsys); err == nil {
			named[g.head.Base] = true
		}
		if err != nil {
			return err
		}
	}
	for _, e := range list {
		if d, ok := format.ParseBaseName(e.Name()); ok && !named[d] {
			if err := p.fsys.Remove(filepath.Join(p.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return p.fsys.SyncDir(p.dir)
}
