// Package measure times search engines on one corpus, side by side.
//
// The machine may be shared, so a query's time is the least over several
// passes, and percentiles are taken over the queries; building is measured in
// CPU seconds of the process, single changes by their median.
package measure

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
)

// Engine is a search engine in memory. Documents are numbered from 0 and
// analyzed by white space.
type Engine interface {
	Name() string
	Build(docs []string) error
	// Search returns how many of the best k it found.
	Search(query string, k int) (int, error)
	Put(id int, doc string) error // adds, or replaces a document
	Remove(id int, doc string) error
	Close() error
}

// Times is what came out for one engine.
type Times struct {
	Engine     string
	Docs       int
	BuildCPU   time.Duration
	BuildWall  time.Duration
	HeapPerDoc float64 // bytes of live heap by the build; 0 when not on the Go heap
	SearchP50  time.Duration
	SearchP99  time.Duration
	Insert     time.Duration
	Update     time.Duration
	Remove     time.Duration
	Synthetic  time.Duration
	best       []time.Duration // by query
}

// Run is what to measure.
type Run struct {
	Docs      []string
	Extra     []string // documents to insert, update to and remove
	Queries   []string
	K         int
	Passes    map[string]int // by engine; 5 when absent
	Synthetic []string
	SynQuery  string
	Changes   map[string]int // by engine, single changes of each kind; len(Extra) when absent
	Log       func(format string, args ...any)
}

// Do measures all engines. open makes an engine anew.
func (r Run) Do(open []func() (Engine, error)) ([]Times, error) {
	times := make([]Times, len(open))
	engines := make([]Engine, len(open))
	for i, f := range open {
		before := heap()
		e, err := f()
		if err != nil {
			return nil, err
		}
		defer e.Close()
		t := &times[i]
		t.Engine, t.Docs = e.Name(), len(r.Docs)
		cpu, wall := CPU(), time.Now()
		if err := e.Build(r.Docs); err != nil {
			return nil, fmt.Errorf("%s: build: %w", e.Name(), err)
		}
		t.BuildWall, t.BuildCPU = time.Since(wall), CPU()-cpu
		t.HeapPerDoc = (heap() - before) / float64(len(r.Docs))
		engines[i] = e
		r.Log("%s: built in %.2f CPU s", t.Engine, t.BuildCPU.Seconds())
	}
	if err := r.search(engines, times); err != nil {
		return nil, err
	}
	for i, e := range engines {
		if err := r.change(e, &times[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		r.Log("%s: changed", e.Name())
	}
	return times, r.synthetic(open, times)
}

func (r Run) search(engines []Engine, times []Times) error {
	passes := func(e Engine) int {
		if n, ok := r.Passes[e.Name()]; ok {
			return n
		}
		return 5
	}
	for pass := 0; ; pass++ {
		ran := false
		for i, e := range engines {
			if pass >= passes(e) {
				continue
			}
			ran = true
			t := &times[i]
			if t.best == nil {
				t.best = make([]time.Duration, len(r.Queries))
				for q := range t.best {
					t.best[q] = math.MaxInt64
				}
			}
			for q, text := range r.Queries {
				start := time.Now()
				if _, err := e.Search(text, r.K); err != nil {
					return fmt.Errorf("%s: search %q: %w", e.Name(), text, err)
				}
				t.best[q] = min(t.best[q], time.Since(start))
			}
			r.Log("%s: pass %d of %d", e.Name(), pass+1, passes(e))
		}
		if !ran {
			break
		}
	}
	for i := range times {
		t := &times[i]
		slices.Sort(t.best)
		t.SearchP50, t.SearchP99 = percentile(t.best, 50), percentile(t.best, 99)
	}
	return nil
}

// change inserts, updates and removes single documents in the built index.
func (r Run) change(e Engine, t *Times) error {
	n := len(r.Extra)
	if c, ok := r.Changes[t.Engine]; ok {
		n = min(n, c)
	}
	first := len(r.Docs)
	step := max(1, len(r.Docs)/n)
	for _, c := range []struct {
		median *time.Duration
		do     func(i int) error
	}{
		{&t.Insert, func(i int) error { return e.Put(first+i, r.Extra[i]) }},
		{&t.Update, func(i int) error { return e.Put(i*step, r.Extra[i]) }},
		{&t.Remove, func(i int) error {
			if i%2 == 0 {
				return e.Remove(first+i, r.Extra[i])
			}
			return e.Remove(i*step, r.Extra[i])
		}},
	} {
		took := make([]time.Duration, n)
		for i := range n {
			start := time.Now()
			if err := c.do(i); err != nil {
				return err
			}
			took[i] = time.Since(start)
		}
		slices.Sort(took)
		*c.median = percentile(took, 50)
	}
	return nil
}

func (r Run) synthetic(open []func() (Engine, error), times []Times) error {
	for i, f := range open {
		e, err := f()
		if err != nil {
			return err
		}
		defer e.Close()
		if err := e.Build(r.Synthetic); err != nil {
			return err
		}
		took := make([]time.Duration, 9)
		for j := range took {
			start := time.Now()
			if _, err := e.Search(r.SynQuery, 5); err != nil {
				return err
			}
			took[j] = time.Since(start)
		}
		times[i].Synthetic = slices.Min(took)
		r.Log("%s: synthetic corpus done", e.Name())
	}
	return nil
}

// percentile returns the p-th percentile of sorted durations.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
