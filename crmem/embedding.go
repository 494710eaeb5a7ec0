package crmem

import (
	"context"
	"fmt"
	"slices"
	"time"

	"crabmem/crmem/embed"
	"crabmem/crmem/internal/format"
)

// failVectors notes the result of a request to the model.
func (s *Store) failVectors(err error, retryAt time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vectors.failure, s.vectors.retryAt = "", retryAt
	if err != nil && s.ctx.Err() == nil {
		s.vectors.failure = err.Error()
	}
}

// EmbedAll embeds the texts of all entries that have no vector, and writes the vector
// file. It calls progress, if set, with the number of entries that have vectors, and of
// all entries. On an error, the other vectors remain. Without Options.Embed it returns
// [ErrInvalid].
func (s *Store) EmbedAll(ctx context.Context, progress func(done, total int)) error {
	if s.opts.Embed == nil {
		return fmt.Errorf("%w: the store has no embedding model", ErrInvalid)
	}
	for {
		left, err := s.embedBatch(ctx)
		if st := s.VectorState(); progress != nil && err == nil {
			progress(st.Entries, st.Entries+st.Missing)
		}
		if err != nil || !left {
			s.saveVectors() //nolint:errcheck // the next process computes the vectors again
			return err
		}
	}
}

// A job is an entry whose passages are embedded.
type job struct {
	id       uint64
	rec      format.Record
	passages []string
}

// embedBatch embeds the passages of the next pending entries, and reports whether others
// are left. It reads the vector file first.
func (s *Store) embedBatch(ctx context.Context) (left bool, err error) {
	s.vectors.turn.Lock()
	defer s.vectors.turn.Unlock()
	if err := s.loadVectors(ctx); err != nil {
		return false, err
	}
	jobs := s.nextJobs()
	if len(jobs) == 0 {
		return false, nil
	}
	groups := make([][]string, len(jobs))
	for i, j := range jobs {
		groups[i] = j.passages
	}
	vectors, err := s.opts.Embed.Groups(ctx, groups, func(i int, err error) {
		s.warn("%s: the entry with ID %d gets no vector: %v", s.Path(), jobs[i].id, err)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &s.vectors
	if err == nil {
		v.failure = ""
	}
	if v.set == nil { // another process created the store
		return true, err
	}
	for i, j := range jobs {
		if i < len(vectors) && s.t.byID(j.id) == j.rec {
			v.set.Put(j.id, passageDigest(j.rec), vectors[i])
			delete(v.pending, j.id)
			v.unsaved = true
		} else if _, ok := v.pending[j.id]; ok { // it failed or changed
			v.queue = append(v.queue, j.id)
		}
	}
	return len(v.pending) > 0, err
}

// nextJobs removes entries from the queue.
func (s *Store) nextJobs() (jobs []job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &s.vectors
	n := 0
	for len(v.queue) > 0 {
		id := v.queue[0]
		_, waits := v.pending[id]
		r := s.t.byID(id)
		if !waits || r == "" || slices.ContainsFunc(jobs, func(j job) bool { return j.id == id }) {
			v.queue = v.queue[1:]
			continue
		}
		list := passages(r)
		if n += len(list); n > embed.MaxBatch && len(jobs) > 0 {
			break
		}
		v.queue = v.queue[1:]
		jobs = append(jobs, job{id, r, list})
	}
	return jobs
}
