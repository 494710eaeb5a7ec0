package crmem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/metadata"
)

// index is an index of the store that is built, or being built.
type index struct {
	x     *bm25.Index
	names bool // names are indexed
	// relations contains entries with relations, by ID. It is empty unless names are indexed.
	relations map[uint64]relations
	// conversations contains the messages. It is empty unless names are indexed.
	conversations conversations
	// links contains the targets of the links of entries, by ID. It is nil unless
	// names are indexed and importance affects rankings.
	links   map[uint64][]string
	inbound inbound
	ready   chan struct{} // closed when built or err is set
	err     error

	// file, if set, is the file that x reads. strange is set if x found an entry that
	// the store does not contain.
	file    *indexFile
	strange atomic.Bool

	// building and late: changes made while it is built wait here. While it is loading,
	// or may be loaded, x has them, too. begun is set when the loading begins. Guarded by
	// Store.mu.
	building, loading, begun bool
	late                     []change
}

// indexingStep is the number of entries between two calls of Options.Indexing.
const indexingStep = 64

type change struct {
	id  uint64
	rec format.Record // "" = removed
}

func (ix *index) change(id uint64, r format.Record) {
	if ix.building || ix.loading {
		ix.late = append(ix.late, change{id, r})
	}
	if ix.building {
		return
	}
	if ix.names {
		ix.related(id, r)
		ix.conversations.change(id, r)
		ix.link(id, r)
	}
	if r == "" {
		ix.x.Remove(id)
	} else {
		ix.x.Add(ix.doc(r))
	}
}

func (ix *index) doc(r format.Record) bm25.Doc {
	content, _ := r.Content()
	aliases := r.Aliases()
	fields := make([]string, 0, len(aliases)+2)
	if !ix.names {
		fields = append(append(fields, content), aliases...)
	} else {
		names, text, values := metadata.Parts(content)
		fields = append(append(fields, text), aliases...)
		fields = slices.Concat(append(fields, r.Name()), names, values)
	}
	return bm25.Doc{ID: r.ID(), Class: uint8(r.Kind()), Fields: fields}
}

// Index starts to build the index in the background, unless that has begun or an index
// file contains it. The first search does the same; call Index to reduce the latency of
// that search. If the store is lazy, Index also starts to load it and the index into
// memory; if that fails, the store stops. It is for processes that keep the store open.
func (s *Store) Index(a analysis.Analyzer) {
	s.startIndex(a) // the first search reports an error
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.t.file != nil && s.ctx.Err() == nil {
		s.bg.Go(s.loadInBackground) // Close waits for it
	}
}

// buildIndex starts to build an index. The caller holds mu.
func (s *Store) buildIndex(a analysis.Analyzer) *index {
	ix := &index{x: bm25.New(a), names: a == analysis.Standard, ready: make(chan struct{}), building: true}
	if s.ctx.Err() != nil {
		ix.err = errClosed
		close(ix.ready)
		return ix
	}
	if ix.names && s.opts.ImportanceWeight > 0 {
		ix.links = make(map[uint64][]string)
	}
	s.ix[a] = ix
	recs := slices.DeleteFunc(slices.Clone(s.t.recs), func(r rec) bool { return r.enc == "" })
	s.bg.Go(func() { s.build(ix, recs) }) // Close waits for it
	return ix
}

func (s *Store) build(ix *index, recs []rec) {
	var done atomic.Int64
	start := time.Now()
	err := ix.x.Build(s.ctx, len(recs), func(i int) bm25.Doc {
		if n := int(done.Add(1)); s.opts.Indexing != nil && (n%indexingStep == 0 || n == len(recs)) {
			s.opts.Indexing(n, len(recs))
		}
		return ix.doc(recs[i].enc)
	})
	for i := 0; i < len(recs) && ix.names && err == nil; i++ {
		ix.related(recs[i].id, recs[i].enc)
		ix.link(recs[i].id, recs[i].enc)
	}
	if ix.names && err == nil {
		ix.conversations.build(recs)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		ix.err = errors.Join(errClosed, err)
	}
	ix.building = false
	s.builtFor += time.Since(start)
	for _, c := range ix.late {
		ix.change(c.id, c.rec)
	}
	ix.late = nil
	if ix.names {
		s.t.alias("") // makes the list of them, which searches only read
	}
	close(ix.ready)
}

// dropIndex discards the indexes; the next search rebuilds them. The caller
// holds mu.
func (s *Store) dropIndex() {
	s.closeFiles()
	clear(s.ix[:])
}

// indexed returns with mu held for reading and the index ready and current.
func (s *Store) indexed(ctx context.Context, a analysis.Analyzer) (*index, error) {
	if int(a) >= len(s.ix) {
		return nil, fmt.Errorf("%w: %v", ErrInvalid, a)
	}
	for {
		s.mu.RLock()
		ix := s.ix[a]
		if ix != nil && !ix.building {
			if ix.err != nil {
				s.mu.RUnlock()
				return nil, ix.err
			}
			return ix, nil
		}
		s.mu.RUnlock()
		if ix == nil {
			var err error
			if ix, err = s.startIndex(a); err != nil {
				return nil, err
			}
		}
		select {
		case <-ix.ready:
			if ix.err != nil {
				return nil, ix.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
