package crmem

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

const (
	segmentBytes = 8 << 20 // a larger segment is not appended to
	baseEvery    = 8       // segments between two bases

	segmentsCompressed = 4 // maximum of segments that one fold compresses
)

// errUnfolded reports that the history cannot be written, so that the log keeps its
// operations (FORMAT.md, H8).
var errUnfolded = errors.New("the history cannot be written, and the log keeps the changes")

// errNoBase reports that the snapshot is not as it was written, so that no base can be
// written.
var errNoBase = errors.New("copy the snapshot to the history")

// fold appends the operations of a cut to the history (FORMAT.md, H2). It sets
// c.last and c.epoch, because the history may need a new epoch. After an error, which
// is errUnfolded, the operations must not leave the log. If the log cannot be
// read, or the snapshot is not as it was written, fold sets c.unread; see install.
//
// A concurrent checkpoint may replace the files meanwhile. install then discards
// the cut, and the segment overlaps with the next one, which is harmless (H4).
func (s *Store) fold(c *cut) error {
	if s.opts.History == HistoryOff || c.seq == c.base {
		return nil
	}
	s.folding.Lock()
	defer s.folding.Unlock()
	frames, prev, err := c.operations()
	if c.unread = err; err != nil || len(frames) == 0 {
		return nil
	}
	f := folder{s: s, c: c, dir: s.path + historySuffix, prev: prev, frames: frames, epoch: c.epoch}
	if f.epoch == (format.ID{}) {
		f.epoch = format.NewID()
	}
	done, err := f.extend()
	if !done && err == nil {
		err = f.begin()
	}
	if errors.Is(err, errNoBase) {
		s.folded, c.unread = folded{}, err
		return nil
	}
	if err != nil {
		s.folded = folded{}
		return fmt.Errorf("%w: checkpoint: %w: %w", ErrNotApplied, errUnfolded, err)
	}
	if !s.pruneAt.IsZero() { // an earlier clock makes all operations older
		if end := s.limitEnd(least(frames)); end.Before(s.pruneAt) {
			s.pruneAt = end
		}
	}
	s.folded = folded{f.listing(), f.end}
	c.last, c.epoch = f.end.Last, f.epoch
	return nil
}

// operations returns the operations of the log that the cut contains and the
// snapshot does not, and the place of the operation before them. The place is zero
// if it is unknown.
func (c *cut) operations() ([]format.Frame, format.Place, error) {
	b := make([]byte, c.end)
	if n, err := c.log.ReadAt(b, 0); n < len(b) {
		return nil, format.Place{}, fmt.Errorf("history: read %d of %d bytes of the log: %w", n, len(b), err)
	}
	scan, err := format.ScanLog(b)
	if err != nil {
		return nil, format.Place{}, err
	}
	if scan.Verdict != format.Clean {
		return nil, format.Place{}, fmt.Errorf("history: the log does not read back as written: offset %d: %s", scan.Bad, scan.Why)
	}
	var frames []format.Frame
	prev := scan.Before
	for i := range scan.Frames {
		switch f := &scan.Frames[i]; {
		case f.Type == format.FrameCheckpoint || f.Seq > c.seq:
		case f.Seq <= c.base:
			prev = format.Place{Epoch: scan.Epoch, Seq: f.Seq, CRC: f.RecordCRC()}
		default:
			frames = append(frames, *f)
		}
	}
	if prev.Epoch == (format.ID{}) { // the first log of an epoch
		prev = format.Place{}
	}
	return frames, prev, nil
}

// folder is one fold.
type folder struct {
	s      *Store
	c      *cut
	dir    string
	prev   format.Place // of the operation before frames, or zero
	frames []format.Frame
	epoch  format.ID
	end    format.LogWriter // of the newest segment, after the fold

	segments []segment // of the history before the fold
}

// extend appends the operations to the newest segment. It returns false if they
// need a new segment, for example because the newest one cannot be written, which it reports.
func (f *folder) extend() (done bool, err error) {
	if f.segments, err = listSegments(f.s.fs, f.dir); err != nil || len(f.segments) == 0 || f.prev.Epoch != f.epoch {
		return false, err
	}
	newest := &f.segments[len(f.segments)-1]
	if newest.compressed() {
		return false, nil
	}
	done, err = f.extendFile(newest.path)
	if err != nil {
		f.s.warn("history: %v: the changes go to a new segment", err)
	}
	return done && err == nil, nil
}

