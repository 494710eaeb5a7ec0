package crmem

import (
	"bytes"
	"errors"
	"iter"
	"slices"

	"golang.org/x/text/unicode/norm"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// ChangesOf returns the changes of the entry that [Store.Get] returns for a name, and
// of every other entry that had the name, oldest first. Without such an entry, it returns
// those of the entries that had the name in normal form C, or else in form D. They are
// those that [Store.Changes] returns. It reads only their operations if the history has
// change indexes (FORMAT.md). Then it does not report damage of other operations.
func (s *Store) ChangesOf(name string) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		ids := make(map[uint64]bool)
		if e, err := s.Get(name); err == nil {
			ids[e.ID] = true
		}
		forms := []string{name, norm.NFC.String(name), norm.NFD.String(name)}
		for i, form := range forms {
			if slices.Contains(forms[:i], form) {
				continue
			}
			found := false
			for c, err := range s.changesOf(form, ids) {
				if found = true; !yield(c, err) {
					return
				}
			}
			if found {
				return
			}
		}
	}
}

// ChangesOfID returns the changes of the entries with some IDs, oldest first, as
// ChangesOf does. The entries may have been removed.
func (s *Store) ChangesOfID(ids ...uint64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		wanted := make(map[uint64]bool)
		for _, id := range ids {
			wanted[id] = true
		}
		for c, err := range s.changesOf("", wanted) {
			if (err != nil || slices.Contains(ids, c.Entry().ID)) && !yield(c, err) {
				return
			}
		}
	}
}

// changesOf returns the changes of the entries in ids, and of those that have or had a
// name, which it adds to ids.
func (s *Store) changesOf(name string, ids map[uint64]bool) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if list, err := s.indexedChanges(name, ids); err == nil {
			for _, c := range list {
				if !yield(c, nil) {
					return
				}
			}
			return
		}
		// An entry may get the name after other changes, so read the changes twice.
		for c, err := range s.Changes() {
			if err == nil && c.concerns(name) {
				ids[c.Entry().ID] = true
			}
		}
		for c, err := range s.Changes() {
			if (err != nil || ids[c.Entry().ID]) && !yield(c, err) {
				return
			}
		}
	}
}

// concerns reports whether the entry had a name before or after the change.
func (c *Change) concerns(name string) bool {
	return c.Before.ID != 0 && c.Before.Name == name || c.After.ID != 0 && c.After.Name == name
}

// knownSnapshot is a snapshot file and its digest.
type knownSnapshot struct {
	stat fileStat
	dig  format.Digest
}

// finder finds the changes of a few entries in a history.
type finder struct {
	walker
	name    string
	ids     map[uint64]bool // entries that have or may have had the name
	sources []source        // of the links
	changes []Change
	bytes   int64 // of the frames that changes came from
}

// maxFoundBytes limits the frames that indexedChanges keeps in memory.
var maxFoundBytes int64 = 64 << 20

// errUnusual reports a history for which a change index does not suffice.
var errUnusual = errors.New("the history is not one chain of complete segments")

// source contains the operations of a link: in a change index, or in frames. If both
// are nil, they are read when needed.
type source struct {
	*link
	index  *opIndex
	frames []format.Frame
}

// indexedChanges returns what ChangesOf returns, without reading all segments. ids
// contains the ID of the entry that has the name. It returns an error if the history
// must be read completely.
func (s *Store) indexedChanges(name string, ids map[uint64]bool) ([]Change, error) {
	p, err := s.chainedPast()
	if err != nil {
		return nil, err
	}
	f := finder{walker: walker{past: p}, name: name, ids: make(map[uint64]bool)}
	for id := range ids {
		f.ids[id] = true
	}
	f.yield = func(c Change, err error) bool {
		f.changes = append(f.changes, c)
		return err == nil && f.bytes <= maxFoundBytes
	}
	defer f.close()
	for _, step := range []func() error{f.open, f.findIDs, f.apply} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	for i := range f.changes {
		if c := &f.changes[i]; c.concerns(name) {
			ids[c.Entry().ID] = true
		}
	}
	return slices.DeleteFunc(f.changes, func(c Change) bool { return !ids[c.Entry().ID] }), nil
}

// chainedPast reads the log and the headers of the segments, but not the snapshot. It
// returns an error unless the history is one chain from a base to the log, and the log
// extends the snapshot.
func (s *Store) chainedPast() (*past, error) {
	s.mu.RLock()
	path := s.path
	s.mu.RUnlock()
	if path == "" {
		return nil, errUnusual
	}
	v := &files{}
	var err error
	if v.dig, err = s.digest(path); err != nil {
		return nil, err
	}
	if err := v.readLog(s.fs, path, s.opts.MaxBytes); err != nil {
		return nil, err
	}
	v.id, v.idErr = readIdentity(s.fs, path)
	if v.scan, err = format.ScanLog(v.log); err != nil {
		return nil, err
	}
	p, ok, err := pastOf(s.fs, path, s.opts.MaxBytes, v)
	if err != nil {
		return nil, err
	}
	if !ok || !p.bound || !p.unfinished.isEmpty() || len(p.bad) > 0 || len(p.links) < 2 || slices.ContainsFunc(p.links[1:], func(l link) bool { return l.start }) {
		return nil, errUnusual
	}
	return p, nil
}

