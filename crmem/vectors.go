package crmem

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"crabmem/crmem/embed"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vector"
	"crabmem/crmem/vfs"
)

// vectors is the state of the vectors of a store, for Options.Embed. Except for loading
// and turn, Store.mu guards it.
type vectors struct {
	loading sync.Mutex // held while the file is read; acquired before wmu
	turn    sync.Mutex // held while passages are embedded; acquired before loading

	set      *vector.Set         // nil until the file is read
	changed  map[uint64]struct{} // entries that changed before set was there
	pending  map[uint64]struct{} // entries without a vector of their present text
	queue    []uint64            // the pending entries in the order of their changes, and others
	replaced int                 // number of calls of compareVectors
	unsaved  bool                // the file differs from set
	wake     chan struct{}       // receives a value if pending gets an entry

	failure string    // of the last attempt to embed passages; "" after success
	retryAt time.Time // earliest time of the next attempt
}

// VectorState describes the vectors of a store.
type VectorState struct {
	Model    string     `json:"model"`   // identity of the model
	Loaded   bool       `json:"loaded"`  // the vector file was read; otherwise all numbers are 0
	Entries  int        `json:"entries"` // with vectors of their present texts
	Missing  int        `json:"missing"` // entries that only words find, so far
	Empty    int        `json:"empty"`   // of Entries: the model cannot represent their texts
	Vectors  int        `json:"vectors"`
	Failure  string     `json:"failure,omitempty"`  // of the last request to the model
	RetryAt  *time.Time `json:"retry_at,omitempty"` // of the next request, after a failure
	FileSize int64      `json:"file_size"`          // of the vector file
}

// VectorState returns the state of the vectors, or nil without Options.Embed.
func (s *Store) VectorState() *VectorState {
	if s.opts.Embed == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	v := &s.vectors
	st := &VectorState{Model: s.opts.Embed.Identity(), Failure: v.failure}
	if v.failure != "" {
		at := v.retryAt
		st.RetryAt = &at
	}
	if v.set != nil {
		st.Loaded, st.Entries, st.Empty, st.Missing, st.Vectors = true, v.set.Len(), v.set.Empty(), len(v.pending), v.set.Rows()
	}
	if fi, err := s.fs.Lstat(s.path + vectorsSuffix); err == nil && s.path != "" {
		st.FileSize = fi.Size()
	}
	return st
}

// changeVectors notes that an entry changed; an empty record removes it. The caller
// holds mu.
func (s *Store) changeVectors(id uint64, r format.Record) {
	v := &s.vectors
	if s.opts.Embed == nil {
		return
	}
	if v.set == nil {
		if v.changed == nil {
			v.changed = make(map[uint64]struct{})
		}
		v.changed[id] = struct{}{}
		return
	}
	if r == "" {
		_, had := v.set.Digest(id)
		v.unsaved = v.unsaved || had
		v.set.Remove(id)
		delete(v.pending, id)
		return
	}
	if d, ok := v.set.Digest(id); ok && d == passageDigest(r) {
		return
	}
	v.set.Remove(id)
	v.wait(id)
}

// wait adds a pending entry.
func (v *vectors) wait(id uint64) {
	if _, ok := v.pending[id]; ok {
		return
	}
	v.pending[id] = struct{}{}
	v.queue = append(v.queue, id)
	v.wakeUp()
}

// wakeUp makes the background work continue, if there is any.
func (v *vectors) wakeUp() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// compareVectors removes the vectors of texts that a store does not contain any more, after
// many entries changed. The caller holds mu.
func (s *Store) compareVectors() {
	v := &s.vectors
	if s.opts.Embed == nil {
		return
	}
	v.replaced++
	if v.set == nil {
		return
	}
	for _, id := range v.set.IDs() {
		if s.t.byID(id) == "" {
			s.changeVectors(id, "")
		}
	}
	for _, r := range s.t.recs {
		if r.enc != "" {
			s.changeVectors(r.id, r.enc)
		}
	}
}

// loadVectors reads the vector file, unless an earlier call did, and keeps the vectors of
// present texts. A missing or invalid file is no error. The caller must not hold wmu or
// mu.
func (s *Store) loadVectors(ctx context.Context) error {
	s.vectors.loading.Lock()
	defer s.vectors.loading.Unlock()
	if s.vectorSet() != nil {
		return nil
	}
	if err := s.Load(); err != nil {
		return err
	}
	set := s.readVectors()
	for {
		s.mu.Lock()
		replaced := s.vectors.replaced
		s.vectors.changed = nil
		recs := liveRecs(&s.t)
		s.mu.Unlock()
		stale, err := removeStale(ctx, set, recs)
		if err != nil {
			return err
		}
		if s.installVectors(set, stale, replaced) {
			return nil
		}
	}
}

