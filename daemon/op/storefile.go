package op

import (
	"context"
	"sync"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/daemon/errtable"
)

// Checkpointed is the result of a checkpoint.
type Checkpointed struct {
	Entries  int   `json:"entries"`
	Folded   int   `json:"folded"` // operations
	Snapshot int64 `json:"snapshot_bytes"`
}

var Checkpoint = Add(errtable.Store, Op[Store, None, Checkpointed]{
	Name: "store.checkpoint", Does: "Write the log into the snapshot.", Effect: Manages, Retry: true,
	Run: func(_ context.Context, s Store, _ *None) (Checkpointed, error) {
		before := s.Stats()
		if err := s.Store.Checkpoint(); err != nil {
			return Checkpointed{}, err
		}
		after := s.Stats()
		return Checkpointed{after.Entries, before.LogOps, after.SnapshotBytes}, nil
	},
})

// StatsFilter selects the figures of a store.
type StatsFilter struct {
	Index bool `json:"index,omitempty"` // of the search index, too
}

// StoreStats are figures of a store.
type StoreStats struct {
	Path string `json:"path"`
	crmem.Stats
	Index *IndexStats `json:"index,omitempty"`
}

// IndexStats are the size of the search index, and what building it took.
type IndexStats struct {
	Bytes    int64   `json:"bytes"`
	Terms    int     `json:"terms"`
	Postings int     `json:"postings"`
	Seconds  float64 `json:"build_seconds"`
}

var ReadStats = Add(errtable.Store, Op[Store, StatsFilter, StoreStats]{
	Name: "store.stats", Does: "Read figures of the store.", Effect: Reads,
	Run: func(ctx context.Context, s Store, in *StatsFilter) (StoreStats, error) {
		out := StoreStats{Path: s.Path(), Stats: s.Stats()}
		if in.Index {
			start := time.Now()
			x, err := s.IndexStats(ctx, analysis.Standard)
			if err != nil {
				return out, err
			}
			out.Index = &IndexStats{Bytes: x.Bytes, Terms: x.Terms, Postings: x.Postings, Seconds: time.Since(start).Seconds()}
		}
		return out, nil
	},
})

// Progress is how much of a long operation is done. A Total of 0 is no progress.
type Progress struct {
	Done  int `json:"done,omitempty"`
	Total int `json:"total,omitempty"`
}

// progressEvery is the time between two reports of progress.
const progressEvery = 100 * time.Millisecond

// reporter returns a function that sends progress now and then. It may be called by
// several goroutines.
func reporter(send func(Progress) error) func(done, total int) {
	var mu sync.Mutex
	var last time.Time
	return func(done, total int) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(last) >= progressEvery {
			last = now
			_ = send(Progress{max(done, 0), max(total, 0)}) // if the connection ends, the request ends too
		}
	}
}
