package crmem

import (
	"errors"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem/internal/format"
)

// startIndex returns the index of an analyzer. It opens the index file, or else starts
// to build the index in the background.
func (s *Store) startIndex(a analysis.Analyzer) (*index, error) {
	for {
		s.mu.Lock()
		ix := s.ix[a]
		if ix == nil {
			if ix = s.fileIndex(a); ix != nil {
				s.ix[a] = ix
			}
		}
		load := ix == nil && s.t.file != nil
		if ix == nil && !load {
			ix = s.buildIndex(a)
		}
		s.mu.Unlock()
		if !load {
			return ix, nil
		}
		if err := s.Load(); err != nil {
			return nil, err
		}
	}
}

// fileIndex opens an index in a file, or returns nil. The caller holds mu.
func (s *Store) fileIndex(a analysis.Analyzer) *index {
	if s.path == "" || s.noIndexFile || s.ctx.Err() != nil {
		return nil
	}
	if s.opts.ImportanceWeight > 0 { // importance needs the links of all entries
		return nil
	}
	f, changed := s.indexFileOf(a)
	if f == nil {
		return nil
	}
	section := f.section(format.IndexSearch)
	x, err := bm25.Open(section, section.Size(), a)
	if err != nil {
		s.ignoreIndexFile(f, err)
		return nil
	}
	ix := &index{x: x, names: a == analysis.Standard, ready: make(chan struct{}), file: f}
	close(ix.ready)
	if ix.names {
		if err := f.conversations(&ix.conversations); err != nil {
			s.ignoreIndexFile(f, err)
			return nil
		}
		for _, id := range f.related() {
			if r := s.t.byID(id); r != "" {
				ix.related(id, r)
			}
		}
		s.t.alias("") // makes the list of them, which searches only read
	}
	for _, id := range changed {
		ix.change(id, s.t.byID(id))
	}
	if err := errors.Join(f.broken(), x.Err()); err != nil {
		s.ignoreIndexFile(f, err)
		return nil
	}
	ix.loading = true
	for _, id := range changed {
		ix.late = append(ix.late, change{id, s.t.byID(id)})
	}
	if s.t.file == nil { // the program runs for longer than one search
		s.beginLoad(a, ix)
	}
	return ix
}

// beginLoad loads an index in a file in the background, unless that has begun. The caller
// holds mu.
func (s *Store) beginLoad(a analysis.Analyzer, ix *index) {
	if ix.loading && !ix.begun && s.ctx.Err() == nil {
		ix.begun = true
		s.bg.Go(func() { s.loadIndex(a, ix) }) // Close waits for it
	}
}

// loadInBackground loads the store, and then its indexes.
func (s *Store) loadInBackground() {
	if s.ctx.Err() != nil {
		return
	}
	if !s.loaded() {
		s.wmu.Lock()
		defer s.wmu.Unlock()
		s.warn("load the store: %v", s.stopped)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for a, ix := range s.ix {
		if ix != nil {
			s.beginLoad(analysis.Analyzer(a), ix)
		}
	}
}

// ignoreIndexFile closes an index file that cannot be used. The caller holds mu.
func (s *Store) ignoreIndexFile(f *indexFile, err error) {
	s.warnIndexFile(err)
	s.noIndexFile = true
	if f != s.t.file {
		f.Close()
	}
}

// indexFileOf returns an index file for an analyzer, and the IDs of the entries that
// have changed since it was written. The caller holds mu.
func (s *Store) indexFileOf(a analysis.Analyzer) (f *indexFile, changed []uint64) {
	if f = s.t.file; f == nil || f.Analyzer != uint32(a) {
		var err error
		if f, err = openIndexFile(s.fs, s.path, a); err != nil {
			return nil, nil
		}
	}
	known := f.LogSalt == 0
	seen := make(map[uint64]bool)
	for _, o := range s.logged {
		known = known || f.LogSalt == s.loggedIn && f.Seq == o.seq && f.LogSum == o.sum
		if o.seq > f.Seq && !seen[o.id] {
			seen[o.id] = true
			changed = append(changed, o.id)
		}
	}
	if known && f.Digest == s.dbDig {
		return f, changed
	}
	if f != s.t.file {
		f.Close()
	}
	return nil, nil
}

// loadIndex replaces an index in a file by the same index in memory.
func (s *Store) loadIndex(a analysis.Analyzer, ix *index) {
	section := ix.file.section(format.IndexSearch)
	x, err := bm25.Load(s.ctx, section, section.Size(), a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil || s.ix[a] != ix {
		return
	}
	if err != nil {
		s.dropFile(a, err)
		return
	}
	ix.loading = false
	late := ix.late
	ix.late = nil
	ix.x = x
	for _, c := range late {
		ix.change(c.id, c.rec)
	}
	ix.file.Close()
	ix.file = nil
}

// dropFile drops an index in a file that cannot be read; the next search builds the
// index. The caller holds mu.
func (s *Store) dropFile(a analysis.Analyzer, err error) {
	ix := s.ix[a]
	s.ix[a] = nil
	s.ignoreIndexFile(ix.file, err)
}

// mendedIndex is mended after a use of an index that ended with err. It also drops the
// index if it cannot be read.
func (s *Store) mendedIndex(a analysis.Analyzer, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	again, err := s.mended()
	if s.dropBroken(a) {
		again = true
	}
	return again && err == nil, err
}

// dropBroken drops the index of an analyzer if it cannot be read, and reports whether
// it did.
func (s *Store) dropBroken(a analysis.Analyzer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ix := s.ix[a]
	if ix == nil || ix.file == nil {
		return false
	}
	err := errors.Join(ix.x.Err(), ix.file.broken())
	if err == nil && ix.strange.Load() {
		err = errors.New("it contains an entry that the store does not contain")
	}
	if err != nil {
		s.dropFile(a, err)
	}
	return err != nil
}

// found returns the record of an entry of the index. If the store does not contain the
// entry, the index is wrong; found returns an empty record.
func (s *Store) found(ix *index, id uint64) format.Record {
	if r := s.t.byID(id); r != "" {
		return r
	}
	ix.strange.Store(true)
	return format.NewRecord(id, 0, format.KindNote, "", "", nil)
}
