package crmem

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unsafe"

	"crabmem/bm25/analysis"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// useIndexFile looks for an index file that describes the snapshot. If there is one, it
// sets the snapshot of v without reading it. A missing or invalid file is no error.
func (v *files) useIndexFile(fsys vfs.FS, path string, maxBytes int64) {
	f, err := fsys.Open(path)
	if err != nil {
		return // reading the complete snapshot reports the error
	}
	fi, err := f.Stat()
	if err != nil || fi.Size() > maxBytes {
		f.Close()
		return
	}
	var dig *format.Digest // computed when it is needed
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		x, err := openIndexFile(fsys, path, a)
		if err != nil {
			continue
		}
		if !x.describes(fi) && x.Digest.Len == uint64(fi.Size()) && dig == nil {
			d, err := digestOf(f)
			if err != nil {
				x.Close()
				break
			}
			dig = &d
		}
		if dig != nil && x.Digest != *dig || dig == nil && !x.describes(fi) {
			x.Close()
			continue
		}
		var h [format.HeaderSize]byte
		if _, err := f.ReadAt(h[:], 0); err != nil {
			x.Close()
			break
		}
		if x.snapshot = f; dig != nil {
			x.confirmed = fi
		}
		v.file, v.dig, v.stat.info = x, x.Digest, fi
		v.snap = &Snapshot{NextID: binary.LittleEndian.Uint64(h[format.OffNextID:])}
		t := &v.snap.t
		t.init(0)
		t.file, t.live, t.bytes = x, int(x.Entries()), int64(x.Bytes)
		t.kinds = [2]int{Note: int(x.Notes), Archive: int(x.Archives)}
		return
	}
	f.Close()
}

// digestOf reads a file to compute its digest.
func digestOf(f vfs.File) (d format.Digest, err error) {
	_, err = io.CopyBuffer(&d, bufio.NewReaderSize(f, 1<<17), nil)
	return d, err
}

// closeIndexFile closes the index file. The caller reads the files again.
func (v *files) closeIndexFile() {
	if v.file != nil {
		v.file.Close()
	}
}

// noteLog keeps what later uses of an index file need. The caller calls it before the
// replay of the log.
func (s *Store) noteLog(v *files) {
	s.lazyLog, s.lazySnapshot, s.logged, s.loggedIn = nil, nil, nil, 0
	if _, ok := v.point(); ok {
		s.logged, s.loggedIn = opsOf(v.scan), v.scan.Salt
	}
	switch {
	case v.file != nil && s.loggedIn != 0:
		s.lazyLog = v.scan
	case v.file == nil && s.opts.Lazy && s.opts.ReadOnly:
		s.lazySnapshot = slices.Clone(v.snap.t.recs)
	}
}

// Load reads the complete store, unless Open or an earlier call did. See
// [Options.Lazy].
func (s *Store) Load() error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.loadLocked()
}

// loaded calls Load, and reports whether the store is loaded. The caller must not hold
// wmu.
func (s *Store) loaded() bool {
	s.mu.RLock()
	lazy := s.t.file != nil
	s.mu.RUnlock()
	if !lazy {
		return true
	}
	s.wmu.Lock()
	defer s.wmu.Unlock()
	err := s.loadLocked()
	if err != nil {
		s.fail(err)
	}
	return err == nil
}

