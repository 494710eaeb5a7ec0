package crmem

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// purgeSuffix is that of the file with the purges and redactions that are not complete.
const purgeSuffix = "-purge"

// Purge removes the entry of a name, and its texts from the history and from every
// other file of the store. It also purges removed entries that had the name last.
// deleted are the files that may have contained the texts and were deleted because
// they cannot be read completely. first is as for [Store.Overwrite].
//
// Writers wait until the purge is complete. Open descriptors, free blocks of the
// disk, and copies of the files may contain the texts afterwards.
//
// Errors: [ErrNotFound] if the store and its history do not contain the name, and
// those of [Store.Apply]. After any other error the entry is removed, but files
// may contain its texts; the next open for writing continues the purge.
func (s *Store) Purge(name string, first ...Op) (deleted []string, err error) {
	if err := s.beginPurge(); err != nil {
		return nil, err
	}
	defer s.bg.Done()
	ids, err := s.removedAs(name)
	if err != nil {
		return nil, fmt.Errorf("%w: read the history: %w", ErrNotApplied, err)
	}
	if err := s.Apply(append(slices.Clip(first), purge{name, ids})...); err != nil && !s.unfinished(err) {
		return nil, err
	}
	if s.path == "" {
		return nil, nil
	}
	defer s.excludeWriters()()
	if deleted, err = s.finishOrRetry(); err != nil {
		err = fmt.Errorf("the entry is removed, but %w", err)
	}
	return deleted, err
}

// excludeWriters waits for checkpoints and writers, and excludes them until the returned
// function is called.
func (s *Store) excludeWriters() (admit func()) {
	s.checkpointing.Lock()
	s.token <- struct{}{}
	s.wmu.Lock()
	return func() {
		s.wmu.Unlock()
		<-s.token
		s.checkpointing.Unlock()
	}
}

// beginPurge adds to s.bg, so that Close waits for a purge.
func (s *Store) beginPurge() error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	err := s.writable()
	if err == nil && s.path != "" && !s.absent {
		if err = s.ready(); err != nil {
			err = fmt.Errorf("%w: %w", ErrNotApplied, err)
		}
	}
	if err == nil {
		s.bg.Add(1)
	}
	return err
}

// unfinished reports whether err is ErrNotFound because an earlier call removed the
// entry, but could not complete the purge.
func (s *Store) unfinished(err error) bool {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return errors.Is(err, ErrNotFound) && len(s.purging) > 0
}

// removedAs returns the ids of removed entries that had the name last.
func (s *Store) removedAs(name string) ([]uint64, error) {
	ids := make(map[uint64]bool)
	for c, err := range s.Changes() {
		switch {
		case err != nil && !isDamage(err):
			return nil, err
		case err != nil: // a damaged part; the purge deletes it
		case c.After.ID == 0 && c.Before.Name == name:
			ids[c.Before.ID] = true
		default:
			delete(ids, c.After.ID)
		}
	}
	delete(ids, 0)
	return slices.Sorted(maps.Keys(ids)), nil
}

// purge removes an entry for Purge. ids are of removed entries.
type purge struct {
	name string
	ids  []uint64
}

func (o purge) Validate() error { return nil }

func (o purge) stage(g *stage) error {
	old := g.get(o.name)
	switch {
	case old == "" && len(o.ids) == 0:
		return &nameError{ErrNotFound, o.name, ""}
	case old != "":
		g.remove(o.name, old)
		g.effects[len(g.effects)-1].typ = format.FramePurge
	}
	for _, id := range o.ids {
		if g.byID(id) == "" { // else it was restored meanwhile
			g.effects = append(g.effects, purgeEffect(format.FramePurge, id))
		}
	}
	return nil
}

// purgeEffect returns the effect of a purge or purged operation on an entry that does
// not exist.
func purgeEffect(typ byte, id uint64) effect { return effect{typ: typ, payload: removal(id).payload} }

// finishPurge completes a purge whose operation is in the log (FORMAT.md, H12).
// The caller holds checkpointing, the token, and wmu, or has exclusive use of the
// store.
func (s *Store) finishPurge() (deleted []string, err error) {
	defer func() {
		if err != nil {
			// No class: the call is neither without effect nor is its outcome unknown.
			err = fmt.Errorf("files may contain the removed texts until the purge is complete, which a running process or the next open for writing continues: %v", err)
		}
	}()
	if err := s.writable(); err != nil {
		return nil, err
	}
	if err := s.ready(); err != nil {
		return nil, err
	}
	if err := s.checkpointLocked(); err != nil {
		return nil, err
	}
	// A word stays in an index in memory after its entry is removed, and a checkpoint
	// would write it to an index file.
	s.mu.Lock()
	s.dropIndex()
	s.vectors.unsaved = true // the purge removes the file
	s.mu.Unlock()
	p := purger{s: s, dir: s.path + historySuffix, ids: make(map[uint64]bool), redactions: s.unredacted(), again: s.interrupted}
	s.interrupted = true
	var effects []effect
	for _, id := range s.unpurged() {
		p.ids[id] = true
		effects = append(effects, purgeEffect(format.FramePurged, id))
	}
	if err := p.files(); err != nil {
		return p.deleted, err
	}
	if err := p.history(); err != nil {
		return p.deleted, err
	}
	// The synced record is the end of the purge; the file is removed after it, so
	// that a crash between repeats the purge, which changes nothing. It has no time: the
	// changes before it keep theirs, even if this process's clock is slow.
	if err := s.logEffects(effects, s.nextID, s.opts.By, time.Time{}); err != nil {
		return p.deleted, err
	}
	if err := s.fs.Remove(s.path + purgeSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p.deleted, err
	}
	s.purging, s.redacting, s.interrupted = nil, nil, false
	return p.deleted, s.fs.SyncDir(dirOf(s.path))
}

