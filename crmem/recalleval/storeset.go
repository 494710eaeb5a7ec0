package recalleval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/fusion"
)

// Cost is the cost of indexing and searching.
type Cost struct {
	TextBytes int64   `json:"text_bytes"` // names and contents
	IndexCPU  float64 `json:"index_cpu_seconds"`
	IndexWall float64 `json:"index_wall_seconds"`
	// IndexBytes is the memory of the index, HeapBytes that and the store's.
	IndexBytes int64   `json:"index_bytes"`
	HeapBytes  int64   `json:"heap_bytes"`
	QueryP50   float64 `json:"query_p50_us"` // for K hits, one query at a time
	QueryP99   float64 `json:"query_p99_us"`
	QueryMax   float64 `json:"query_max_us"`
}

// timedQueries is how many queries are timed at most.
const timedQueries = 10_000

// storeSet has the documents of a set in indexed stores in memory. The store
// under "" has all documents. In mode Group each group has its own store
// instead.
type storeSet struct {
	mode     Mode
	analyzer analysis.Analyzer
	semantic *fusion.Request
	stores   map[string]*crmem.Store
	docs     map[uint64]*Doc // by the ID of their entries
	cost     *Cost           // nil: not measured
}

func newStoreSet(ctx context.Context, s *Set, o Options) (*storeSet, error) {
	ss := &storeSet{mode: s.mode(o.Mode), analyzer: o.Analyzer, semantic: o.Semantic, stores: make(map[string]*crmem.Store), docs: make(map[uint64]*Doc, len(s.Docs))}
	parts := make(map[string][]crmem.Entry)
	cost := Cost{}
	for i := range s.Docs {
		d := &s.Docs[i]
		ss.docs[d.Entry.ID] = d
		cost.TextBytes += int64(len(d.Entry.Name) + len(d.Entry.Content))
		if ss.mode == Group && d.Group != "" {
			parts[d.Group] = append(parts[d.Group], d.Entry)
		}
		if ss.mode != Group || s.Ungrouped > 0 {
			parts[""] = append(parts[""], d.Entry)
		}
	}
	before := int64(0)
	if o.Passes > 0 {
		ss.cost = &cost
		before = HeapBytes()
	}
	for name, entries := range parts {
		store, err := fill(entries, o)
		if err != nil {
			return nil, errors.Join(err, ss.close())
		}
		ss.stores[name] = store
	}
	cpu := func() time.Duration { return 0 }
	if o.CPU != nil {
		cpu = o.CPU
	}
	used, start := cpu(), time.Now()
	for _, store := range ss.stores {
		x, err := store.IndexStats(ctx, o.Analyzer)
		if err != nil {
			return nil, errors.Join(err, ss.close())
		}
		cost.IndexBytes += x.Bytes
	}
	cost.IndexCPU, cost.IndexWall = (cpu() - used).Seconds(), time.Since(start).Seconds()
	for _, store := range ss.stores {
		if o.Embed == nil {
			break
		}
		if err := store.EmbedAll(ctx, nil); err != nil {
			return nil, errors.Join(err, ss.close())
		}
	}
	if o.Passes > 0 {
		cost.HeapBytes = HeapBytes() - before
	}
	return ss, nil
}

// fill makes a store in memory of entries.
func fill(entries []crmem.Entry, o Options) (*crmem.Store, error) {
	next := uint64(1)
	if o.Aged {
		entries = slices.Clone(entries)
		for i := range entries {
			entries[i].CreatedAt -= crmem.UnixTime(len(entries)-1-i) * 3600
		}
	}
	for _, e := range entries {
		next = max(next, e.ID+1)
	}
	sn, err := crmem.NewSnapshot(next, entries)
	if err != nil {
		return nil, err
	}
	now := func() time.Time { return time.Unix(created, 0) }
	store := crmem.New(&crmem.Options{ImportanceWeight: o.ImportanceWeight, Now: now, Embed: o.Embed})
	if err := store.Replace(sn); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

func (ss *storeSet) close() error {
	var errs []error
	for _, s := range ss.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// time measures the queries, evenly chosen where there are many.
func (ss *storeSet) time(ctx context.Context, queries []Query, passes int) error {
	n := min(len(queries), timedQueries)
	fastest := make([]time.Duration, n)
	for pass := range passes {
		for i := range n {
			start := time.Now()
			if _, err := ss.search(ctx, queries[i*len(queries)/n]); err != nil {
				return err
			}
			if took := time.Since(start); pass == 0 || took < fastest[i] {
				fastest[i] = took
			}
		}
	}
	slices.Sort(fastest)
	micros := func(i int) float64 { return float64(fastest[i].Nanoseconds()) / 1e3 }
	ss.cost.QueryP50, ss.cost.QueryP99, ss.cost.QueryMax = micros(n*50/100), micros(n*99/100), micros(n-1)
	return nil
}

// HeapBytes returns the bytes of the heap in use after a garbage collection.
func HeapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// FromStore creates a set from the entries of a store and a file of questions.
// Each line has a question, a tab, and the name of the entry that answers it.
// Repeat the question on another line for each further entry that answers it.
// The ID of a question is the number of its first line. The set shares the
// memory of the store, which must stay open.
func FromStore(name string, store *crmem.Store, open Open, questions string) (*Set, error) {
	s := &Set{Name: name}
	for e := range store.All() {
		s.Docs = append(s.Docs, Doc{ID: e.Name, Entry: e})
	}
	slices.SortFunc(s.Docs, func(a, b Doc) int { return cmp.Compare(a.ID, b.ID) })
	var queries []Query
	ids := make(map[string]string) // by question
	qrels := make(map[string]map[string]int)
	err := eachLine(open, questions, func(n int, line []byte) error {
		text := string(line)
		if strings.TrimSpace(text) == "" {
			return nil
		}
		question, answer, ok := strings.Cut(text, "\t")
		if !ok || answer == "" {
			return errors.New("want a question, a tab, and the name of an entry")
		}
		if !utf8.ValidString(text) {
			return errors.New("invalid UTF-8")
		}
		id := ids[question]
		if id == "" {
			id = strconv.Itoa(n)
			ids[question] = id
			qrels[id] = make(map[string]int)
			queries = append(queries, Query{ID: id, Text: question})
		}
		qrels[id][answer] = 1
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(queries) == 0 {
		return nil, fmt.Errorf("%s: no questions", questions)
	}
	return s, s.judge(queries, qrels)
}