// removeStale removes the vectors of texts that are not those of records, and reports
// whether there were any.
func removeStale(ctx context.Context, set *vector.Set, recs []rec) (stale bool, err error) {
	digests := make(map[uint64]format.Digest, len(recs))
	for i, r := range recs {
		if i%1024 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		digests[r.id] = passageDigest(r.enc)
	}
	for _, id := range set.IDs() {
		old, _ := set.Digest(id)
		if d, ok := digests[id]; !ok || d != old {
			set.Remove(id)
			stale = true
		}
	}
	return stale, nil
}

// installVectors makes set the vectors of the store. It returns false if many entries
// changed after the set was compared with them.
func (s *Store) installVectors(set *vector.Set, stale bool, replaced int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &s.vectors
	if v.replaced != replaced {
		return false
	}
	for id := range v.changed {
		set.Remove(id)
	}
	v.set, v.unsaved, v.changed = set, stale || len(v.changed) > 0, nil
	v.pending, v.queue = make(map[uint64]struct{}), nil
	for _, r := range s.t.recs {
		if _, ok := set.Digest(r.id); !ok && r.enc != "" {
			v.wait(r.id)
		}
	}
	return true
}

// liveRecs returns a copy of the records that are not removed.
func liveRecs(t *table) []rec {
	list := make([]rec, 0, len(t.recs))
	for _, r := range t.recs {
		if r.enc != "" {
			list = append(list, r)
		}
	}
	return list
}

// vectorSet returns the set of vectors, or nil if it was not read.
func (s *Store) vectorSet() *vector.Set {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.vectors.set
}

// readVectors returns the vectors of the file, or an empty set.
func (s *Store) readVectors() *vector.Set {
	m := s.opts.Embed
	empty := vector.New(vectorsOf(m), m.Dim)
	path := s.Path()
	if path == "" {
		return empty
	}
	f, fi, err := vfs.OpenDerived(s.fs, path+vectorsSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return empty
	} else if err != nil {
		s.warn("%s: ignored the vector file: %v", path, err)
		return empty
	}
	defer f.Close()
	set, err := vector.Read(f, fi.Size(), vectorsOf(m), m.Dim)
	if err != nil {
		s.warn("%s: ignored the vector file: %v", path, err)
		return empty
	}
	return set
}

// saveVectors writes the vector file if the vectors changed since it was written. It
// never waits. Errors have no effect except for later work: the vectors are computed
// again. The caller must not hold wmu or mu.
func (s *Store) saveVectors() (written bool, err error) {
	s.wmu.Lock()
	s.mu.RLock()
	v := &s.vectors
	if !v.unsaved || v.set == nil || s.path == "" || s.absent || s.stopped != nil {
		s.mu.RUnlock()
		s.wmu.Unlock()
		return false, nil
	}
	set := v.set.Clone()
	b := basis{snapshot: s.dbStat, salt: s.w.Salt}
	v.unsaved = false // only this method writes it without mu; it holds wmu
	s.mu.RUnlock()
	s.wmu.Unlock()
	isCurrent := func() bool { return b.isCurrent(s.fs, s.path) }
	written, err = writeDerived(s.fs, s.path, vectorsSuffix, set.Size(), isCurrent, set.Write)
	if !written {
		s.mu.Lock()
		v.unsaved = true
		s.mu.Unlock()
	}
	return written, err
}

// keepVectors embeds the texts of new and changed entries until the store is closed.
func (s *Store) keepVectors() {
	if s.opts.Embed == nil {
		return
	}
	s.vectors.wake = make(chan struct{}, 1)
	b := embed.Background{
		Batch:  s.embedBatch,
		Save:   func() { s.saveVectors() }, //nolint:errcheck // the next call tries again
		Failed: s.failVectors,
		Wake:   s.vectors.wake,
	}
	s.bg.Go(func() { b.Run(s.ctx) }) // Close waits for it
}

// closeVectors writes the vectors when the store is closed. If another process writes
// derived files, closeVectors tries again for at most 100 ms.
func (s *Store) closeVectors() {
	for range 20 {
		written, err := s.saveVectors()
		if written || err != nil || !s.hasUnsavedVectors() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *Store) hasUnsavedVectors() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.vectors.unsaved
}