// digest returns the digest of the snapshot. It reads the file only if it is not the
// one that the store read or wrote last.
func (s *Store) digest(path string) (format.Digest, error) {
	s.sizes.Lock()
	known := s.known
	s.sizes.Unlock()
	if fi, err := s.fs.Lstat(path); err == nil && known.stat.is(fi) && known.dig != (format.Digest{}) {
		return known.dig, nil
	}
	b, err := vfs.ReadFile(s.fs, path, s.opts.MaxBytes)
	return format.DigestOf(b), err
}

func (f *finder) close() {
	for _, src := range f.sources {
		if src.index != nil {
			src.index.close()
		}
	}
}

// open sets the sources. It opens the change indexes, and reads the log and the newest
// segment if that has no index.
func (f *finder) open() (err error) {
	for i := range f.links {
		src := source{link: &f.links[i]}
		if src.scanned == nil {
			if x, err := openIndex(f.fsys, f.dir, &src.segment); err == nil && x.LastSeq == src.limit {
				src.index, src.least, src.timed = x, x.Time, true
			} else if err == nil {
				x.close()
			}
		}
		if src.index == nil && (src.scanned != nil || src.n == f.last) {
			if src.frames, err = f.framesOf(src.link); err != nil {
				return err
			}
		}
		f.sources = append(f.sources, src)
	}
	return nil
}

// framesOf reads the operations of a link. It returns an error unless they end with
// the operation before the next link.
func (f *finder) framesOf(l *link) ([]format.Frame, error) {
	scan, err := f.scanOf(l)
	if err != nil {
		return nil, err
	}
	n := len(scan.Frames)
	if l.limit != noLimit && (n == 0 || scan.Frames[n-1].Seq != l.limit) || n > 0 && scan.Frames[n-1].More {
		return nil, errUnusual
	}
	return scan.Frames, nil
}

// load returns the operations of a source without an index.
func (f *finder) load(src *source) ([]format.Frame, error) {
	if src.frames != nil || src.scanned != nil {
		return src.frames, nil
	}
	return f.framesOf(src.link)
}

// findIDs adds the entries that had the name, and sets the state before the first link.
func (f *finder) findIDs() error {
	base, err := readBase(f.fsys, f.dir, f.links[0].head.Base, f.max)
	if err != nil {
		return err
	}
	if r := base.t.byName(f.name); r != "" {
		f.ids[r.ID()] = true
	}
	for i := range f.sources {
		src := &f.sources[i]
		if x := src.index; x != nil {
			if err := x.IDs(f.name, x.read, func(id uint64) { f.ids[id] = true }); err != nil {
				return err
			}
			continue
		}
		frames, err := f.load(src)
		if err != nil {
			return err
		}
		for k := range frames {
			if name, ok := frames[k].NameSet(); ok && name == f.name {
				f.ids[frames[k].EntryID()] = true
			}
		}
	}
	for id := range f.ids {
		if r := base.t.byID(id); r != "" {
			f.t.put(r)
		}
	}
	return nil
}

// apply applies the operations of the entries, in order.
func (f *finder) apply() error {
	for i := range f.sources {
		src := &f.sources[i]
		after, err := f.timeFrom(i + 1)
		if err != nil {
			return err
		}
		if src.index != nil {
			if err := f.applyIndexed(src.index, after); err != nil {
				return err
			}
			continue
		}
		frames, err := f.load(src)
		if err != nil {
			return err
		}
		times := format.EffectiveTimes(frames, after)
		err = format.Batches(frames, func(batch []format.Frame) error {
			at := times[0]
			times = times[len(batch):]
			return f.applyPart(batch, at)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// applyIndexed applies the operations of the entries in an indexed segment. after is
// the least time of later segments.
func (f *finder) applyIndexed(x *opIndex, after int64) error {
	ops, ok := x.Ops(&x.g.head, f.ids, x.read)
	if !ok {
		return errNoIndex
	}
	for len(ops) > 0 {
		n := 1
		for n < len(ops) && ops[n].Batch == ops[0].Batch {
			n++
		}
		var batch []format.Frame
		for i := range ops[:n] {
			frame, err := x.frame(&ops[i])
			if err != nil {
				return err
			}
			if f.bytes += int64(ops[i].Length); f.bytes > maxFoundBytes {
				return errUnusual
			}
			batch = append(batch, frame)
		}
		if err := f.batch(batch, min(ops[0].Time, after)); err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}

// applyPart applies the operations of the entries in a batch with an effective time.
func (f *finder) applyPart(batch []format.Frame, at int64) error {
	var part []format.Frame
	for i := range batch {
		if f.ids[batch[i].EntryID()] {
			frame := batch[i]
			frame.Context, frame.Payload = bytes.Clone(frame.Context), bytes.Clone(frame.Payload)
			f.bytes += frame.End() - frame.Offset
			part = append(part, frame)
		}
	}
	if part == nil {
		return nil
	}
	if !format.SameContext(batch) {
		return errUnusual
	}
	return f.batch(part, at)
}