// loadLocked is Load. The caller holds wmu.
func (s *Store) loadLocked() error {
	x := s.t.file
	if x == nil {
		return nil
	}
	v := &files{scan: s.lazyLog, dig: x.Digest}
	b := make([]byte, x.Digest.Len)
	if _, err := x.snapshot.ReadAt(b, 0); err != nil && err != io.EOF {
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	sn, err := Decode(b)
	if err != nil {
		return inFile(err, s.path)
	}
	if d := format.DigestOf(b); d != x.Digest {
		// Its size and times may be the same, so the index file must not be used again.
		s.fs.Remove(s.path + indexSuffix(analysis.Analyzer(x.Analyzer))) //nolint:errcheck // it is not needed
		return fmt.Errorf("%w: %s changed after it was opened: run the command again", ErrForeign, s.path)
	}
	var snapshot []rec // of a reader, which may write the index file
	if s.opts.ReadOnly {
		snapshot = slices.Clone(sn.t.recs)
	}
	if v.scan != nil {
		covered, _ := v.scan.Covers(v.dig)
		if _, err := v.replay(&sn.t, &sn.NextID, covered); err != nil {
			return inFile(err, s.path+walSuffix)
		}
	}
	sn.t.override(s.t.recs)
	sn.t.loadedFrom(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.t.owners != nil {
		sn.t.alias("") // makes the list of them, which searches only read
	}
	s.t = sn.t
	s.lazyLog, s.lazySnapshot = nil, snapshot
	if !slices.ContainsFunc(s.ix[:], func(ix *index) bool { return ix != nil && ix.file == x }) {
		return x.Close()
	}
	return nil
}

// override replaces the records of the same IDs by recs. A record without an encoding
// is removed.
func (t *table) override(recs []rec) {
	for _, r := range recs {
		if old := t.byID(r.id); old != "" && old != r.enc {
			t.remove(r.id)
		}
	}
	for _, r := range recs {
		if r.enc != "" && t.byID(r.id) != r.enc {
			t.put(r.enc)
		}
	}
	t.sort()
}

// mended loads the store if its index file is broken, and reports whether it was. The
// caller then repeats what it did. It must not hold mu or wmu.
func (s *Store) mended() (bool, error) {
	s.mu.RLock()
	err := s.t.file.broken()
	s.mu.RUnlock()
	if err == nil {
		return false, nil
	}
	s.warnIndexFile(err)
	return true, s.Load()
}

// warnIndexFile reports an index file that is ignored, unless the file was only closed.
func (s *Store) warnIndexFile(err error) {
	if !errors.Is(err, errClosed) {
		s.warn("%s: ignored an invalid index file: %v", s.path, err)
	}
}

// loaded is the buffer of a file whose records the table uses. The buffer stays
// in memory while one record refers to it. If few bytes are still in use, the
// table copies those records and releases the buffer. Copying each record at
// Open instead takes 2.1 times as long for 100,000 entries.
type loaded struct {
	from, to uintptr // address range; it does not keep the buffer alive
	left     int64   // bytes of the records in the buffer that the table uses
}

// keepLoaded limits the work of copyRecords, which blocks readers: at most
// 1/keepLoaded of a buffer is copied.
const keepLoaded = 4

func (l *loaded) has(r format.Record) bool {
	at := uintptr(unsafe.Pointer(unsafe.StringData(string(r))))
	return l.from <= at && at < l.to
}

// loadedFrom records the buffers that the table's records point into.
func (t *table) loadedFrom(files ...[]byte) {
	t.loaded = nil
	for _, b := range files {
		if len(b) == 0 {
			continue
		}
		l := loaded{from: uintptr(unsafe.Pointer(unsafe.SliceData(b)))}
		l.to = l.from + uintptr(len(b))
		for _, r := range t.recs {
			if r.enc != "" && l.has(r.enc) {
				l.left += int64(len(r.enc))
			}
		}
		if l.left > 0 {
			t.loaded = append(t.loaded, l)
		}
	}
}

// releaseRecord updates the live byte count of the buffer of a record that the
// table no longer uses.
func (t *table) releaseRecord(r format.Record) {
	for i := range t.loaded {
		l := &t.loaded[i]
		if !l.has(r) {
			continue
		}
		if l.left -= int64(len(r)); l.left < int64(l.to-l.from)/keepLoaded {
			t.copyRecords(i)
		}
		return
	}
}

// copyRecords copies the records that point into buffer i and releases it.
func (t *table) copyRecords(i int) {
	l := t.loaded[i]
	for k := range t.recs {
		if r := &t.recs[k]; r.enc != "" && l.has(r.enc) {
			r.enc = format.Record(strings.Clone(string(r.enc)))
		}
	}
	t.loaded = append(t.loaded[:i:i], t.loaded[i+1:]...)
}

// logged is an operation of the log that an index file may lack.
type logged struct {
	seq, id uint64
	sum     uint32 // checksum of its frame; 0 if this process wrote it
}

// opsOf returns the operations of a log on entries.
func opsOf(scan *format.LogScan) (list []logged) {
	if scan == nil {
		return nil
	}
	for i := range scan.Frames {
		if f := &scan.Frames[i]; f.Type != format.FrameCheckpoint && len(f.Payload) >= 8 {
			list = append(list, logged{f.Seq, f.EntryID(), f.Sum()})
		}
	}
	return list
}