// purger removes texts of entries from files.
type purger struct {
	s          *Store
	dir        string          // of the history
	ids        map[uint64]bool // entries of which it removes all texts
	redactions []redaction
	again      bool // a purge failed before: its changes may not be durable, and bases may lack the texts
	deleted    []string

	bases   map[format.Digest]format.Digest // rewritten, by their old digests
	unused  []string                        // bases to remove when no segment names them
	stubs   map[place]uint32                // record checksums of rewritten operations
	removed map[uint64]place                // where the text of an id that was seen ended last; zero: not yet
}

// place identifies an operation without its checksum.
type place struct {
	epoch format.ID
	seq   uint64
}

// remove deletes a file that may contain the texts.
func (p *purger) remove(name string) error {
	if err := p.s.fs.Remove(name); err != nil {
		return err
	}
	p.deleted = append(p.deleted, name)
	return nil
}

// files deletes the files next to the store that may contain the texts:
// quarantined, kept, temporary, and derived ones.
func (p *purger) files() error {
	dir, base := dirOf(p.s.path), filepath.Base(p.s.path)
	list, err := p.s.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(p.s.sweep(), p.derived()); err != nil {
		return err
	}
	for _, e := range list {
		rest, ok := strings.CutPrefix(e.Name(), base)
		kept := strings.HasPrefix(rest, ownSuffix) || strings.HasPrefix(rest, damagedSuffix)
		aside := rest == walSuffix+heldSuffix || strings.HasPrefix(rest, tornSuffix) ||
			strings.HasPrefix(rest, walSuffix+damagedSuffix) || strings.HasPrefix(rest, walSuffix+rejoinedSuffix)
		if !ok || !e.Type().IsRegular() || !kept && !aside {
			continue
		}
		name := filepath.Join(dir, e.Name())
		free, err := p.free(name)
		if err == nil && !free {
			err = p.remove(name)
		}
		if err != nil {
			return err
		}
	}
	return p.syncDir(dir)
}

// syncDir makes the names in a directory durable. The caller holds wmu. After an error,
// the store is fail-stop: a later sync could succeed although a removed text is on disk.
func (p *purger) syncDir(dir string) error {
	if err := p.s.fs.SyncDir(dir); err != nil {
		return p.s.fail(err)
	}
	return nil
}

// free reports whether a file is a complete snapshot or log of this store without
// the entries.
func (p *purger) free(name string) (bool, error) {
	b, err := vfs.ReadFile(p.s.fs, name, maxLogFor(p.s.opts.MaxBytes))
	if err = notAStore(err); errors.Is(err, ErrFormat) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if sn, err := Decode(b); err == nil {
		return !p.has(sn), nil
	}
	scan, err := format.ScanLog(b)
	if err != nil || scan.Verdict != format.Clean || scan.Store != p.s.id {
		return false, nil
	}
	for i := range scan.Frames {
		if p.concerns(&scan.Frames[i]) {
			return false, nil
		}
	}
	return true, nil
}

func (p *purger) has(sn *Snapshot) bool {
	for id := range p.ids {
		if sn.t.byID(id) != "" {
			return true
		}
	}
	return slices.ContainsFunc(p.redactions, func(r redaction) bool { return r.isOf(sn.t.byID(r.id)) })
}

// concerns reports whether a frame may contain a text of the entries.
func (p *purger) concerns(f *format.Frame) bool {
	return p.ids[f.EntryID()] && f.Type != format.FramePurge && f.Type != format.FramePurged || p.redacts(f)
}

// finishOrRetry is finishPurge. After an error it continues in the background.
func (s *Store) finishOrRetry() (deleted []string, err error) {
	if deleted, err = s.finishPurge(); err != nil {
		s.retryPurge()
	}
	return deleted, err
}

// purgeRetry is the time between two attempts to complete a purge.
const purgeRetry = 30 * time.Second

// retryPurge completes the purge in the background, until Close or an error that stops
// the store. The caller holds wmu.
func (s *Store) retryPurge() {
	if s.retrying || s.closed || s.stopped != nil {
		return
	}
	s.retrying = true
	s.bg.Go(func() {
		for again := true; again; {
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(purgeRetry):
				again = s.tryPurge()
			}
		}
	})
}

// tryPurge is one attempt of retryPurge. It returns false if there is no other.
func (s *Store) tryPurge() (again bool) {
	defer s.excludeWriters()()
	again = s.unfinishedLines() != "" && s.stopped == nil
	if again {
		deleted, err := s.finishPurge()
		again = err != nil
		s.reportPurge(deleted, err)
	}
	s.retrying = again
	return again
}

// reportPurge reports the end of a purge that an earlier call or process began.
func (s *Store) reportPurge(deleted []string, err error) {
	if err != nil {
		s.warn("continue an unfinished purge: %v", err)
		return
	}
	s.warn("completed a purge that was unfinished")
	for _, name := range deleted {
		s.warn("deleted %s, which may have contained purged text", name)
	}
}
