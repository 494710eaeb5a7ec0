package crmem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/metadata"
)

// Query is a search request.
type Query struct {
	Text      string
	Limit     int               // 0: no limit
	Kinds     []Kind            // empty = all
	Analyzer  analysis.Analyzer // Standard searches names too; Plain is the reference's: content and aliases
	Count     bool              // fill Result.Total
	Explain   bool              // fill Result.Explanations
	Syntax    bool              // read Text as words and clauses, see [parseClauses]
	Filter    Filter            // applies before the limit, as Kinds does
	MinShare  float64           // drop hits with less than this share of the best score
	Sort      Sort              // order of the matches; applies before the limit
	Uncounted bool              // do not count reads of the hits
	Expand    bool              // add up to 50 entries that the hits link to, after the hits; Limit and Filter do not apply to them
}

// Hit is an entry that was found.
type Hit struct {
	Entry
	Score float64
	Marks *Marks // nil: none
	// Importance is how importance changed the score. It is nil unless
	// Options.ImportanceWeight is set and the analyzer is Standard.
	Importance *Importance
}

// MarshalJSON writes the entry's keys and "score".
func (h Hit) MarshalJSON() ([]byte, error) {
	type plain Entry
	if h.Aliases == nil {
		h.Aliases = []string{}
	}
	return format.MarshalJSON(struct {
		plain
		Score float64 `json:"score"`
	}{plain(h.Entry), h.Score})
}

// Result is the result of a search.
type Result struct {
	Hits     []Hit // score descending, then ID ascending
	Total    int   // matches before the limit; with Query.Count
	Searched int   // entries of the requested kinds
	// Corrections are the terms that replaced query words that no entry
	// contains.
	Corrections  []bm25.Correction
	Explanations []bm25.Explanation // of Hits, in their order; with Query.Explain
}

// maxNamed is the longest text that is looked up as a name, in bytes.
const maxNamed = 512

// index is an index of the store that is built, or being built.
type index struct {
	x     *bm25.Index
	names bool // names are indexed
	// relations contains entries with relations, by ID. It is empty unless names are indexed.
	relations map[uint64]relations
	// links contains the targets of the links of entries, by ID. It is nil unless
	// names are indexed and importance affects rankings.
	links   map[uint64][]string
	inbound inbound
	ready   chan struct{} // closed when built or err is set
	err     error

	// building and late: changes made while it is built wait here. Guarded by
	// Store.mu.
	building bool
	late     []change
}

// indexingStep is the number of entries between two calls of Options.Indexing.
const indexingStep = 64

type change struct {
	id  uint64
	rec format.Record // "" = removed
}