// extendFile is extend for the newest segment, whose file is name.
func (f *folder) extendFile(name string) (done bool, err error) {
	file, err := f.s.fs.OpenFile(name, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	fi, err := file.Stat()
	if err != nil || fi.Size() >= f.s.segmentLimit || vfs.Identify(fi).Links > 1 {
		return false, err
	}
	w, ok := f.tail(fi.Size())
	if !ok {
		return false, nil
	}
	b := f.encode(nil, w)
	if err := writeAll(file, b); err != nil {
		return false, err
	}
	if err := file.Datasync(); err != nil {
		return false, err
	}
	_, changed, err := vfs.CheckName(f.s.fs, name, fi)
	if changed != "" {
		err = &displacedError{path: name, why: changed}
	}
	if err == nil && fi.Size()+int64(len(b)) >= f.s.segmentLimit {
		f.seal()
	}
	return true, err
}

// encode appends the frames of the operations, as one write, and sets f.end.
func (f *folder) encode(b []byte, w format.LogWriter) []byte {
	start := w.End
	for i := range f.frames {
		b = w.AppendCopy(b, &f.frames[i], start)
	}
	f.end = w
	return b
}

// begin writes the operations to a new segment, after a base if they need one.
func (f *folder) begin() error {
	if err := vfs.MkdirAll(f.s.fs, f.dir, 0o700); err != nil {
		return err
	}
	f.sweep()
	found := f.compare()
	if !found || f.sinceBase() >= baseEvery || f.readable(true) == nil {
		if err := f.s.writeBase(f.dir, f.c.dbDig); err != nil {
			return err
		}
	}
	h := format.LogHeader{Salt: rand.Uint64(), Base: f.c.dbDig, Seq: f.frames[0].Seq, Store: f.c.id, Epoch: f.epoch, Before: f.prev}
	b := h.Append(nil)
	if err := vfs.WriteFile(f.s.fs, nextSegment(f.dir, f.segments), 0o600, f.encode(b, h.Writer())); err != nil {
		return err
	}
	f.seal()
	return nil
}

// compare looks for the operation before those to fold, and reports whether a
// segment has it. If the history has other operations in their place, or later
// ones, f.epoch becomes a new epoch (FORMAT.md, H6).
func (f *folder) compare() (found bool) {
	ours := make(map[uint64]uint32, len(f.frames))
	for i := range f.frames {
		ours[f.frames[i].Seq] = f.frames[i].RecordCRC()
	}
	for i := len(f.segments) - 1; i >= 0 && !found; i-- {
		g := &f.segments[i]
		if g.readHead(f.s.fs) != nil || g.head.Epoch != f.c.epoch && g.head.Epoch != f.prev.Epoch {
			continue
		}
		scan, err := g.scan(f.s.fs, maxLogFor(f.s.opts.MaxBytes))
		if err != nil {
			continue // H7: damaged
		}
		found = scan.Find(f.prev) >= 0
		for k := range scan.Frames {
			fr := &scan.Frames[k]
			if fr.Type == format.FrameCheckpoint || fr.Seq <= f.c.base || g.head.Epoch != f.c.epoch {
				continue
			}
			if crc, ok := ours[fr.Seq]; !ok && fr.Seq > f.c.seq || ok && crc != fr.RecordCRC() {
				f.epoch = format.NewID()
			}
		}
	}
	return found
}

// sinceBase returns how many segments are newer than the newest base.
func (f *folder) sinceBase() int {
	for n := range f.segments {
		g := &f.segments[len(f.segments)-1-n]
		if g.readHead(f.s.fs) == nil && hasBase(f.s.fs, f.dir, g.head.Base) {
			return n + 1
		}
	}
	return len(f.segments)
}

// writeBase copies the snapshot to the base of its digest. It replaces an existing
// base, because the sync of that name may have failed.
func (s *Store) writeBase(dir string, dig format.Digest) error {
	b, err := vfs.ReadFile(s.fs, s.path, s.opts.MaxBytes)
	if err != nil {
		return err
	}
	if got := format.DigestOf(b); got != dig {
		err = fmt.Errorf("%w: %s has the digest %v, not %v", ErrForeign, s.path, got, dig)
	} else {
		_, err = Decode(b)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoBase, inFile(err, s.path))
	}
	return vfs.WriteFile(s.fs, filepath.Join(dir, format.BaseName(dig)), 0o600, b)
}

// sweep removes temporary files of interrupted folds.
func (f *folder) sweep() {
	list, err := f.s.fs.ReadDir(f.dir)
	if err != nil {
		return
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") && e.Type().IsRegular() {
			f.s.fs.Remove(filepath.Join(f.dir, e.Name()))
		}
	}
}

// keepLog gives the log a second name in the history, or else next to the store,
// because it could not be folded for the reason err (FORMAT.md, H8). The caller holds
// the token and wmu.
func (s *Store) keepLog(err error) {
	base := s.dbDig
	if errors.Is(err, errNoBase) {
		base = format.Digest{}
	}
	name, kerr := s.linkLog(base)
	if kerr != nil {
		name = fmt.Sprintf("%s%s%s%d", s.path, walSuffix, damagedSuffix, s.w.Seq)
		if lerr := s.fs.Link(s.path+walSuffix, name); lerr != nil && !errors.Is(lerr, fs.ErrExist) {
			s.warn("%v; the history lacks the changes of this log: %v", err, errors.Join(kerr, lerr))
			return
		}
	}
	s.warn("%v; the history has the complete log as %s", err, name)
}

// linkLog gives the log a second name in the history and returns that name. It first
// copies the snapshot to the base, unless that digest is zero, and returns an error if
// the snapshot has another digest.
func (s *Store) linkLog(base format.Digest) (name string, err error) {
	s.folding.Lock()
	defer s.folding.Unlock()
	dir := s.path + historySuffix
	if err := vfs.MkdirAll(s.fs, dir, 0o700); err != nil {
		return "", err
	}
	list, err := listSegments(s.fs, dir)
	if err != nil {
		return "", err
	}
	if base != (format.Digest{}) {
		if err := s.writeBase(dir, base); err != nil {
			return "", err
		}
	}
	name = nextSegment(dir, list)
	if err := s.fs.Link(s.path+walSuffix, name); err != nil {
		return "", err
	}
	return name, s.fs.SyncDir(dir)
}

// newestSeq returns the highest sequence number of the newest segment, or 0. A log
// that does not continue another begins above it.
func (s *Store) newestSeq() (seq uint64) {
	list, err := listSegments(s.fs, s.path+historySuffix)
	if err != nil || len(list) == 0 {
		return 0
	}
	if scan, _ := list[len(list)-1].scan(s.fs, maxLogFor(s.opts.MaxBytes)); scan != nil {
		w := scan.Writer()
		seq = w.Seq - 1
	}
	return seq
}
