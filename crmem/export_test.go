package crmem

import (
	"errors"
	"runtime/debug"
	"time"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// NoErr is noErr.
var NoErr = noErr

// SetSegmentLimit makes a store begin a segment after limit bytes.
func SetSegmentLimit(s *Store, limit int64) { s.segmentLimit = limit }

// KeepPlain makes a store compress no segments.
func KeepPlain(s *Store) { s.maxCompressed = 0 }

// Compress compresses the segments of a store, except the newest one.
func Compress(s *Store) error {
	s.folding.Lock()
	defer s.folding.Unlock()
	f := folder{s: s, dir: s.path + historySuffix}
	w, err := format.NewCompressor()
	if err != nil {
		return err
	}
	segments, err := listSegments(s.fs, f.dir)
	for i := range segments[:max(0, len(segments)-1)] {
		if g := &segments[i]; !g.compressed() {
			err = errors.Join(err, f.compress(w, g))
		}
	}
	return err
}

// RemoveIndexes removes the change indexes of a history.
func RemoveIndexes(fsys vfs.FS, dir string) error { return removeIndexes(fsys, dir, nil) }

// IndexedChanges reports whether ChangesOf needs no read of the complete history.
func IndexedChanges(s *Store, name string) bool {
	_, err := s.indexedChanges(name, map[uint64]bool{})
	return err == nil
}

// SetMaxFoundBytes limits the frames that IndexedChanges keeps in memory. It returns a
// function that resets the limit.
func SetMaxFoundBytes(n int64) (reset func()) {
	old := maxFoundBytes
	maxFoundBytes = n
	return func() { maxFoundBytes = old }
}

// Small stores have a reserve and index files in the tests of this package, so that they
// cover them. The tests open many small stores: with the default, collecting garbage takes
// 40 % of their CPU time.
func init() {
	reserveFrom, savedFrom = 0, 0
	debug.SetGCPercent(400)
}

// SetReserveFrom makes stores of at least size bytes have a reserve. It returns a
// function that resets it.
func SetReserveFrom(size int64) (reset func()) {
	old := reserveFrom
	reserveFrom = size
	return func() { reserveFrom = old }
}

// LimitHistory prunes a history of limited duration, as after a checkpoint.
func LimitHistory(s *Store) { s.limitHistory() }

// WriteDerived is writeDerived.
var WriteDerived = writeDerived

// ReadBasis reads a store, and returns a function that reports whether a derived file
// of that state is current.
func ReadBasis(fsys vfs.FS, path string) (isCurrent func() bool, err error) {
	v, err := readFiles(fsys, path, defaultMaxBytes, true, false)
	if err != nil {
		return nil, err
	}
	b := basis{snapshot: v.stat}
	if v.scan != nil {
		b.salt = v.scan.Salt
	}
	return func() bool { return b.isCurrent(fsys, path) }, nil
}

// SetDerivedWait sets how long a purge waits for the lock of derived files. It returns
// a function that resets it.
func SetDerivedWait(d time.Duration) (reset func()) {
	old := derivedWait
	derivedWait = d
	return func() { derivedWait = old }
}

// UsesIndexFile reports whether a store reads entries through an index file.
func UsesIndexFile(s *Store) bool { return s.t.file != nil }

// InMemory reports whether a store and its indexes are in memory.
func InMemory(s *Store) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, ix := range s.ix {
		if ix != nil && (ix.building || ix.file != nil) {
			return false
		}
	}
	return s.t.file == nil
}