func (ix *index) change(id uint64, r format.Record) {
	if ix.building {
		ix.late = append(ix.late, change{id, r})
		return
	}
	if ix.names {
		ix.related(id, r)
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

// Index starts to build the index in the background, unless that has begun. The
// first search does the same; call Index to reduce the latency of that search.
func (s *Store) Index(a analysis.Analyzer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.indexLocked(a)
}

func (s *Store) indexLocked(a analysis.Analyzer) *index {
	if ix := s.ix[a]; ix != nil {
		return ix
	}
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		ix.err = errors.Join(errClosed, err)
	}
	ix.building = false
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
func (s *Store) dropIndex() { clear(s.ix[:]) }

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
			s.mu.Lock()
			ix = s.indexLocked(a)
			s.mu.Unlock()
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

func (q *Query) classes() uint8 {
	var c uint8
	for _, k := range q.Kinds {
		c |= 1 << k
	}
	return c
}

// Search returns the entries that match best. The first search builds the
// index, and waits for it.
func (s *Store) Search(ctx context.Context, q Query) (Result, error) {
	for _, k := range q.Kinds {
		if k != Note && k != Archive {
			return Result{}, fmt.Errorf("%w: %v", ErrInvalid, k)
		}
	}
	c, err := q.parse()
	if err != nil {
		return Result{}, err
	}
	weighs := s.weighsHits(&q)
	if weighs {
		s.loadUsage()
	}
	ix, err := s.indexed(ctx, q.Analyzer)
	if err != nil {
		return Result{}, err
	}
	defer s.mu.RUnlock()
	x := s.query(q, c)
	rank := s.newRanker(ix)
	if rank.moves || q.Sort != ByScore { // any match may become one of the first
		x.Limit, x.Explain = 0, false
	}
	var found bm25.Result
	var weigh *weigher
	if weighs {
		weigh = s.newWeigher(ix)
		found = weigh.search(ix, x, x.Limit)
	} else {
		found = ix.x.Search(x)
	}
	r := Result{Hits: make([]Hit, 0, len(found.Hits)), Total: found.Total, Searched: s.t.count(q.Kinds), Corrections: found.Corrections}
	for _, h := range found.Hits {
		if h.Score < q.MinShare*found.Hits[0].Score {
			break
		}
		r.Hits = append(r.Hits, Hit{Entry: entryOf(s.t.byID(h.ID)), Score: h.Score})
	}
	if weighs {
		weigh.weigh(r.Hits)
	}
	r.Hits = rank.order(r.Hits, q.Sort)
	if q.Limit > 0 {
		r.Hits = r.Hits[:min(len(r.Hits), q.Limit)]
	}
	for i := range r.Hits {
		r.Hits[i].Marks = rank.mark(r.Hits[i].ID)
	}
	if !q.Uncounted {
		s.countReads(r.Hits)
	}
	if q.Expand {
		r.Hits = rank.expand(r.Hits)
	}
	if q.Explain {
		r.Explanations = found.Explanations[:min(len(r.Hits), len(found.Explanations))]
		for _, h := range r.Hits[len(r.Explanations):] {
			e := bm25.Explanation{ID: h.ID}
			if h.Marks == nil || h.Marks.Linked == nil {
				e, _ = ix.x.Explain(x, h.ID)
			}
			r.Explanations = append(r.Explanations, e)
		}
	}
	return r, nil
}

// parse returns the clauses of a query. Without Syntax, all of Text is text.
func (q *Query) parse() (clauses, error) {
	if !q.Syntax {
		return clauses{text: q.Text}, nil
	}
	return parseClauses(q.Text)
}

// query returns q, whose clauses are c, as a query of the index. The caller holds mu
// for reading.
func (s *Store) query(q Query, c clauses) bm25.Query {
	x := bm25.Query{Text: c.text, Limit: q.Limit, Classes: q.classes(), Count: q.Count, Explain: q.Explain}
	if !c.empty() || !q.Filter.empty() {
		x.Filter = func(id uint64) bool {
			r := s.t.byID(id)
			content, _ := r.Content()
			return q.Filter.Selects(r.CreatedAt(), content) && c.passes(r, q.Analyzer)
		}
	}
	if q.Analyzer == analysis.Standard {
		x.Texts, x.Named, x.Correct = s.texts, s.named(c.text), true
	}
	return x
}

// texts returns the indexed texts of an entry: the name, the aliases, tags and values of
// relations, the text after the front matter, and the other metadata.
func (s *Store) texts(id uint64) []string {
	r := s.t.byID(id)
	content, _ := r.Content()
	names, text, values := metadata.Parts(content)
	texts := append(make([]string, 0, 4), r.Name())
	texts = append(append(texts, r.Aliases()...), names...)
	return append(append(texts, text), values...)
}

// named returns the entries that have text, in one of its common spellings, as
// name or alias.
func (s *Store) named(text string) []uint64 {
	if len(text) > maxNamed {
		return nil
	}
	text = strings.TrimSpace(text)
	lower := strings.ToLower(text)
	words := strings.FieldsFunc(lower, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r) })
	var ids []uint64
	tried := make([]string, 0, 5)
	for _, name := range []string{text, lower, strings.Join(words, " "), strings.Join(words, "-"), strings.Join(words, "_")} {
		if name == "" || slices.Contains(tried, name) {
			continue
		}
		tried = append(tried, name)
		if r := s.t.byName(name); r != "" {
			ids = append(ids, r.ID())
		}
		ids = append(ids, s.t.alias(name)...)
	}
	return ids
}

// Explain returns the score breakdown of an entry, and whether the entry is in
// the store. A score of 0 means no match.
func (s *Store) Explain(ctx context.Context, q Query, id uint64) (bm25.Explanation, bool, error) {
	c, err := q.parse()
	if err != nil {
		return bm25.Explanation{}, false, err
	}
	ix, err := s.indexed(ctx, q.Analyzer)
	if err != nil {
		return bm25.Explanation{}, false, err
	}
	defer s.mu.RUnlock()
	e, ok := ix.x.Explain(s.query(q, c), id)
	return e, ok, nil
}

// IndexStats returns the size of an index, building it if need be.
func (s *Store) IndexStats(ctx context.Context, a analysis.Analyzer) (bm25.Stats, error) {
	ix, err := s.indexed(ctx, a)
	if err != nil {
		return bm25.Stats{}, err
	}
	defer s.mu.RUnlock()
	return ix.x.Stats(), nil
}
