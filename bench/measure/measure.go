// Package measure measures several search engines on one corpus in one run.
//
// The machine may be shared, so the time of a query is the least of several passes.
// Percentiles are over the queries. The time of a build is the CPU time of the
// process. The time of a change is the median of single changes.
package measure

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"crabmem/bench/corpus"
	"crabmem/crmem/recalleval"
)

// Engine is an in-memory search engine. Documents have numbers from 0. White space
// separates their words.
type Engine interface {
	Name() string
	Build(docs []string) error
	// Search returns the number of hits, at most k.
	Search(query string, k int) (int, error)
	Put(id int, doc string) error // adds or replaces a document
	Remove(id int, doc string) error
	Close() error
}

// Times is the result of one engine.
type Times struct {
	Engine     string
	Docs       int
	BuildCPU   time.Duration
	BuildWall  time.Duration
	HeapPerDoc float64 // growth of the Go heap by the build, in bytes per document
	SearchP50  time.Duration
	SearchP99  time.Duration
	Insert     time.Duration
	Update     time.Duration
	Remove     time.Duration
	Synthetic  time.Duration
}

// Run configures a measurement.
type Run struct {
	Docs      []string
	Extra     []string // documents for inserts, updates, and removals
	Queries   []string
	K         int
	Passes    map[string]int // passes by engine; the default is 5
	Synthetic []string
	SynQuery  string
	Changes   map[string]int // changes of each kind by engine; the default is len(Extra)
	Log       func(format string, args ...any)
}

// ZipfFlags defines the flags of a Zipf corpus. After the flags are parsed, the
// returned function returns the run and the corpus and prints the corpus size.
func ZipfFlags(f *flag.FlagSet) func() (Run, *corpus.Zipf) {
	n := f.Int("n", 100_000, "number of documents")
	queries := f.Int("queries", 1000, "number of queries")
	seed := f.Uint64("seed", 1, "seed of the corpus")
	verbose := f.Bool("v", false, "print progress")
	return func() (Run, *corpus.Zipf) {
		z := corpus.NewZipf(*seed)
		all := z.Docs(*n + 4000)
		r := Run{Docs: all[:*n], Extra: all[*n:], Queries: z.Queries(*queries), K: 10, SynQuery: corpus.SyntheticQuery,
			Log: func(format string, args ...any) {
				if *verbose {
					fmt.Fprintf(os.Stderr, format+"\n", args...)
				}
			}}
		size := 0
		for i, d := range r.Docs {
			size += len(d)
			r.Synthetic = append(r.Synthetic, corpus.Synthetic(i))
		}
		fmt.Printf("zipf corpus: %d documents, %.1f MB, seed %d; %d queries, top %d\n\n", *n, float64(size)/1e6, *seed, *queries, r.K)
		return r, z
	}
}

// Do measures all engines. The functions in open return new engines.
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

// search runs the passes of all engines in turn. The time of a query is the least of
// the passes.
func (r Run) search(engines []Engine, times []Times) error {
	best := make([][]time.Duration, len(engines))
	for pass, ran := 0, true; ran; pass++ {
		ran = false
		for i, e := range engines {
			passes := cmp.Or(r.Passes[e.Name()], 5)
			if pass >= passes {
				continue
			}
			ran = true
			took, err := Turns(1, len(r.Queries), func(q int) error {
				_, err := e.Search(r.Queries[q], r.K)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: search: %w", e.Name(), err)
			}
			best[i] = LeastOf(best[i], took[0])
			r.Log("%s: pass %d of %d", e.Name(), pass+1, passes)
		}
	}
	for i := range times {
		times[i].SearchP50, times[i].SearchP99 = Percentile(best[i], 50), Percentile(best[i], 99)
	}
	return nil
}

// change measures single inserts, updates, and removals in the built index.
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
		took, err := Turns(n, 1, c.do)
		if err != nil {
			return err
		}
		*c.median = Percentile(took[0], 50)
	}
	return nil
}

// synthetic measures a search in the synthetic corpus.
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
		best, err := Fastest(9, func() error {
			_, err := e.Search(r.SynQuery, 5)
			return err
		})
		if err != nil {
			return err
		}
		times[i].Synthetic = best[0]
		r.Log("%s: measured the synthetic corpus", e.Name())
	}
	return nil
}

func heap() float64 { return float64(recalleval.HeapBytes()) }

// Resident returns the resident memory of a process without mapped files, in bytes.
func Resident(pid int) (uint64, error) {
	name := fmt.Sprintf("/proc/%d/status", pid)
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("%s: no RssAnon", name)
}

// CPUOf returns the CPU time, user and system, that a process's threads have used.
func CPUOf(pid int) (sum time.Duration, err error) {
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, name := range names {
		b, rerr := os.ReadFile(name)
		if rerr != nil { // the thread has ended
			continue
		}
		n, perr := strconv.ParseInt(strings.Fields(string(b) + " 0")[0], 10, 64)
		sum, err = sum+time.Duration(n), errors.Join(err, perr)
	}
	if len(names) == 0 {
		err = errors.Join(err, fmt.Errorf("process %d: no times of its threads", pid))
	}
	return sum, err
}

// CPU returns [recalleval.CPUTime].
func CPU() time.Duration { return recalleval.CPUTime() }
